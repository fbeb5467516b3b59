"""What an approval is about: the effects that a run asks leave for, edits of their arguments, when a request expires.

Source: seed 000 "Multi-Agent Delegation System Data Models"; docs/decisions/0138.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, JsonValue

from crds import permits
from crds.model import Model, rules

T = TypeVar("T")

ARGUMENTS_CHARS = 8192
"""Maximum of an effect's edited arguments, as JSON text."""
EDITED_BYTES = 65_536
"""Maximum of the edited arguments and comments of one approval together."""
MOST_EFFECTS = 64
"""Maximum of effects of one request; what is more comes in the next one."""
MOST_TARGETS = 64
"""Maximum of targets of an effect that a status has."""
MOST_COPIES = 16
"""Maximum of copies of an effect that a status has."""
REQUEST_BYTES = 262_144
"""About the maximum of a request's effects in a status."""
NEVER = "0s"
"""`expireAfter` of a request that waits for as long as it takes."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


class Default(StrEnum):
    """What happens to a request that has no decision in time.

    Reject: as if a person had rejected it; the run goes on without the effect. GiveUp: the task ends in Error.
    """

    REJECT = "Reject"
    GIVE_UP = "GiveUp"


Duration = Annotated[
    str,
    Field(
        max_length=16,
        json_schema_extra=rules(
            (
                f"self == '{NEVER}' || (self.matches('^[0-9]{{1,7}}(s|m|h)$') && duration(self) >= duration('1s')"
                " && duration(self) <= duration('8760h'))",
                "must be a duration between 1s and 8760h, for example 24h; 0s for no expiry",
            )
        ),
    ),
]


class Policy(Model):
    """When a request of approval expires; what is left out is as the release has it."""

    expire_after: Duration | None = None
    """Time after the request, for example 24h; 0s: never, whatever the release says. While the task is suspended it
    does not expire."""
    default: Default | None = None
    """What happens then: Reject, the run goes on without the effect; or GiveUp, the task ends in Error."""


_SHOWN_BYTES = 2048
_WHY_BYTES = 512
ID_CHARS = 253
"""Maximum of a run's name of an effect or answer."""
EffectId = Annotated[str, Field(min_length=1, max_length=ID_CHARS)]
_MORE = "…"
CUT = "… [cut]"
"""The end of a text within the arguments of which a status has only the beginning."""
_CAPS = (2048, 1024, 512, 256, 128, 64, 32, 16)
"""Bytes that a text within the arguments may have, tried in order until the whole fits."""


def _short(text: Any) -> Any:
    return cut_to(text, _WHY_BYTES) if isinstance(text, str) else text


_Short = Annotated[str, BeforeValidator(_short), Field(max_length=_WHY_BYTES)]
"""Longer texts are cut."""


class Copy(Model):
    """A passage of an effect's text that stands in what the run has read."""

    text: _Short
    """The passage, as it stands in the effect."""
    source: _Short = ""
    """Where it was read: a source URN, an address, a tool."""
    why: _Short = ""
    """Why a person sees it first."""


class Effect(Model):
    """An effect that waits for approval. Nothing of it has happened."""

    id: EffectId
    """The run's own name of it: an entry of its ledger."""
    tool: Annotated[str, Field(min_length=1, max_length=164)]
    """The tool that has the effect, as permits call it: sendMail, mcp:SERVER.TOOL."""
    connection: Annotated[str, Field(max_length=253)] = ""
    """The Connection that it acts through, if any."""
    targets: Annotated[
        tuple[Annotated[str, Field(max_length=320)], ...],
        Field(max_length=MOST_TARGETS, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """What it is aimed at: addresses, OWNER/REPO#13, ids of pages, branches, hosts."""
    agent: Annotated[str, Field(max_length=63)] = ""
    """The agent that wants it."""
    arguments: Annotated[str, Field(max_length=ARGUMENTS_CHARS)] = ""
    """The arguments of the tool, a JSON object. An approval may name others in spec.approval.effects."""
    shortened: bool = False
    """Whether texts within the arguments are cut (they end in "… [cut]"), or targets or copies left out; the result has
    them whole, and an approval with a text that is cut decides nothing."""
    shown: Annotated[str, Field(max_length=_SHOWN_BYTES)] = ""
    """What will be done, for a reader: the text of a mail, the beginning of a diff."""
    why: Annotated[str, Field(max_length=_WHY_BYTES)] = ""
    """Why a person is asked."""
    copies: Annotated[
        tuple[Copy, ...], Field(max_length=MOST_COPIES, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Passages of its text that were copied from what the run has read, with their source."""
    details_ref: Annotated[str, Field(max_length=253)] = ""
    """Key of a stored text with the whole of it, such as a diff: kubectl jervis artifacts TASK --get KEY."""


class Recorded(Model):
    """An effect that waits, as a run describes it, whole: what `task_results` holds under `waiting`. `arguments` by
    their names on the wire; the other fields as in `Effect`."""

    id: str
    tool: str
    connection: str = ""
    targets: tuple[str, ...] = ()
    agent: str = ""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    shown: str = ""
    why: str = ""
    copies: tuple[Copy, ...] = ()
    details_ref: str = ""

    def effect(self, most: int = ARGUMENTS_CHARS) -> Effect:
        """What a status has of it: its arguments in at most `most` bytes, and a quarter of that for what is shown, for
        the targets and for the copies."""
        text, cut = _arguments(self.arguments, most)
        whole = [one for one in self.targets if len(one) <= 320]
        targets = tuple(_within(whole[:MOST_TARGETS], most // 4, lambda target: len(target.encode())))
        copies = tuple(_within(self.copies[:MOST_COPIES], most // 4, lambda copy: len(_text(copy.wire()).encode())))
        return Effect(
            id=self.id,
            tool=cut_to(self.tool, 164),
            connection=cut_to(self.connection, 253),
            targets=targets,
            agent=cut_to(self.agent, 63),
            arguments=text,
            shortened=cut or len(targets) < len(self.targets) or len(copies) < len(self.copies),
            shown=cut_to(self.shown, min(_SHOWN_BYTES, most // 4)),
            why=cut_to(self.why, _WHY_BYTES),
            copies=copies,
            # A part of a key would name another text.
            details_ref=self.details_ref if len(self.details_ref) <= 253 else "",
        )


def request(recorded: Sequence[Recorded]) -> tuple[Effect, ...]:
    """What a status has of a request: its first effects, at most `MOST_EFFECTS`, in at most about `REQUEST_BYTES`."""
    first = recorded[:MOST_EFFECTS]
    most = REQUEST_BYTES // max(1, len(first)) // 2
    return tuple(one.effect(min(most, ARGUMENTS_CHARS)) for one in first)


class AllowedBy(StrEnum):
    """What an effect needed no further person for.

    Permit: spec.permits of the task. Rule: a standing permit. Approval: a person approved it. Edited: a person approved
    it with other arguments. ForTask: a person approved the tool at its targets for the task.
    """

    PERMIT = "Permit"
    RULE = "Rule"
    APPROVAL = "Approval"
    EDITED = "Edited"
    FOR_TASK = "ForTask"


class Done(Model):
    """An effect that was done: what `task_results` holds under `effects`, in order."""

    id: str
    """As in `Effect`."""
    tool: str
    """As in `Effect`."""
    connection: str = ""
    """As in `Effect`."""
    targets: tuple[str, ...] = ()
    """As in `Effect`."""
    allowed_by: AllowedBy
    """Which kind of permit named it."""
    permit: str = ""
    """Which one: spec.permits[N], the key of the rule, the author of the approval."""


def _within(values: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[T]:
    """The first values that have at most `most` bytes together."""
    for value in values:
        most -= size(value)
        if most < 0:
            return
        yield value


PROPOSES_RULE = "propose_rule"
"""The tool by which a run asks for a hard rule."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def rule_key(tool: str, arguments: str) -> str:
    """The key of the rule that an effect of that tool is about; "" for another tool, or where the key is cut."""
    if tool != permits.tool_name(PROPOSES_RULE):
        return ""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    key = given.get("key") if isinstance(given, dict) else None
    return key if isinstance(key, str) and _KEY.fullmatch(key) else ""


def cut_to(text: str, most: int, mark: str = _MORE) -> str:
    """`text` in at most `most` bytes of UTF-8, whole characters; `mark` is where it was cut. No NUL, no surrogates."""
    raw = text.replace("\0", "").encode(errors="replace")
    if len(raw) <= most:
        return raw.decode()
    kept = most - len(mark.encode())
    return raw[:kept].decode(errors="ignore") + mark if kept >= 0 else ""


def _arguments(given: Mapping[str, Any], most: int) -> tuple[str, bool]:
    """As JSON text of at most `most` bytes, and whether anything is missing; "" if not even the names fit."""
    whole = _text(_cut(given, most))
    if len(whole.encode()) <= most:
        return whole, _text(given) != whole
    for cap in _CAPS:
        text = _text(_cut(given, cap))
        if len(text.encode()) <= most:
            return text, True
    return "", True


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cut_to(value, most, CUT)
    if isinstance(value, Mapping):
        return {cut_to(str(name), 64, CUT): _cut(one, most) for name, one in value.items()}
    return [_cut(one, most) for one in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def period(duration: str) -> timedelta | None:
    """A duration of a policy; None for no expiry. Raises ValueError for anything else."""
    if duration == NEVER:
        return None
    try:
        return timedelta(seconds=int(duration[:-1]) * _UNITS[duration[-1]])
    except KeyError as error:
        raise ValueError(f"{duration!r} is no duration such as 24h") from error


def fault(arguments: str, most: int = ARGUMENTS_CHARS) -> str:
    """Why edited arguments are no JSON object of at most `most` characters; "" for one."""
    if len(arguments) > most:
        return f"has {len(arguments)} characters, and {most} is the most"
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    return "" if isinstance(found, dict) else "is no JSON object"


def cut_at(arguments: str) -> str:
    """Where edited arguments, a JSON object, have a text that a status has cut, as `event.summary`; "" if nowhere."""
    waiting: list[tuple[str, Any]] = [("", json.loads(arguments))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and value.endswith(CUT):
            return path
        if isinstance(value, Mapping | list):
            named = value.items() if isinstance(value, Mapping) else enumerate(value)
            for name, one in named:
                below = f"{path}.{name}" if path else str(name)
                if str(name).endswith(CUT):
                    return below
                waiting.append((below, one))
    return ""
