"""`result`: the whole answer of a task, of one that lives or has ended."""

from __future__ import annotations

from cli import archive, errors, options
from cli.reading import Object
from cli.session import Session
from cli.views import result as view


@options.connected
def run(session: Session, name: options.TaskName) -> None:
    """The whole answer of a task with its sources; what `get` shows of it is at most 2 KiB."""
    api = archive.Client(session.kube)
    uid, phase = identity(session, api, name)
    try:
        found = archive.result(api, uid)
    except errors.NotFound as error:
        raise missing(name, phase) from error
    session.output.show(found, view.draw(found["result"]))


def missing(name: str, phase: str) -> errors.NotFound:
    """The error of a task without a result."""
    return errors.NotFound(
        f"PendingTask {name!r} has no result yet (phase {phase}).",
        field="NAME",
        remedy=f"Wait for its run: kubectl jervis get {name}",
    )


def identity(session: Session, api: archive.Client, name: str) -> tuple[str, str]:
    """Uid and phase of the task of that name; of the one that ended last when none lives."""
    try:
        raw: Object = session.kube.task(name)
        return str(raw["metadata"]["uid"]), str(raw.get("status", {}).get("phase", "New"))
    except errors.NotFound:
        latest = next(archive.entries(api, {"name": name}, 1), None)
        if latest is None:
            raise
        return str(latest["uid"]), str(latest["phase"])
