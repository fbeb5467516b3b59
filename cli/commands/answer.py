"""`answer`: answer what a task asks."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer import Argument

from cli import edits, errors, options, order, reading
from cli.commands import done
from cli.session import Session
from crds import pendingtask
from crds.phases import Phase
from text import printable


@options.acting
def run(
    session: Session,
    name: options.TaskName,
    question: Annotated[
        str, Argument(metavar="QUESTION_ID", help="Id of the question. Without it every open question is asked.")
    ] = "",
    text: Annotated[str, Argument(metavar="TEXT", help="Text of the answer; `-` reads it from standard input.")] = "",
) -> None:
    """Answer a question of a task; asks for what is left out. The same answer twice is harmless."""
    author = session.kube.whoami()
    given = {question: text} if question and text else _ask(session, name, question)

    raw, written = session.kube.task(name), False
    for key, said in given.items():
        words = sys.stdin.read().strip() if said == "-" else said

        def change(raw: reading.Object, key: str = key, words: str = words) -> edits.Patch | None:
            return edits.answer(raw, key, words, author)

        raw, now_written = session.kube.edit(name, change)
        written = written or now_written
    done.say(session, raw, written, "answered", otherwise="was answered already")


def _ask(session: Session, name: str, question: str) -> dict[str, str]:
    """The answers that a person types: to one question, or to every open one."""
    task = reading.task(session.kube.task(name))
    asked = task.status.user_task if order.phase(task) is Phase.USER_TASK else None
    given = {one.id for one in task.spec.answers}
    open_ones = [one for one in (asked.questions if asked else ()) if one.id not in given]
    chosen = [one for one in open_ones if not question or one.id == question]
    if not chosen:
        known = ", ".join(one.id for one in open_ones) or "none"
        # The answer alone is what a hand types first.
        usage = f"; the id comes first: kubectl jervis answer {name} {open_ones[0].id} TEXT" if open_ones else ""
        raise errors.Misplaced(
            f"PendingTask {name!r} has no open question{f' {question!r}' if question else ''}"
            f" (phase {order.phase(task).value}).",
            field="QUESTION_ID",
            remedy=f"Open questions: {known}{usage}.",
        )
    if not sys.stdin.isatty():
        raise errors.Unusable(
            "There is no terminal to ask on.",
            field="TEXT",
            remedy=f"Give it: kubectl jervis answer {name} {chosen[0].id} TEXT (or - for standard input)",
        )
    return {one.id: _prompt(one) for one in chosen}


def _prompt(asked: pendingtask.Question) -> str:
    # Not typer.prompt: it writes to standard output, which belongs to the result.
    sys.stderr.write(f"[{asked.id}] {printable.text(asked.text)}\n")
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise typer.Abort
        if line.strip():
            return line.strip()
