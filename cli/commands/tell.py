"""`tell`: add a message to a task."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option

from cli import edits, options
from cli.commands import done
from cli.reading import Object
from cli.session import Session


@options.acting
def run(
    session: Session,
    name: options.TaskName,
    text: Annotated[str, Argument(metavar="TEXT", help="Text of the message; `-` reads it from standard input.")],
    key: Annotated[
        str, Option("--id", help="Id of the message; the same id twice is one message. [default: a new one]")
    ] = "",
) -> None:
    """Add a message. A run under way ends first, then the task runs again with all messages."""
    words = sys.stdin.read().strip() if text == "-" else text
    author, at, identity = session.kube.whoami(), session.now(), key or session.identity()

    def change(raw: Object) -> edits.Patch | None:
        return edits.say(raw, identity, words, author, at)

    raw, written = session.kube.edit(name, change)
    done.say(session, raw, written, f"message added ({identity})", otherwise=f"has the message already ({identity})")
