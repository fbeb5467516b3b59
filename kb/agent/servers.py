"""The tools of listed servers of the Model Context Protocol: those alone that only read, as their entry says.

No person approves what the agent does, so no other tool is called. A server says which arguments a
tool takes; of its schema the part is kept that is checked in bounded time, and the server checks the rest. What it
answers is data as a passage is. A server that does not answer ends the call, and none of its tools is offered again for
the question. No question waits for a list of tools but the first one of a process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
import structlog

from clients import json_bounds, toolservers
from crds import scope
from crds import tools as listed
from kb import identity
from kb.agent import retrieving
from kb.agent.environment import Error, Result
from kb.agent.tree import Chosen, Given, TreeData
from router.client import schema as schemas
from text import hosts

log = structlog.get_logger(__name__)
KIND = "mcp"
"""Of the sources of answers, as hard rules name it."""
_CHARS = 16_000
_COMPLAINT = 500
_GONE = "servers"
_NOTHING = "The call worked, and its answer is empty."
_MOST_NAMED = 10
"""Of the tools of one server that are left out."""
_NODES, _DEPTH = 300, 8
_SCHEMA_CHARS = 4_000
"""Of what is shown of one tool's schema; of a larger one nothing, so that the server alone checks the arguments."""
_ALL_CHARS = 40_000
"""Of the descriptions and schemas of all tools of others that one question is offered."""
_MOST_COUNT = 1_000_000
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength")
Schema = dict[str, Any]


@dataclass(frozen=True)
class Patience:
    """Seconds: how long the first question waits for a server's list of tools, and how long the list is used, or the
    server is not asked again when it gave none."""

    wait: float = 5.0
    kept: float = 300.0
    failed: float = 30.0


class ServerTool(Chosen):
    """One tool of one server, SERVER.TOOL."""

    exact = True

    def __init__(self, offered: toolservers.Offered) -> None:
        self._offered = offered
        self.name = offered.called
        self.description = offered.about
        self.inputs = arguments(offered.schema)
        self.chars = len(self.name) + len(self.description) + len(json.dumps(self.inputs.model_json_schema()))
        self.status = f"Asking the server {offered.server.name}..."

    async def is_tool_available(self, tree_data: TreeData) -> bool:
        gone = tree_data.environment.hidden_environment.get(_GONE, ())
        return (
            self._offered.server.name not in gone
            and tree_data.permits(retrieving.SEARCH, self.name, self._offered.own)
            and tree_data.held.shows(self._offered.source, KIND)
        )

    async def __call__(self, tree_data: TreeData, inputs: dict[str, Any]) -> AsyncIterator[Given]:
        server, asked = self._offered.server, json.dumps(inputs, sort_keys=True, ensure_ascii=False)
        # As JSON writes them, and as words: a line break in a value hides no forbidden name.
        words = " ".join(" ".join(_strings(inputs)).split())
        why = tree_data.held.objection(f"{asked}\n{words}", cites=True, final=False)
        if why is not None:
            yield Error(f"Nothing was sent to {server.name}: {why}.", suggestion="Other words, or another tool.")
            return
        # An address can carry text to whom it names, and no person decides here.
        away = next((host for host in hosts.named(f"{asked}\n{words}") if not server.lets(host)), None)
        if away is not None:
            yield Error(
                f"Nothing was sent to {server.name}: the arguments name {away[:100]!r}, which is none of its `hosts`.",
                suggestion="Other arguments, or another tool.",
            )
            return
        try:
            answer = await toolservers.call(self._offered, inputs)
        except toolservers.Away as error:
            tree_data.environment.hidden_environment.setdefault(_GONE, set()).add(server.name)
            yield Error(_why(error), suggestion="Go on without it, and say what was not read.", passing=True)
            return
        text = _plain(answer.text).strip() or _NOTHING
        if answer.failed:
            yield Error(f"{self.name}: {text[:_COMPLAINT]}", suggestion="Other arguments, or another tool.")
            return
        if len(text) > _CHARS:
            text = f"{text[:_CHARS]}\n[{len(text) - _CHARS} more characters are left out. Ask for less.]"
        passage = {
            "key": f"mcp:{self.name}:{identity.digest(asked)}",
            "sourceUrn": self._offered.source,
            "title": self.name,
            "text": text,
        }
        yield Result(
            objects=[passage],
            metadata={"source": server.name, "arguments": inputs},
            name=self.name,
            payload_type="tool_answers",
            llm_message="The server {source} has answered.",
        )


@dataclass(frozen=True)
class _Known:
    """What one server offers, `until` when that is used, and what it does not offer, and why."""

    until: float
    tools: tuple[ServerTool, ...] = ()
    problems: tuple[str, ...] = ()


class Servers:
    """The tools of all servers that only read, asked for once and then again now and then, beside the questions; to be
    made when a process starts. `monotonic` gives seconds."""

    def __init__(
        self, servers: Sequence[listed.Server], monotonic: Callable[[], float], patience: Patience = Patience()
    ) -> None:
        self._servers = [one for one in servers if one.reads]
        if self._servers:
            toolservers.prepare()
        self._monotonic = monotonic
        self._patience = patience
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def tools(self, viewer: scope.Scope) -> tuple[list[ServerTool], list[str]]:
        """The tools of the servers that are there for the viewer's client, and of each that is away, and each tool that
        is left out, why."""
        own = [server for server in self._servers if toolservers.admits(server, viewer.client_id)]
        known = await asyncio.gather(*(self._of(server) for server in own))
        tools, left = list[ServerTool](), _ALL_CHARS
        away = [why for server in known for why in server.problems]
        for tool in (tool for server in known for tool in server.tools):
            if tool.chars <= left:
                tools.append(tool)
                left -= tool.chars
            else:
                away.append(f"{tool.name} is left out: the tools of others have more than {_ALL_CHARS} characters.")
        return tools, away

    async def _of(self, server: listed.Server) -> _Known:
        known = self._known.get(server.name)
        if (known is None or self._monotonic() >= known.until) and server.name not in self._asking:
            asking = self._asking[server.name] = asyncio.create_task(self._ask(server))
            asking.add_done_callback(lambda _: self._asking.pop(server.name))
        if known is None:
            wait = min(self._patience.wait, server.seconds)
            await asyncio.wait([self._asking[server.name]], timeout=wait)
            slow = _Known(0.0, problems=(f"The server {server.name} has no answer within {wait:g} seconds.",))
            # Others do not wait for it again; it is still asked.
            known = self._known.setdefault(server.name, slow)
        return known

    async def _ask(self, server: listed.Server) -> None:
        seconds, tools, problems = self._patience.failed, list[ServerTool](), list[str]()
        try:
            catalogue = await toolservers.offered(server)
            tools = [ServerTool(tool) for tool in catalogue.tools if tool.mode is listed.Mode.READ]
            seconds = self._patience.kept
            problems = [f"{name} is left out: {why}" for name, why in catalogue.left_out.items()]
            if len(problems) > _MOST_NAMED:
                rest = f"{len(problems) - _MOST_NAMED} more tools of {server.name} are left out."
                problems = [*problems[:_MOST_NAMED], rest]
        except (toolservers.Away, toolservers.Refused, toolservers.Unreadable) as error:
            problems = [_why(error)]
        except Exception as error:
            # The edge of another program: what it says of its tools ends no question.
            log.exception("the tools of a server cannot be used", server=server.name)
            problems = [f"The tools of {server.name} cannot be used: {type(error).__name__}."]
        if problems:
            log.warning("tools of a server are not offered", server=server.name, problems=problems)
        self._known[server.name] = _Known(self._monotonic() + seconds, tuple(tools), tuple(problems))


def arguments(schema: Mapping[str, Any]) -> type[pydantic.BaseModel]:
    """A class of arguments that follow the schema of a tool, as far as `kept` keeps it."""
    import jsonschema

    shown = kept(schema)
    validator = jsonschema.Draft202012Validator(shown)

    class Arguments(pydantic.RootModel[dict[str, Any]]):
        @pydantic.model_validator(mode="after")
        def _fits(self) -> Arguments:
            wrong = next(validator.iter_errors(self.root), None)
            if wrong is not None:
                raise ValueError(f"{wrong.json_path.removeprefix('$.')}: {wrong.message[:200]}")
            return self

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> Schema:
            return shown

    return Arguments


def kept(schema: Mapping[str, Any]) -> Schema:
    """Of a tool's schema what a model is shown and answers are checked with: types, names, what is required, values,
    sizes. References within it are resolved, so that it can stand in another schema; patterns, which may take for ever,
    other references, what is behind eight levels, and a schema of more than 300 parts or 4,000 characters as a whole
    are left to the server."""
    left = _Left(_NODES, _SCHEMA_CHARS)
    made = _part(schema, schema, left, 0)
    if left.parts < 0 or left.chars < 0:
        made = {}
    return {**made, "type": "object", "properties": made.get("properties", {})}


@dataclass
class _Left:
    """Of one schema."""

    parts: int
    chars: int

    def take(self, *texts: object) -> bool:
        """Whether there is room for one more part that has these texts."""
        self.parts -= 1
        self.chars -= sum(len(str(one)) for one in texts)
        return self.parts >= 0 and self.chars >= 0


def _part(given: Any, whole: Mapping[str, Any], left: _Left, depth: int) -> Schema:
    if not isinstance(given, Mapping) or depth > _DEPTH or not left.take():
        return {}
    if isinstance(given.get("$ref"), str):
        return _part(_resolved(given["$ref"], whole), whole, left, depth + 1)
    made: Schema = {}
    types = given.get("type")
    if (several := types if isinstance(types, list) else [types]) and all(
        isinstance(one, str) and one in _TYPES for one in several
    ):
        made["type"] = types
    if isinstance(given.get("description"), str):
        made["description"] = _plain(given["description"])[:200]
        left.chars -= len(made["description"])
    values = [given["const"]] if "const" in given else given.get("enum")
    if isinstance(values, list) and values and left.take(values) and all(map(_value, values)):
        made["enum"] = [_plain(one) if isinstance(one, str) else one for one in values]
    made |= {name: given[name] for name in _NUMBERS if _number(given.get(name))}
    made |= {name: given[name] for name in _COUNTS if _count(given.get(name))}
    if isinstance(given.get("properties"), Mapping):
        parts = [(_plain(str(name)), one) for name, one in given["properties"].items() if left.take(name)]
        made["properties"] = {name: _part(one, whole, left, depth + 1) for name, one in parts}
        required = given.get("required")
        if isinstance(required, list):
            names = {one for one in required if isinstance(one, str)}
            made["required"] = sorted(names & made["properties"].keys())
    # What is kept refuses nothing that the schema takes: names that fit a pattern, and items with schemas of their own.
    if given.get("additionalProperties") is False and not given.get("patternProperties"):
        made["additionalProperties"] = False
    if isinstance(given.get("items"), Mapping) and not given.get("prefixItems"):
        made["items"] = _part(given["items"], whole, left, depth + 1)
    for name in ("anyOf", "oneOf"):
        if isinstance(given.get(name), list) and given[name]:
            made["anyOf"] = [_part(one, whole, left, depth + 1) for one in given[name] if left.parts >= 0]
    return made


def _resolved(reference: str, whole: Mapping[str, Any]) -> Any:
    """What a reference within the schema names; None for any other."""
    if not reference.startswith("#/"):
        return None
    found: Any = whole
    for name in reference[2:].split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _number(value: Any) -> bool:
    return not isinstance(value, bool) and schemas.finite(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT


def _value(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or _number(value)


def _strings(value: Any) -> Iterator[str]:
    """Every text in it, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name)
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _plain(text: str) -> str:
    """Without halves of characters, which no UTF-8 can have."""
    return json_bounds.plain(text)


def _why(error: toolservers.Away | toolservers.Refused | toolservers.Unreadable) -> str:
    return f"{error.message.rstrip('.')}."
