"""`trace`: what the runs of a task did, as a tree; live while it runs."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Option

from cli import archive, errors, options, order, output, reading
from cli.commands import result
from cli.session import Session
from cli.views import trace as view
from contracts.api.history import Trace
from crds import phases

_SECONDS = 2.0
_STANDS = phases.TERMINAL | {phases.Phase.USER_TASK}


@options.connected
def run(
    session: Session,
    name: options.TaskName,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Print what changes until the task has ended or waits for a person.")
    ] = False,
) -> None:
    """What the run of a task did and delegated to which agents: status, times, calls, tokens, confidence, effects."""
    api = archive.Client(session.kube)
    uid, phase = result.identity(session, api, name)
    if follow:
        _follow(session, api, name, uid)
        return
    found = _read(api, uid)
    if found is None:
        raise errors.NotFound(
            f"Nothing is known of a run of PendingTask {name!r} (phase {phase}).",
            field="NAME",
            remedy=f"Wait for its run: kubectl jervis trace {name} --follow",
        )
    session.output.show(found.wire(), view.draw(found, session.now()))


def _follow(session: Session, api: archive.Client, name: str, uid: str) -> None:
    """The changes as lines, then the whole tree."""
    shown: Trace | None = None
    while True:
        over = _over(session, name)
        found = _read(api, uid)
        if found is not None:
            if session.output.format is output.Format.TABLE:
                for line in view.changes(shown, found, session.now()):
                    sys.stdout.write(line + "\n")
                sys.stdout.flush()
            shown = found
        # Read after the look at the phase: the last changes are among what was printed.
        if over:
            break
        session.sleep(_SECONDS)
    if shown is not None:
        session.output.show(shown.wire(), view.draw(shown, session.now()))


def _over(session: Session, name: str) -> bool:
    try:
        return order.phase(reading.task(session.kube.task(name))) in _STANDS
    except errors.NotFound:
        return True  # it was archived and removed


def _read(api: archive.Client, uid: str) -> Trace | None:
    try:
        return Trace.model_validate(archive.trace(api, uid))
    except errors.NotFound:
        return None
