"""`queue`: the waiting tasks, first come first, and why each waits."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import errors, options, order, output, reading, waits
from cli.session import Session
from cli.views import queue as view
from cli.views import waiting
from crds import pendingtask, phases
from crds.errors import JervisError
from crds.phases import Phase

_LIVE = frozenset(Phase) - phases.TERMINAL
_PAUSE = 2.0
_UNTOLD = "What tasks wait for is taken from their objects: "


@options.connected
def run(
    session: Session,
    all_namespaces: Annotated[bool, Option("--all-namespaces", "-A", help="Of every namespace.")] = False,
    client: Annotated[str, Option(help="Of this client only.")] = "",
    phase: Annotated[
        list[Phase] | None, Option(metavar="PHASE", help="In these phases instead; may be repeated.")
    ] = None,
    live: Annotated[
        bool, Option("--all", help="Every task that has not ended, also running and scheduled ones.")
    ] = False,
    watch: Annotated[bool, Option("--watch", "-w", help="Show it again whenever it changes, until Ctrl-C.")] = False,
) -> None:
    """Tasks that wait for their turn, in the order in which the operator takes them, and what each waits for.

    The reasons come from the operator; where it cannot be reached, and for all namespaces, from the objects.
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
    found = _objects(session, wanted, client, everywhere=all_namespaces)
    tasks = [task for task, _ in found.values()]
    told, why_not = (None, "")
    if session.output.format is output.Format.TABLE and not all_namespaces and wanted & order.WAITING:
        told, why_not = waits.asked(session, client)
    line = order.queue(tasks)
    if told is not None:
        place = {one.uid: number for number, one in enumerate(told.items)}
        line.sort(key=lambda task: place.get(task.metadata.uid, len(place)))
    drawn = view.draw(line, session.now(), namespaces=all_namespaces, told=told)
    session.output.show(output.document([found[task.metadata.uid][1] for task in line]), drawn)
    if told is not None:
        session.output.note(waiting.summary(told, session.now()))
    elif why_not:
        session.output.note(_UNTOLD + why_not)


def _objects(
    session: Session, wanted: frozenset[Phase], client: str, *, everywhere: bool = False
) -> dict[str, tuple[pendingtask.PendingTask, reading.Object]]:
    unfinished = [] if wanted & phases.TERMINAL else [phases.UNFINISHED]
    narrowed = [f"spec.clientId={client}"] if client else []
    raws = {}
    for raw in session.kube.tasks(everywhere=everywhere, fields=",".join([*unfinished, *narrowed])):
        task = reading.task(raw)
        if order.phase(task) in wanted:
            raws[task.metadata.uid] = (task, raw)
    return raws


def _watch(session: Session, client: str) -> None:
    try:
        for told in waits.followed(session, client):
            session.output.again(told.model_dump(mode="json", by_alias=True), waiting.draw(told, session.now()))
    except JervisError as error:
        _poll(session, client, error.message)


def _poll(session: Session, client: str, why_not: str) -> None:
    """Without the operator: the objects, now and then."""
    session.output.note(_UNTOLD + why_not)
    shown: list[str] | None = None
    while True:
        found = _objects(session, order.WAITING, client)
        line = order.queue(task for task, _ in found.values())
        now = [f"{task.metadata.uid} {task.metadata.resource_version}" for task in line]
        if now != shown:
            shown = now
            drawn = view.draw(line, session.now(), namespaces=False)
            session.output.again(output.document([found[task.metadata.uid][1] for task in line]), drawn)
        session.sleep(_PAUSE)
