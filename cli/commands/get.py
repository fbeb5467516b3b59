"""`get`: the story of one task."""

from __future__ import annotations

from cli import options, order, output, reading, waits
from cli.session import Session
from cli.views import story


@options.connected
def run(session: Session, name: options.TaskName) -> None:
    """What happened to a task and why: phases, route, what it waits for, run, conditions, questions, result."""
    raw = session.kube.task(name)
    task = reading.task(raw)
    waiting = session.output.format is output.Format.TABLE and order.phase(task) in order.WAITING
    reported = waits.of(session, task) if waiting else None
    session.output.show(raw, story.draw(task, session.now(), reported))
