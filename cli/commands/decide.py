"""`approve` and `reject`: one decision, either way."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import edits, options
from cli.commands import done
from cli.reading import Object
from cli.session import Session
from crds.pendingtask import Verdict

Comment = Annotated[str, Option("--comment", "-m", help="Why; the run reads it.")]


@options.connected
def approve(session: Session, name: options.TaskName, comment: Comment = "") -> None:
    """Approve what a task asks for; a failed task is tried again."""
    _decide(session, name, Verdict.APPROVED, comment)


@options.connected
def reject(session: Session, name: options.TaskName, comment: Comment = "") -> None:
    """Reject what a task asks for; a failed task is given up."""
    _decide(session, name, Verdict.REJECTED, comment)


def _decide(session: Session, name: str, verdict: Verdict, comment: str) -> None:
    author = session.kube.whoami()

    def change(raw: Object) -> edits.Patch | None:
        return edits.decide(raw, verdict, comment, author)

    raw, written = session.kube.edit(name, change)
    word = verdict.value.lower()
    done.say(session, raw, written, word, otherwise=f"was {word} already")
