"""What an approval is about: the effect that a run asks leave for, edits of its arguments, and when a request expires.

Source: seed 000 "Multi-Agent Delegation System Data Models"; docs/decisions/0138.
"""

from __future__ import annotations

import json
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds.model import Model, rules

ARGUMENTS_CHARS = 8192
"""Maximum of edited arguments, as JSON text."""
NEVER = "0s"
"""`expireAfter` of a request that waits for as long as it takes."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


class Default(StrEnum):
    """What happens to a request that nobody decided in time.

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
    """Whether texts within the arguments are cut (they end in an ellipsis); the result has them whole."""
    shown: Annotated[str, Field(max_length=2048)] = ""
    """What will be done, for a reader: the text of a mail, the beginning of a diff."""
    why: Annotated[str, Field(max_length=512)] = ""
    """Why a person is asked."""
    details_ref: Annotated[str, Field(max_length=253)] = ""
    """Key of a stored text with the whole of it, such as a diff: kubectl jervis artifacts TASK --get KEY."""


def seconds(duration: str) -> timedelta | None:
    """A duration of a policy; None for no expiry. Raises ValueError for anything else."""
    if duration in ("", NEVER):
        return None
    try:
        return timedelta(seconds=int(duration[:-1]) * _UNITS[duration[-1]])
    except KeyError as error:
        raise ValueError(f"{duration!r} is no duration such as 24h") from error


def fault(arguments: str) -> str:
    """Why edited arguments are no JSON object; "" for one."""
    if len(arguments) > ARGUMENTS_CHARS:
        return f"has {len(arguments)} characters, and {ARGUMENTS_CHARS} is the most"
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    return "" if isinstance(found, dict) else "is no JSON object"
