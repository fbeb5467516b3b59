"""What a tool of an agent is: a name, the schema of its arguments, a tier that code decides, and what it does. Pure.

Two kinds. A `Reading` answers from what is there, or changes the run's own workspace and drafts: it may be repeated,
and its answer is kept in the journal, so that a resumed run does not ask twice. An `Acting` changes something outside:
it goes through the effects ledger under a key of task, delegation and ordinal, never of the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from crds import access, errors, scope
from orchestrator_job.effects import ledger_entries
from router.client import schema

DISPENSABLE_SECONDS = 30.0
"""See `Dispensable`."""


class Tier(IntEnum):
    """What has to hold before a call is carried out.

    FREE      nothing: it reads, or changes what is the run's own
    PERMIT    a permit of the task, a standing permit or an approval names the effect; else a person decides
    ASK       a person decides, whatever permits say: about the effect, or about the like for the rest of the task
    PERSON    a person decides about each: it changes what later runs believe or may do
    """

    FREE = 0
    PERMIT = 1
    ASK = 2
    PERSON = 3


@dataclass(frozen=True, slots=True)
class Reach:
    """What a call does outside, as permits name it. `tool` is the effect's name in permits (`sendMail`,
    `mcp:SERVER.TOOL`), `targets` are all that it is at. `text` is what leaves with it, without the targets, and
    `stored` are keys of stored contents that leave with it. `url` is that of a server which is called."""

    tool: str
    connection: str = ""
    targets: tuple[str, ...] = ()
    text: str = ""
    stored: tuple[str, ...] = ()
    url: str = ""


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
class Part:
    """Of the text of a result, from `start` to `end`: what is from this source, and who may read it there."""

    source: str
    start: int
    end: int
    readers: access.Access = access.UNKNOWN


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave. `text` is for the model, who gets it as data. `data` is for programs (`structured_data`).

    `sources` name where the text is from, `artifacts` what was stored or made, `changed_files` paths in the workspace.
    `failed`: it did not work, and `text` says why and what would help; a failed call is an answer as any other. `parts`
    say more of sources, where a text has several or their readers are known; what is in none of them is from all of
    `sources`.
    """

    text: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    failed: bool = False
    parts: tuple[Part, ...] = ()


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

    def reach(self, given: Any) -> Reach:
        """What the call does outside; permits are compared with it."""
        ...

    def shown(self, given: Any) -> str:
        """Exactly what will be done, for the person who decides: the text of the mail, the diff of the push."""
        ...

    def effect(self, given: Any, place: Place) -> ledger_entries.Effect:
        """The effect, not begun. Its receipt has `text` for the model."""
        ...


@runtime_checkable
class Guarded(Reading, Acting, Protocol):
    """One that reads, and whose call may carry something outside with its arguments: then it counts as an effect. The
    targets of its reach are the hosts that the arguments name, and `url` is what is called."""

    def allows(self, host: str) -> bool:
        """Whether the settings let it call the host, and take there what it likes."""
        ...


@runtime_checkable
class Foreign(Acting, Protocol):
    """One that a server of others defines, which may say something else of it after a person has approved a call."""

    @property
    def definition(self) -> str:
        """A digest of its name, description and schema as they are now."""
        ...


def acts(tool: Tool) -> bool:
    """Whether each call of it is an effect."""
    return isinstance(tool, Acting) and not isinstance(tool, Guarded)


class Misused(errors.Permanent):
    """The arguments do not fit; the text is for the model, which corrects them."""


_SHOWN_PROBLEMS = 5


def leaves(value: object) -> Iterable[str]:
    """The texts and numbers within arguments, names of members too, in their order."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name)
            yield from leaves(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


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
