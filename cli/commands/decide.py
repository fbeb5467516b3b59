"""`approve` and `reject`: one decision, either way, on one request or on many."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from cli import bulk, edits, errors, options, order, reading
from cli.reading import Object
from cli.session import Session
from crds import approvals, phases
from crds.pendingtask import UserTaskKind, Verdict

Comment = Annotated[str, Option("--comment", "-m", help="Reason of the decision; the run reads it.")]
Arguments = Annotated[
    str,
    Option(
        "--arguments",
        metavar="FILE|JSON",
        help="Edited arguments of the action that is asked for: a JSON object, or a file with one; `-` reads it from"
        " standard input. `get` shows those that were asked for.",
    ),
]


@options.choosing
def approve(session: Session, chosen: bulk.Choice, comment: Comment = "", arguments: Arguments = "") -> None:
    """Approve what a task asks for; a failed task is tried again. Selected tasks: approval requests only."""
    if arguments:
        chosen.only("--arguments")
    _decide(session, chosen, Verdict.APPROVED, comment, _object(arguments) if arguments else "")


@options.choosing
def reject(session: Session, chosen: bulk.Choice, comment: Comment = "") -> None:
    """Reject what a task asks for; a failed task is given up. Selected tasks: approval requests only."""
    _decide(session, chosen, Verdict.REJECTED, comment)


def _decide(session: Session, chosen: bulk.Choice, verdict: Verdict, comment: str, arguments: str = "") -> None:
    author = session.kube.whoami()

    def change(raw: Object) -> edits.Patch | None:
        if chosen.selects:
            _request(raw)
        return edits.decide(raw, verdict, comment, author, arguments)

    word = verdict.value.lower()
    verb = "Approve" if verdict is Verdict.APPROVED else "Reject"
    act = bulk.edited(session, change)
    bulk.run(session, chosen, bulk.Verb(verb, word, f"was {word} already", act, phases.ASKING))


def _object(given: str) -> str:
    """The JSON object that a flag gives or names, in one line; raises `Unusable`."""
    if given.lstrip().startswith("{"):
        text = given
    else:
        try:
            text = sys.stdin.read() if given == "-" else Path(given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.Unusable(
                f"{given} cannot be read: {error}",
                field="--arguments",
                remedy="Give a file with a JSON object, or one.",
            ) from error
    if fault := approvals.fault(text.strip(), len(text)):
        raise errors.Unusable(f"What --arguments gives {fault}.", field="--arguments", remedy="Give a JSON object.")
    return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def _request(raw: Object) -> None:
    """Raises `Misplaced` for a failure: giving up a whole selection of those is `delete`, another try is `retry`."""
    task = reading.task(raw)
    asked = task.status.user_task
    if order.phase(task) is not phases.Phase.USER_TASK or asked is None or asked.kind is not UserTaskKind.APPROVAL:
        raise errors.Misplaced(f"PendingTask {task.metadata.name!r} asks for no approval.")
