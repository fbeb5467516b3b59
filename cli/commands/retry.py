"""`retry`: have a failed task tried again."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import edits, options
from cli.commands import done
from cli.reading import Object
from cli.session import Session


@options.connected
def run(
    session: Session,
    name: options.TaskName,
    anew: Annotated[str, Option("--as", metavar="NEW_NAME", help="Make a new task of one that has ended.")] = "",
) -> None:
    """Try a failed task again: phase UserTask, kind Failure. What has ended starts anew with --as."""
    if anew:
        created = session.kube.create(edits.again(session.kube.task(name), anew))
        done.say(session, created, True, "created", otherwise="")
        return
    author = session.kube.whoami()

    def change(raw: Object) -> edits.Patch | None:
        return edits.retry(raw, author)

    raw, written = session.kube.edit(name, change)
    done.say(session, raw, written, "will be tried again", otherwise="was asked to be tried again already")
