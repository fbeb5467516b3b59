"""`queue`: the waiting tasks, first come first, and why each waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

from rich import text
from typer import Option

from cli import errors, options, order, output, reading, waits
from cli.session import Session
from cli.views import queue as view
from cli.views import waiting
from contracts.api import queue_api as served
from crds import pendingtask, phases
from crds.errors import JervisError
from crds.phases import Phase

T = TypeVar("T")
_LIVE = frozenset(Phase) - phases.TERMINAL
_PAUSE = 2.0
_NO_ANSWER = "What tasks wait for is taken from their objects: "


@options.connected
def run(
    session: Session,
    all_namespaces: Annotated[bool, Option("--all-namespaces", "-A", help="Tasks of all namespaces.")] = False,
    client: Annotated[str, Option(help="Only tasks of this client (spec.clientId).")] = "",
    phase: Annotated[
        list[Phase] | None,
        Option(metavar="PHASE", help="Show tasks in this phase instead of waiting ones; may be repeated."),
    ] = None,
    live: Annotated[
        bool, Option("--all", help="Show every task that has not ended, also running and scheduled ones.")
    ] = False,
    watch: Annotated[
        bool, Option("--watch", "-w", help="Show the queue again whenever it changes, until Ctrl-C.")
    ] = False,
) -> None:
    """Tasks that wait for their turn, in the order in which the operator takes them, and what each waits for.

    The order and the reasons come from the operator; where it cannot be reached, from the tasks' objects. With -A it is
    not asked: there is no BEFORE and no SINCE, and JSON has no `queue`.
    """
    if watch:
        if all_namespaces or phase or live:
            raise errors.Refused(
                "--watch shows the waiting tasks of one namespace.",
                field="--watch",
                remedy="Leave out -A, --phase and --all.",
            )
        _watch(session, client)
        return
    wanted = frozenset(phase) if phase else _LIVE if live else order.WAITING
    asks = not all_namespaces and bool(wanted & order.WAITING)
    reported, why_not = waits.asked(session, client) if asks else (None, "")
    if session.output.format is not output.Format.TABLE:
        more = {"queue": reported and reported.model_dump(mode="json", by_alias=True)} if asks else {}
        found = _objects(session, wanted, client, everywhere=all_namespaces, reported=reported)
        session.output.show(output.document(found, **more), text.Text())
        return
    if reported is not None and wanted == order.WAITING:
        # The operator has said all that the table shows: no object is read.
        drawn = waiting.lines(reported, session.now())
    else:
        tasks = _tasks(session, wanted, client, everywhere=all_namespaces, reported=reported)
        drawn = view.draw(tasks, session.now(), namespaces=all_namespaces, reported=reported)
    session.output.show({}, drawn)
    if reported is not None:
        session.output.note(waiting.summary(reported, session.now()))
    elif why_not:
        session.output.note(_NO_ANSWER + why_not)


def _fields(wanted: frozenset[Phase], client: str) -> str:
    """The field selector of what may be wanted. A task that the operator has not seen has no phase: New is left out."""
    others = sorted(phase.value for phase in frozenset(Phase) - wanted - {Phase.NEW})
    owner = [f"spec.clientId={client}"] if client else []
    return ",".join([*(f"status.phase!={phase}" for phase in others), *owner])


def _sorted(found: Iterable[tuple[pendingtask.PendingTask, T]], reported: served.Queue | None) -> list[T]:
    """In the operator's order as far as it is known, then by what the objects say."""
    place = {one.uid: number for number, one in enumerate(reported.items)} if reported is not None else {}
    ordered = sorted(found, key=lambda one: (place.get(one[0].metadata.uid, len(place)), order.of(one[0])))
    return [one for _, one in ordered]


def _tasks(
    session: Session,
    wanted: frozenset[Phase],
    client: str,
    *,
    everywhere: bool = False,
    reported: served.Queue | None = None,
) -> list[pendingtask.PendingTask]:
    lines = map(reading.line, session.kube.tasks(everywhere=everywhere, fields=_fields(wanted, client)))
    return _sorted(((task, task) for task in lines if order.phase(task) in wanted), reported)


def _objects(
    session: Session,
    wanted: frozenset[Phase],
    client: str,
    *,
    everywhere: bool = False,
    reported: served.Queue | None = None,
) -> list[reading.Object]:
    listed = session.kube.tasks(everywhere=everywhere, fields=_fields(wanted, client))
    known = ((reading.task(raw), raw) for raw in listed)
    return _sorted(((task, raw) for task, raw in known if order.phase(task) in wanted), reported)


def _watch(session: Session, client: str) -> None:
    try:
        for reported in waits.followed(session, client):
            session.output.again(reported.model_dump(mode="json", by_alias=True), waiting.draw(reported, session.now()))
    except JervisError as error:
        _poll(session, client, error.message)


def _poll(session: Session, client: str, why_not: str) -> None:
    """Without the operator: the objects, now and then."""
    session.output.note(_NO_ANSWER + why_not)
    whole = session.output.format is not output.Format.TABLE
    shown: list[str] | None = None
    while True:
        heads = (one["metadata"] for one in session.kube.metadata(fields=_fields(order.WAITING, client)))
        now = [f"{head['uid']} {head['resourceVersion']}" for head in heads]
        if now != shown:
            shown = now
            found = _objects(session, order.WAITING, client) if whole else []
            tasks = [] if whole else _tasks(session, order.WAITING, client)
            session.output.again(output.document(found), view.draw(tasks, session.now(), namespaces=False))
        session.sleep(_PAUSE)
