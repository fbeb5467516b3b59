"""What an approval is about: the effect that a run asks leave for, edits of its arguments, and when a request expires.

Source: seed 000 "Multi-Agent Delegation System Data Models"; docs/decisions/0138.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, JsonValue

from crds.model import Model, rules

ARGUMENTS_CHARS = 8192
"""Maximum of edited arguments, as JSON text."""
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
_MORE = "…"
CUT = "… [cut]"
"""The end of a text within the arguments of which a status has only the beginning."""
_CAPS = (2048, 1024, 512, 256, 128, 64, 32, 16)
"""Bytes that a text within the arguments may have, tried in order until the whole fits."""


class Action(Model):
    """The effect that an approval is asked for. Nothing of it has happened."""

    tool: Annotated[str, Field(min_length=1, max_length=63)]
    """The tool that has the effect, for example send_mail."""
    connection: Annotated[str, Field(max_length=253)] = ""
    """The Connection that it acts through, if any."""
    agent: Annotated[str, Field(max_length=63)] = ""
    """The agent that wants it."""
    arguments: Annotated[str, Field(max_length=ARGUMENTS_CHARS)] = ""
    """The arguments of the tool, a JSON object. An approval may name others in spec.approval.arguments."""
    shortened: bool = False
    """Whether texts within the arguments are cut (they end in "… [cut]"); the result has them whole, and an approval
    with a text that is cut decides nothing."""
    shown: Annotated[str, Field(max_length=_SHOWN_BYTES)] = ""
    """What will be done, for a reader: the text of a mail, the beginning of a diff."""
    why: Annotated[str, Field(max_length=_WHY_BYTES)] = ""
    """Why a person is asked."""
    details_ref: Annotated[str, Field(max_length=253)] = ""
    """Key of a stored text with the whole of it, such as a diff: kubectl jervis artifacts TASK --get KEY."""


class Wanted(Model):
    """An action as a run describes it, whole: what `task_results` holds under `action`. `arguments` by their names on
    the wire; the other fields as in `Action`."""

    tool: str
    connection: str = ""
    agent: str = ""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    shown: str = ""
    why: str = ""
    details_ref: str = ""

    def action(self, most: int = ARGUMENTS_CHARS) -> Action:
        """What a status has of it: its arguments in at most `most` bytes, and a quarter of that for what is shown."""
        text, cut = _arguments(self.arguments, most)
        return Action(
            tool=cut_to(self.tool, 63),
            connection=cut_to(self.connection, 253),
            agent=cut_to(self.agent, 63),
            arguments=text,
            shortened=cut,
            shown=cut_to(self.shown, min(_SHOWN_BYTES, most // 4)),
            why=cut_to(self.why, _WHY_BYTES),
            # A part of a key would name another text.
            details_ref=self.details_ref if len(self.details_ref) <= 253 else "",
        )


PROPOSES_RULE = "propose_rule"
"""The tool by which a run asks for a hard rule."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def rule_key(tool: str, arguments: str) -> str:
    """The key of the rule that a call of that tool is about; "" for another tool, or where the key is cut."""
    if tool != PROPOSES_RULE:
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
