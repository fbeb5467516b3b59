"""`prioritize`: an explicit place in the queue."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import bulk, edits, errors, options
from cli.reading import Object
from cli.session import Session
from crds import phases


@options.choosing
def run(
    session: Session,
    chosen: bulk.Choice,
    position: Annotated[
        int | None, Option(help="Place in the queue (spec.queuePosition); smaller is sooner. [default: 1]")
    ] = None,
    clear: Annotated[
        bool, Option("--clear", help="Remove the place: clients take turns again, and within a client age counts.")
    ] = False,
) -> None:
    """Give tasks a place among those of their mode. Foreground tasks come before Background ones in any case; a
    Background task that has waited for long may come before one with a place."""
    if clear and position is not None:
        raise errors.Unusable("--clear and --position exclude each other.", field="--clear", remedy="Give one of them.")
    wanted = None if clear else 1 if position is None else position

    def change(raw: Object) -> edits.Patch | None:
        return edits.position(raw, wanted)

    where = "without a position" if wanted is None else f"at position {wanted}"
    act = bulk.edited(session, change)
    verb = bulk.Verb("Prioritize", f"now queues {where}", f"queues {where} already", act, phases.UNFINISHED)
    bulk.run(session, chosen, verb)
