"""`approve` and `reject`: one decision, on one request or on many, on all of its effects or on some."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import click
from typer import Option

from cli import approving, archive, bulk, edits, errors, options, order, reading
from cli.reading import Object
from cli.session import Session
from crds import approvals, pendingtask, phases
from crds.pendingtask import UserTaskKind, Verdict

Comment = Annotated[str, Option("--comment", "-m", help="Reason of the decision; the run reads it.")]
Only = Annotated[
    str, Option("--only", metavar="NUMBERS", help="Approve these effects, as in 1,3, and reject the others.")
]
Rejected = Annotated[
    list[str] | None,
    Option("--reject", metavar="NUMBER[=REASON]", help="Reject this effect, approve the others; may be repeated."),
]
Reason = Annotated[
    list[str] | None,
    Option("--reason", metavar="NUMBER=REASON", help="Reason for one of several effects; may be repeated."),
]
Arguments = Annotated[
    list[str] | None,
    Option(
        "--arguments",
        metavar="[NUMBER=]FILE|JSON",
        help="Edited arguments of an effect: a JSON object, or a file with one; `-` reads it from standard input;"
        " may be repeated.",
    ),
]
Edit = Annotated[bool, Option("--edit", help="Decide in an editor ($EDITOR): each effect with its arguments.")]
ForTask = Annotated[
    bool, Option("--for-task", help="The tool of what is approved asks no more at its targets in this task.")
]


@options.choosing
def approve(
    session: Session,
    chosen: bulk.Choice,
    comment: Comment = "",
    only: Only = "",
    rejected: Rejected = None,
    arguments: Arguments = None,
    edit: Edit = False,
    for_task: ForTask = False,
) -> None:
    """Approve what a task asks for; a failed task is tried again. Of several effects say which: --all of them, --only
    some, or --edit. Selected tasks: approval requests only, whole."""
    flags = {"--only": only, "--reject": rejected, "--arguments": arguments, "--edit": edit}
    given = [flag for flag, value in flags.items() if value]
    # With a name, --all means all effects of its request.
    every, chosen = chosen.everything or chosen.selects, replace(chosen, everything=False) if chosen.names else chosen
    for flag in given:
        chosen.only(flag)
    if (edit and len(given) > 1) or (only and rejected) or (only and every):
        raise errors.Unusable(
            f"{' and '.join([*given, *(['--all'] if every else [])])} exclude each other.",
            field=given[0],
            remedy="Give one of them.",
        )
    choice = approving.Choice(
        Verdict.APPROVED,
        comment,
        every=every,
        only=approving.numbers(only, "--only") if only else frozenset(),
        rejected=approving.numbered(rejected or (), "--reject"),
        arguments=_arguments(arguments or ()),
        for_task=for_task,
    )
    if edit:
        edited = _edited(session, chosen.only("--edit"))
        if edited is None:
            raise errors.Unusable(
                "The file was not saved, so nothing is decided.", field="--edit", remedy="Save it to decide."
            )
        choice = replace(edited, comment=comment, for_task=for_task)
    _decide(session, chosen, choice)


@options.choosing
def reject(session: Session, chosen: bulk.Choice, comment: Comment = "", reason: Reason = None) -> None:
    """Reject what a task asks for; a failed task is given up. Selected tasks: approval requests only."""
    if reason:
        chosen.only("--reason")
    reasons = approving.numbered(reason or (), "--reason")
    _decide(session, chosen, approving.Choice(Verdict.REJECTED, comment, rejected=reasons))


def _decide(session: Session, chosen: bulk.Choice, choice: approving.Choice) -> None:
    author = session.kube.whoami()

    def change(raw: Object) -> edits.Patch | None:
        if chosen.selects:
            _request(raw)
        return edits.decide(raw, choice, author)

    word = choice.verdict.value.lower()
    verb = "Approve" if choice.verdict is Verdict.APPROVED else "Reject"
    act = bulk.edited(session, change)
    bulk.run(session, chosen, bulk.Verb(verb, word, f"was {word} already", act, phases.ASKING))


def _arguments(given: Sequence[str]) -> dict[int, str]:
    """Of the flag, by the number of the effect. Raises `Unusable`."""
    found: dict[int, str] = {}
    for one in given:
        head, sign, rest = one.partition("=")
        number, value = (int(head), rest) if sign and head.isdecimal() and head.isascii() else (1, one)
        if number in found or number < 1:
            raise errors.Unusable(
                f"The arguments of effect {number} are given twice, or there is no such number.",
                field="--arguments",
                remedy="Give for each effect: --arguments NUMBER=FILE",
            )
        found[number] = _object(value)
    return found


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


def _edited(session: Session, name: str) -> approving.Choice | None:
    """What a person decides in an editor; None where the file was not saved. A file that cannot be used is opened once
    more, with what is wrong with it; what was written there is kept."""
    task = reading.task(session.kube.task(name))
    asked = task.status.user_task
    if order.phase(task) is not phases.Phase.USER_TASK or asked is None or not asked.effects:
        raise errors.Misplaced(
            f"PendingTask {name!r} asks for the approval of no effect.",
            field="status.userTask.effects",
            remedy=f"See what it waits for: kubectl jervis get {name}",
        )
    waiting = _waiting(session, task, asked)
    text, wrong = approving.form(name, waiting), ""
    while (saved := click.edit(f"{wrong}{text}", extension=".yaml")) is not None:
        if saved.strip() == f"{wrong}{text}".strip() and wrong:
            break
        text = saved.removeprefix(wrong)
        try:
            return approving.decided(text, waiting)
        except errors.Unusable as error:
            wrong = f"# NOT USABLE: {error.message}\n"
    if not wrong:
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix="jervis-", delete=False, encoding="utf-8") as kept:
        kept.write(text)
    raise errors.Unusable(
        wrong.removeprefix("# NOT USABLE: ").strip(), field="--edit", remedy=f"What you wrote is in {kept.name}."
    )


def _waiting(
    session: Session, task: pendingtask.PendingTask, asked: pendingtask.UserTask
) -> Sequence[Mapping[str, Any]]:
    """The effects of the request, whole: from the result where the status has only a part of them."""
    if not any(effect.shortened for effect in asked.effects):
        return [{**effect.wire(), "arguments": json.loads(effect.arguments or "{}")} for effect in asked.effects]
    found = archive.result(archive.Client(session.kube), task.metadata.uid)["result"].get("waiting") or ()
    whole = {str(one.get("id")): one for one in found}
    if not all(effect.id in whole for effect in asked.effects):
        raise errors.Misplaced(
            f"The stored result of PendingTask {task.metadata.name!r} is that of another run.",
            field="status.userTask.effects",
            remedy=f"See what it waits for now: kubectl jervis get {task.metadata.name}",
        )
    return [whole[effect.id] for effect in asked.effects]


def _request(raw: Object) -> None:
    """Raises `Misplaced` for a failure: giving up a whole selection of those is `delete`, another try is `retry`."""
    task = reading.task(raw)
    asked = task.status.user_task
    if order.phase(task) is not phases.Phase.USER_TASK or asked is None or asked.kind is not UserTaskKind.APPROVAL:
        raise errors.Misplaced(f"PendingTask {task.metadata.name!r} asks for no approval.")
