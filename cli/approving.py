"""What a person decides about the effects of a request, from flags or an edited file -> the decision. Pure.

Effects are called by their place in the request, from 1, as `get` and `result` number them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic
import yaml

from cli import errors
from crds import approvals, pendingtask
from crds.pendingtask import EffectAnswer, Verdict

_NUMBER = re.compile(r"[1-9][0-9]{0,3}")
_UNCHOSEN = "Not among those that were approved."


@dataclass(frozen=True)
class Choice:
    """A decision on a request. `verdict` is for all effects that nothing else names; `every`: all of them are meant,
    also where there are several.

    `only` are those that are approved, with the rest rejected; `rejected` are those that are not, with the reason of
    each, or ""; `arguments` are edited ones, a JSON object each. `for_task`: the like of what is approved needs no
    person any more; `like` are those of which that holds alone.
    """

    verdict: Verdict
    comment: str = ""
    every: bool = False
    only: frozenset[int] = frozenset()
    rejected: Mapping[int, str] = field(default_factory=dict)
    arguments: Mapping[int, str] = field(default_factory=dict)
    for_task: bool = False
    like: frozenset[int] = frozenset()

    @property
    def plain(self) -> bool:
        """Whether it is the verdict alone."""
        return not (self.only or self.rejected or self.arguments or self.for_task or self.like)


def numbers(text: str, flag: str) -> frozenset[int]:
    """`1,3` of a flag. Raises `Unusable`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise errors.Unusable(
            f"{text!r} names no effects.", field=flag, remedy="Give their numbers as get shows them, for example 1,3."
        )
    return frozenset(int(part) for part in parts)


def numbered(given: Iterable[str], flag: str) -> dict[int, str]:
    """`2=TEXT` of a flag that may be repeated, by number. Raises `Unusable`."""
    found: dict[int, str] = {}
    for one in given:
        number, _, text = one.partition("=")
        if not _NUMBER.fullmatch(number.strip()) or int(number) in found:
            raise errors.Unusable(
                f"{one[:100]!r} is not the number of one effect, or it stands there twice.",
                field=flag,
                remedy=f"Give for each effect: {flag} NUMBER=TEXT",
            )
        found[int(number)] = text.strip()
    return found


def decision(task: pendingtask.PendingTask, asked: pendingtask.UserTask, choice: Choice) -> dict[str, Any]:
    """The fields of `spec.approval`, without who and which request. Raises `Misplaced`, `Unusable`."""
    name, count = task.metadata.name, len(asked.effects)
    named = choice.only | choice.rejected.keys() | choice.arguments.keys()
    if not count and not choice.plain:
        raise errors.Misplaced(
            f"PendingTask {name!r} asks for the approval of no effect, so there is none to choose or edit.",
            field="status.userTask.effects",
            remedy=f"Approve it without: kubectl jervis approve {name}",
        )
    if wrong := sorted(number for number in named if number > count):
        raise errors.Misplaced(
            f"PendingTask {name!r} asks for {count} effects; there is no number {wrong[0]}.",
            field="status.userTask.effects",
            remedy=f"See which: kubectl jervis get {name}",
        )
    if choice.verdict is Verdict.APPROVED and count > 1 and not (choice.every or choice.only or choice.rejected):
        raise errors.Misplaced(
            f"PendingTask {name!r} asks for {count} effects.",
            field="status.userTask.effects",
            remedy=f"Say which: kubectl jervis approve {name} --all, or --only 1,3, or --edit (or: reject {name}).",
        )
    _whole(task, asked, choice.arguments)
    answers = [_answer(number, effect, choice) for number, effect in enumerate(asked.effects, start=1)]
    verdict = Verdict.REJECTED if choice.only else choice.verdict
    given: dict[str, Any] = {"verdict": verdict, "comment": choice.comment}
    if verdict is Verdict.APPROVED and choice.for_task:
        given["for_task"] = True
    if own := [answer for answer in answers if not _follows(answer, verdict)]:
        given["effects"] = [answer.model_dump(exclude_none=True, exclude_defaults=True) for answer in own]
    return given


def _answer(number: int, effect: approvals.Effect, choice: Choice) -> EffectAnswer:
    left_out = bool(choice.only) and number not in choice.only
    if number in choice.rejected or left_out or choice.verdict is Verdict.REJECTED:
        why = choice.rejected.get(number, "" if choice.comment or not left_out else _UNCHOSEN)
        return EffectAnswer(id=effect.id, verdict=Verdict.REJECTED, comment=why)
    # Where all but some are approved the decision has it once.
    for_task = number in choice.like or (choice.for_task and bool(choice.only))
    arguments = choice.arguments.get(number) or None
    return EffectAnswer(id=effect.id, verdict=Verdict.APPROVED, arguments=arguments, for_task=for_task or None)


def _follows(answer: EffectAnswer, verdict: Verdict) -> bool:
    """Whether the verdict of all says it."""
    return answer == EffectAnswer(id=answer.id, verdict=verdict)


def _whole(task: pendingtask.PendingTask, asked: pendingtask.UserTask, arguments: Mapping[int, str]) -> None:
    for number, given in arguments.items():
        if fault := approvals.fault(given):
            raise errors.Unusable(
                f"The arguments of effect {number}: what is given {fault}.",
                field="--arguments",
                remedy="Give a JSON object.",
            )
        if asked.effects[number - 1].shortened and (where := approvals.cut_at(given)):
            raise errors.Unusable(
                f"The argument {where} ends in {approvals.CUT!r}: the task shows only the beginning of it.",
                field="--arguments",
                remedy=f"Edit the whole arguments: kubectl jervis approve {task.metadata.name} --edit",
            )


_HEAD = """\
# The effects that PendingTask {name} asks for. Save and close to decide:
#   verdict    Approved, or Rejected with what the run should know as reason
#   arguments  what the effect is done with; change them as needed
#   forTask    true: its tool at its targets needs no person any more in this task
# An effect that is deleted here is rejected. An empty file decides nothing.
"""


def form(name: str, waiting: Sequence[Mapping[str, Any]]) -> str:
    """The file in which a person decides; `waiting` is what the result has, or the status where nothing is cut."""
    entries = [
        {
            "effect": number,
            **{key: one[key] for key in ("tool", "connection", "targets", "why", "copies") if one.get(key)},
            "verdict": Verdict.APPROVED.value,
            "reason": "",
            "forTask": False,
            "arguments": one.get("arguments") or {},
        }
        for number, one in enumerate(waiting, start=1)
    ]
    listed = yaml.dump(entries, Dumper=_Blocks, sort_keys=False, allow_unicode=True, width=110)
    return _HEAD.format(name=name) + listed


class _Blocks(yaml.SafeDumper):
    """Texts of several lines as they are, not as one line with escapes."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Blocks.add_representer(str, _block)


class _Json(yaml.SafeLoader):
    """What looks like a time stays a text, as in JSON."""


_Json.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Entry(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", alias_generator=pydantic.alias_generators.to_camel)

    effect: int = pydantic.Field(ge=1)
    verdict: Verdict
    reason: str = pydantic.Field(default="", max_length=2048)
    for_task: bool = False
    arguments: dict[str, Any]


def decided(text: str, waiting: Sequence[Mapping[str, Any]]) -> Choice | None:
    """The decision that an edited `form` is; None for an empty file. Raises `Unusable`."""
    try:
        listed = yaml.load(text, Loader=_Json)  # noqa: S506 # a safe loader
        entries = None if listed is None else pydantic.TypeAdapter(list[_Entry]).validate_python(listed)
    except (yaml.YAMLError, pydantic.ValidationError, RecursionError) as error:
        raise errors.Unusable(
            f"The edited file cannot be used: {_first(error)}", field="--edit", remedy=_AGAIN
        ) from error
    if entries is None:
        return None
    own = {entry.effect: entry for entry in entries}
    if len(own) < len(entries) or any(number > len(waiting) for number in own):
        raise errors.Unusable(
            "The edited file names an effect twice, or one that the request does not have.",
            field="--edit",
            remedy=_AGAIN,
        )
    approved = frozenset(number for number, entry in own.items() if entry.verdict is Verdict.APPROVED)
    rejected = {
        number: own[number].reason if number in own else ""
        for number in range(1, len(waiting) + 1)
        if number not in approved
    }
    arguments = {
        number: json.dumps(own[number].arguments, ensure_ascii=False, separators=(",", ":"))
        for number in sorted(approved)
        if own[number].arguments != (waiting[number - 1].get("arguments") or {})
    }
    verdict = Verdict.APPROVED if approved else Verdict.REJECTED
    like = frozenset(number for number in approved if own[number].for_task)
    return Choice(verdict, every=True, rejected=rejected, arguments=arguments, like=like)


_AGAIN = "Call the command again, and keep the form of the list."


def _first(error: Exception) -> str:
    if isinstance(error, pydantic.ValidationError):
        found = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
    return " ".join(str(error).split())[:300]
