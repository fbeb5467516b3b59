"""`history`: tasks that have ended, long after their objects are gone."""

from __future__ import annotations

import itertools
from typing import Annotated

from rich import console
from typer import Argument, Option

from cli import archive, errors, moment, options, reading
from cli.session import Session
from cli.views import history as view
from cli.views import story
from crds import phases

_ENDS = sorted(phase.value for phase in phases.TERMINAL)


@options.connected
def run(
    session: Session,
    name: Annotated[str, Argument(metavar="[NAME]", help="Everything about the last task of this name.")] = "",
    client: Annotated[str, Option(help="Of this client only.")] = "",
    phase: Annotated[str, Option(metavar="PHASE", help=f"Only those that ended so: {', '.join(_ENDS)}.")] = "",
    since: Annotated[str, Option(help="Ended within this time: 90m, 12h, 7d; or since an RFC 3339 time.")] = "",
    limit: Annotated[int, Option("--limit", "-l", help="How many at the most; the latest first.", min=1)] = 50,
) -> None:
    """Finished tasks of the namespace, from the archive."""
    asked = {"client": client, "phase": phase, "name": name, "since": moment.since(since, session.now())}
    door = archive.Door(session.kube)
    if not name:
        found = list(itertools.islice(archive.entries(door, asked, limit), limit))
        entries = [reading.entry(raw) for raw in found]
        session.output.show({"items": found, "next": None}, view.draw(entries, session.now()))
        return
    latest = next(archive.entries(door, asked, 1), None)
    if latest is None:
        raise errors.NotFound(
            f"No finished task called {name!r} is in the archive of namespace {session.kube.namespace!r}.",
            field="NAME",
            remedy=f"It may be unfinished: kubectl jervis get {name}",
        )
    raw = archive.whole(door, str(latest["uid"]))
    task = reading.task(raw["object"])
    drawn = console.Group(story.draw(task, session.now()), view.result(raw.get("result")))
    session.output.show(raw, drawn)
