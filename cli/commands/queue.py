"""`queue`: the waiting tasks, first come first."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import options, order, output, reading
from cli.session import Session
from cli.views import queue as view
from crds import phases
from crds.phases import Phase

_LIVE = frozenset(Phase) - phases.TERMINAL


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
) -> None:
    """Tasks that wait for their turn, in the order in which the operator takes them."""
    wanted = frozenset(phase) if phase else _LIVE if live else order.WAITING
    unfinished = not wanted & phases.TERMINAL
    found = session.kube.tasks(
        everywhere=all_namespaces,
        fields=",".join(
            [*([phases.UNFINISHED] if unfinished else ()), *([f"spec.clientId={client}"] if client else ())]
        ),
    )
    raws = {}
    for raw in found:
        task = reading.task(raw)
        if order.phase(task) in wanted:
            raws[task.metadata.uid] = (task, raw)
    line = order.queue(task for task, _ in raws.values())
    drawn = view.draw(line, session.now(), namespaces=all_namespaces)
    session.output.show(output.document([raws[task.metadata.uid][1] for task in line]), drawn)
