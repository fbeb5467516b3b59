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
    name: Annotated[
        str, Argument(metavar="[NAME]", help="Show the last finished task of this name with its whole answer.")
    ] = "",
    client: Annotated[str, Option(help="Only tasks of this client (spec.clientId).")] = "",
    phase: Annotated[
        str, Option(metavar="PHASE", help=f"Only tasks that ended in this phase: {', '.join(_ENDS)}.")
    ] = "",
    since: Annotated[
        str,
        Option(help="Only tasks that ended within this time (90m, 12h, 7d) or since a moment (2027-03-01T12:00:00Z)."),
    ] = "",
    limit: Annotated[int, Option("--limit", "-l", help="Largest number of tasks; the latest come first.", min=1)] = 50,
) -> None:
    """Finished tasks of the namespace, from the archive."""
    asked = {"client": client, "phase": phase, "name": name, "since": moment.since(since, session.now())}
    api = archive.Client(session.kube)
    if not name:
        found = list(itertools.islice(archive.entries(api, asked, limit), limit))
        entries = [reading.entry(raw) for raw in found]
        session.output.show({"items": found, "next": None}, view.draw(entries, session.now()))
        return
    latest = next(archive.entries(api, asked, 1), None)
    if latest is None:
        raise errors.NotFound(
            f"No finished task called {name!r} is in the archive of namespace {session.kube.namespace!r}.",
            field="NAME",
            remedy=f"It may be unfinished: kubectl jervis get {name}",
        )
    raw = archive.whole(api, str(latest["uid"]))
    task = reading.task(raw["object"])
    drawn = console.Group(story.draw(task, session.now()), view.result(raw.get("result")))
    session.output.show(raw, drawn)
