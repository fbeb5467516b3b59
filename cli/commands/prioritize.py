"""`prioritize`: an explicit place in the queue."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import edits, errors, options
from cli.commands import done
from cli.reading import Object
from cli.session import Session


@options.connected
def run(
    session: Session,
    name: options.TaskName,
    position: Annotated[int | None, Option(help="spec.queuePosition; smaller is sooner. [default: 1]")] = None,
    clear: Annotated[bool, Option("--clear", help="Take the position away: by age again.")] = False,
) -> None:
    """Move a task within its lane. Foreground tasks always come before Background ones."""
    if clear and position is not None:
        raise errors.Unusable("--clear and --position exclude each other.", field="--clear", remedy="Give one of them.")
    wanted = None if clear else 1 if position is None else position

    def change(raw: Object) -> edits.Patch | None:
        return edits.position(raw, wanted)

    raw, written = session.kube.edit(name, change)
    where = "by age" if wanted is None else f"at position {wanted}"
    done.say(session, raw, written, f"now queues {where}", otherwise=f"queues {where} already")
