"""What a tool of an agent is: a name, the schema of its arguments, a tier that code decides, and what it does. Pure.

Two kinds. A `Reading` answers from what is there, or changes the run's own workspace and drafts: it may be repeated,
and its answer is kept in the journal, so that a resumed run does not ask twice. An `Acting` changes something outside:
it goes through the effects ledger under a key of task, delegation and ordinal, never of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from crds import errors, scope
from orchestrator_job.effects import ledger_entries
from router.client import schema

DISPENSABLE_SECONDS = 30.0
"""See `Dispensable`."""


class Tier(IntEnum):
    """What has to hold before a call is carried out. A higher one includes the lower ones.

    FREE      nothing: it reads, or changes what is the run's own
    NAMED     the user ordered the effect and named every aim of it (recipient, repository, issue, page, host) in the
              order; else a person decides
    APPROVED  a person decides, also about what the user named
    """

    FREE = 0
    NAMED = 1
    APPROVED = 2


class Origin(IntEnum):
    """Where a value of a call comes from; the lowest that holds. MODEL: it stands nowhere in what the run has read."""

    USER = 0
    CONTENT = 1
    RETRIEVED = 2
    MODEL = 3


class Deed(StrEnum):
    """A kind of effect that a user orders. ATTACH and REPLY are parts of a mail, RETITLE, RELABEL and CHANGE (of the
    text) of what is changed; APPEND and REPLACE are the ways to edit a page."""

    MAIL = "a mail"
    ATTACH = "an attachment"
    REPLY = "an answer to a mail"
    INVITE = "an invitation"
    COMMENT = "a comment"
    CREATE = "a new issue"
    CHANGE = "a change of the text of an issue"
    RETITLE = "another title"
    RELABEL = "other labels"
    CLOSE = "closing an issue"
    REOPEN = "reopening an issue"
    APPEND = "an addition to a page"
    REPLACE = "replacing the text of a page"
    REMEMBER = "remembering something"


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when, as local times in `zone`, a name of the IANA database."""

    start: datetime
    end: datetime
    zone: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call does besides what it is aimed at, by the names of its arguments. `deeds`: the user has to have
    ordered each of them. `texts` are written in the user's name: what is in them may come from retrieved texts where
    the order leaves it open. `values` may not come from retrieved texts alone. `stored` are keys of content that is
    sent, and `labels` the names and media types under which it is. `answered` are Message-IDs of the mails that are
    answered, and `span` is when an invitation is for."""

    deeds: frozenset[Deed]
    texts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)
    answered: Mapping[str, str] = field(default_factory=dict)
    span: Span | None = None


class Arguments(BaseModel):
    """Base of a tool's arguments: unknown names are refused, so that a model learns of a typing error."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call happens. `key` is the same when a resumed run repeats it: DELEGATION.ORDINAL."""

    viewer: scope.Scope
    delegation_id: str
    ordinal: int
    round: int
    language: str

    @property
    def key(self) -> str:
        return f"{self.delegation_id}.{self.ordinal}"


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave. `text` is for the model, who gets it as data. `data` is for programs (`structured_data`).

    `sources` name where the text is from, `artifacts` what was stored or made, `changed_files` paths in the workspace.
    `failed`: it did not work, and `text` says why and what would help; a failed call is an answer as any other.
    """

    text: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    failed: bool = False


@runtime_checkable
class Tool(Protocol):
    """What both kinds have. `arguments` is the class that `parse` validates a model's arguments with."""

    # Read-only, so that a tool's own class of arguments is one.
    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def arguments(self) -> type[Arguments]: ...


@runtime_checkable
class Reading(Tool, Protocol):
    """A tool of tier FREE."""

    async def read(self, given: Any, place: Place) -> Result:
        """The answer. Raises `crds.errors.Operational` when what it asks is away: it is asked again, then the run ends
        and is resumed, unless the tool is `Dispensable`. Else returns a failed Result."""
        ...


@runtime_checkable
class Dispensable(Tool, Protocol):
    """One that the run can do without: where what it asks stays away, the call has failed and the run goes on. Else a
    host that is down, or slower than its limit, would end each run of the task, and keep its GPU slot meanwhile. Of an
    effect this holds only while it raises `errors.NotBegun`: what may have happened is for a person to decide."""

    @property
    def away_seconds(self) -> float:
        """For so long it is asked again."""
        ...


@runtime_checkable
class Acting(Tool, Protocol):
    """A tool with an effect outside."""

    @property
    def tier(self) -> Tier: ...

    def aims(self, given: Any) -> Mapping[str, str]:
        """What the effect is aimed at, by the names of arguments: recipients, repository, issue, page, host. One name
        may have a number at its end (`to.0`)."""
        ...

    def shown(self, given: Any) -> str:
        """Exactly what will be done, for the person who decides: the text of the mail, the diff of the push."""
        ...

    def effect(self, given: Any, place: Place) -> ledger_entries.Effect:
        """The effect, not begun. Its receipt has `text` for the model."""
        ...


@runtime_checkable
class Foreign(Acting, Protocol):
    """One that a server of others defines, which may say something else of it after a person has approved a call."""

    @property
    def definition(self) -> str:
        """A digest of its name, description and schema as they are now."""
        ...


@runtime_checkable
class Orderable(Acting, Protocol):
    """One whose effect a user can order, so that no person has to decide about it again. A tool of tier NAMED that is
    none is always held."""

    def wanted(self, given: Any) -> Wanted:
        """What a user has to have ordered for the call."""
        ...


class Misused(errors.Permanent):
    """The arguments do not fit; the text is for the model, which corrects them."""


_SHOWN_PROBLEMS = 5


def parse(tool: Tool, given: object) -> Any:
    """The arguments as the tool's class. Raises Misused."""
    try:
        return tool.arguments.model_validate(given if given is not None else {})
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:_SHOWN_PROBLEMS]
        problems = [f"{'.'.join(str(part) for part in each['loc']) or 'arguments'}: {each['msg']}" for each in found]
        raise Misused(f"{tool.name}: {'; '.join(problems)}") from error


def offered(tool: Tool) -> dict[str, Any]:
    """The tool as Ollama's `tools` has it (API page, "Chat request with tools")."""
    function = {"name": tool.name, "description": tool.description, "parameters": schema.parameters(tool.arguments)}
    return {"type": "function", "function": function}
