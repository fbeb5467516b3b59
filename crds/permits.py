"""Permits: which effects a task may have without a person being asked (docs/permits.md). Pure.

A permit names a tool, the Connection, the targets, how often and when. What it says is compared with the data of an
effect; no words of a language are read. It stands in `spec.permits` of a task, in a rule of type SECURITY, or follows
from a person's approval for the task.

As text, for command lines and rules, it is `NAME=VALUE` for each field, separated by blanks; targets by commas:

    tool=sendMail connection=team-mailbox targets=ann@example.com,*@example.com most=2 notAfter=2026-12-31T00:00:00Z
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from crds import patterns
from crds.model import Model, Time, rules, within_years
from crds.values import ObjectName

MOST_PERMITS = 32
"""Maximum of permits of a task."""
MOST_TARGETS = 32
"""Maximum of target patterns of a permit."""
MOST_TIMES = 1000
"""Maximum of `most`."""
SERVER = "mcp:"
"""What the name of a tool of a server of the Model Context Protocol begins with: mcp:SERVER.TOOL."""
TOOLS = (
    "addComment", "createIssue", "editPage", "fetchPage", "pushBranch", "sendInvitation", "sendMail", "storeKnowledge",
    "updateIssue",
)  # fmt: skip
"""Tools of ours that a permit can name. Rules and procedures are none of them: what binds later tasks is for a person
to decide."""
_SERVER_TOOL = "mcp:[a-z][a-z0-9-]{0,30}[.][A-Za-z0-9._-]{1,128}"
_UNKNOWN = f"must be one of {', '.join(TOOLS)}, or mcp:SERVER.TOOL"
_ORDER = "notBefore must be before notAfter; leave one of them out, or exchange them"
_STARS = f"has more than {patterns.MOST_STARS} *; write fewer"

Tool = Annotated[
    str,
    Field(
        min_length=1,
        max_length=164,
        json_schema_extra=rules(
            (f"self.matches('^({'|'.join(TOOLS)}|{_SERVER_TOOL})$')", _UNKNOWN),
        ),
    ),
]
Target = Annotated[
    patterns.Pattern,
    Field(json_schema_extra=rules((f"self.split('*').size() <= {patterns.MOST_STARS + 1}", _STARS))),
]


class Permit(Model):
    """Effects that need no person. Each effect of the tool is one of `most`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.notBefore) || !has(self.notAfter) || self.notBefore < self.notAfter", _ORDER),
            within_years("notBefore"),
            within_years("notAfter"),
        )
    )

    tool: Tool
    """A tool of docs/effects.md, for example sendMail, or mcp:SERVER.TOOL."""
    connection: ObjectName | None = None
    """The Connection that it acts through. Left out: any Connection of the task's scope that has the tool."""
    targets: Annotated[
        tuple[Target, ...], Field(max_length=MOST_TARGETS, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """What it may be aimed at: addresses, OWNER/REPO, OWNER/REPO#13, ids of pages, branches, hosts; * stands for any
    text. All targets of an effect must be among them. Left out: only effects that have no target."""
    most: Annotated[int, Field(ge=1, le=MOST_TIMES)] = 1
    """How often, in the whole task."""
    not_before: Time | None = None
    """From when on."""
    not_after: Time | None = None
    """Until when; from that moment on it permits nothing."""
    may_share: bool = False
    """Whether text that was copied from a source may go to readers who may not read that source."""


def tool_name(agent_tool: str) -> str:
    """How permits and requests call a tool of agents: send_mail is sendMail, crm.add_note is mcp:crm.add_note."""
    return f"{SERVER}{agent_tool}" if "." in agent_tool else to_camel(agent_tool)


def names(permit: Permit, *, tool: str, connection: str, targets: Collection[str], now: datetime) -> bool:
    """Whether the permit names this effect; how often it has been used is the caller's to count.

    `tool` is called as by `tool_name`, `connection` is "" for a tool without one, `targets` are all that the effect
    reaches. An address is compared without its case, as mail hosts do; all else as it is written.
    """
    if permit.tool != tool or permit.connection not in (None, connection):
        return False
    if (permit.not_before is not None and now < permit.not_before) or (
        permit.not_after is not None and now >= permit.not_after
    ):
        return False
    if not targets:
        return not permit.targets or patterns.ANY in permit.targets
    return all(any(_fits(pattern, target) for pattern in permit.targets) for target in targets)


class Bound(Model):
    """What the writers of a namespace may permit: these tools at these targets (the chart's `admission.limits.permits`
    and those of `admission.namespaces`)."""

    model_config = ConfigDict(extra="forbid")

    tools: Annotated[tuple[patterns.Pattern, ...], Field(max_length=100)]
    """Tools as permits call them; * stands for any text, as in mcp:crm.*."""
    targets: Annotated[tuple[patterns.Pattern, ...], Field(max_length=100)] = ()
    """Patterns within which each target pattern of a permit has to be; empty: permits without targets only."""
    may_share: bool = False
    """Whether such a permit may say mayShare."""

    def takes(self, permit: Permit) -> bool:
        """Whether the permit is within it. A pattern is within another one if that one takes each of its characters,
        stars included."""
        return (
            any(patterns.matches(tool, permit.tool) for tool in self.tools)
            and (self.may_share or not permit.may_share)
            and all(any(patterns.matches(outer, target) for outer in self.targets) for target in permit.targets)
        )


_ADDRESS = re.compile(r"[!-?A-~]+@[!-.0-?A-~]+")
"""An address of mail in ASCII, or a pattern of one: letters of other scripts are told apart as they are written."""


def _fits(pattern: str, target: str) -> bool:
    if _ADDRESS.fullmatch(target) and pattern.isascii():
        return patterns.matches(pattern.lower(), target.lower())
    return patterns.matches(pattern, target)


_TIMES = frozenset({"notBefore", "notAfter"})
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIELDS = tuple(field.alias or name for name, field in Permit.model_fields.items())


def parse(text: str) -> Permit:
    """The permit of a command line or rule. Raises ValueError, which names the field and what to write."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"the quotation marks of {text[:200]!r} are not closed") from error
    given: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if name not in _FIELDS or not sign:
            raise ValueError(
                f"{word[:100]!r} is no field of a permit; write NAME=VALUE with one of {', '.join(_FIELDS)}"
            )
        if name in given:
            raise ValueError(f"{name}: stands there twice; write one, targets with commas between them")
        if name in _TIMES and not _DATE.match(value):
            raise ValueError(f"{name}: {value[:64]!r} is no time such as 2026-12-31T18:00:00+01:00")
        given[name] = [part.strip() for part in value.split(",")] if name == "targets" else value
    return of(given)


def of(given: Mapping[str, Any]) -> Permit:
    """The permit that these fields are, by their names on the wire; refused as the apiserver would refuse them. Raises
    ValueError, which names the field and what to write."""
    try:
        permit = Permit.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "permit"
        raise ValueError(f"{where}: {first['msg']}") from error
    if fault := next(_faults(permit), ""):
        raise ValueError(fault)
    return permit


def _faults(permit: Permit) -> Iterator[str]:
    if permit.tool not in TOOLS and not re.fullmatch(_SERVER_TOOL, permit.tool):
        yield f"tool: {permit.tool!r} {_UNKNOWN}"
    for target in permit.targets:
        if target.count("*") > patterns.MOST_STARS:
            yield f"targets: {target!r} {_STARS}"
    if permit.not_before is not None and permit.not_after is not None and permit.not_before >= permit.not_after:
        yield f"notBefore: {_ORDER}"


def text(permit: Permit) -> str:
    """The permit as `parse` takes it."""
    given = permit.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return " ".join(f"{name}={shlex.quote(_value(value))}" for name, value in given.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
