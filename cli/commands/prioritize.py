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
    position: Annotated[int | None, Option(help="spec.queuePosition; smaller is sooner. [default: 1]")] = None,
    clear: Annotated[bool, Option("--clear", help="Take the position away: by age again.")] = False,
) -> None:
    """Move tasks within their lane. Foreground tasks always come before Background ones."""
    if clear and position is not None:
        raise errors.Unusable("--clear and --position exclude each other.", field="--clear", remedy="Give one of them.")
    wanted = None if clear else 1 if position is None else position

    def change(raw: Object) -> edits.Patch | None:
        return edits.position(raw, wanted)

    where = "by age" if wanted is None else f"at position {wanted}"
    act = bulk.edited(session, change)
    verb = bulk.Verb("Prioritize", f"now queues {where}", f"queues {where} already", act, phases.UNFINISHED)
    bulk.run(session, chosen, verb)
