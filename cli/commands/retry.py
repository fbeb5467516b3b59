"""`retry`: have failed tasks tried again."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import bulk, edits, options, sources
from cli.commands import done
from cli.reading import Object
from cli.session import Session
from crds import labels, phases


@options.choosing
def run(
    session: Session,
    chosen: bulk.Choice,
    anew: Annotated[
        str, Option("--as", metavar="NEW_NAME", help="Create a new task with this name from one that has ended.")
    ] = "",
) -> None:
    """Try failed tasks again: phase UserTask, kind Failure. What has ended starts anew with --as. With connection/NAME:
    the failed items of the Connection."""
    if not anew and (names := sources.named(chosen)) is not None:
        sources.wish(session, names, labels.RETRY)
        return
    if anew:
        created = session.kube.create(edits.again(session.kube.task(chosen.only("--as")), anew))
        done.say(session, created, True, "created", otherwise="")
        return
    author = session.kube.whoami()

    def change(raw: Object) -> edits.Patch | None:
        return edits.retry(raw, author)

    act = bulk.edited(session, change)
    bulk.run(
        session,
        chosen,
        bulk.Verb("Retry", "will be tried again", "was asked to be tried again already", act, phases.ASKING),
    )
