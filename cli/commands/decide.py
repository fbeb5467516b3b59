"""`approve` and `reject`: one decision, either way, on one request or on many."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli import bulk, edits, errors, options, order, reading
from cli.reading import Object
from cli.session import Session
from crds import phases
from crds.pendingtask import UserTaskKind, Verdict

Comment = Annotated[str, Option("--comment", "-m", help="Reason of the decision; the run reads it.")]


@options.choosing
def approve(session: Session, chosen: bulk.Choice, comment: Comment = "") -> None:
    """Approve what a task asks for; a failed task is tried again. Selected tasks: approval requests only."""
    _decide(session, chosen, Verdict.APPROVED, comment)


@options.choosing
def reject(session: Session, chosen: bulk.Choice, comment: Comment = "") -> None:
    """Reject what a task asks for; a failed task is given up. Selected tasks: approval requests only."""
    _decide(session, chosen, Verdict.REJECTED, comment)


def _decide(session: Session, chosen: bulk.Choice, verdict: Verdict, comment: str) -> None:
    author = session.kube.whoami()

    def change(raw: Object) -> edits.Patch | None:
        if chosen.selects:
            _request(raw)
        return edits.decide(raw, verdict, comment, author)

    word = verdict.value.lower()
    verb = "Approve" if verdict is Verdict.APPROVED else "Reject"
    act = bulk.edited(session, change)
    bulk.run(session, chosen, bulk.Verb(verb, word, f"was {word} already", act, phases.ASKING))


def _request(raw: Object) -> None:
    """Raises `Misplaced` for a failure: giving up a whole selection of those is `delete`, another try is `retry`."""
    task = reading.task(raw)
    asked = task.status.user_task
    if order.phase(task) is not phases.Phase.USER_TASK or asked is None or asked.kind is not UserTaskKind.APPROVAL:
        raise errors.Misplaced(f"PendingTask {task.metadata.name!r} asks for no approval.")
