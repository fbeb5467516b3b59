"""`get`: the story of one task."""

from __future__ import annotations

from cli import options, reading
from cli.session import Session
from cli.views import story


@options.connected
def run(session: Session, name: options.TaskName) -> None:
    """What happened to a task and why: phases, route, run, conditions, questions, result."""
    raw = session.kube.task(name)
    session.output.show(raw, story.draw(reading.task(raw), session.now()))
