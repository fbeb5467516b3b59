"""Why tasks of a namespace wait, from the operator itself; as much as the objects say where it cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator

from cli import archive
from cli.session import Session
from contracts.api import queue_api
from crds import pendingtask
from crds.errors import JervisError

_PATH = "/api/v1/queue"
_PAUSE = 2.0


def asked(session: Session, client: str) -> tuple[queue_api.Queue | None, str]:
    """The operator's answer; or None and why there is none."""
    try:
        found = archive.Client(session.kube).get(_PATH, {"client": client})
    except JervisError as error:
        return None, error.message
    return queue_api.Queue.model_validate(found), ""


def of(session: Session, task: pendingtask.PendingTask) -> queue_api.Waiting | None:
    """What the operator says of one task; None where it cannot be reached or lists others first."""
    reported, _ = asked(session, task.spec.client_id)
    return next((one for one in reported.items if one.uid == task.metadata.uid), None) if reported is not None else None


def followed(session: Session, client: str) -> Iterator[queue_api.Queue]:
    """The answer, and again whenever it changes; for ever.

    Raises the error of the first try; what goes wrong later is tried again.
    """
    api, begun = archive.Client(session.kube), False
    while True:
        try:
            for found in api.events(f"{_PATH}/events", {"client": client}):
                begun = True
                yield queue_api.Queue.model_validate(found)
        except JervisError:
            if not begun:
                raise
        session.sleep(_PAUSE)
