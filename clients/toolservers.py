"""Servers of the Model Context Protocol (streamable HTTP) as clients of ours call them: what one offers, and a call.

Only servers that a setting lists are called, without credentials and proxies, and only the tools that the entry allows.
What a server says about its tools is text of that server: names and schemas are bounded, descriptions are cut, and a
tool that cannot be offered is named with the reason. An error that the server states is the answer of the call;
`tool_transport` says what silence is. The protocol's library is imported when a server is called, or by `prepare`.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import math
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from clients import http, json_bounds, tls_trust, tool_results, tool_transport
from clients.tool_results import Answer
from clients.tool_transport import Away, NotSent, Refused, Unreadable
from contracts.rules import routing
from crds import errors, patterns, tools

if TYPE_CHECKING:
    import mcp

__all__ = ["Answer", "Away", "NotSent", "Refused", "Unreadable"]
_T = TypeVar("_T")
_DESCRIPTION, _SCHEMA, _LONGEST_NAME = 500, 20_000, 256
_MOST_TOOLS, _MOST_PAGES, _MOST_NAMED = 50, 50, 200
_SETS = frozenset({"required", "enum", "type"})
_HEADER_MISMATCH = -32020
MOST_ARGUMENTS = 100_000
"""Characters of the arguments of a call, as JSON; with more it is not sent."""


@dataclass(frozen=True)
class Offered:
    """A tool of a server: `name` is the server's own, `about` one line, `schema` that of its arguments; `alias` is the
    name by which models call it where they cannot write the own one. `hinted`: the server says that it only reads."""

    server: tools.Server
    name: str
    about: str
    schema: Mapping[str, Any]
    alias: str = ""
    hinted: bool = False

    @property
    def mode(self) -> tools.Mode:
        """What a call needs."""
        return self.server.mode(self.name, hinted=self.hinted)

    @property
    def definition(self) -> str:
        """A digest of where the server is and of all that a model is shown of the tool, whatever its order."""
        shown = [self.server.url, self.name, self.about, _ordered(self.schema), self.hinted]
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()

    @property
    def called(self) -> str:
        """The name by which a model chooses it: SERVER.TOOL."""
        return f"{self.server.name}.{self.alias or self.name}"

    @property
    def own(self) -> str:
        """SERVER.TOOL by the server's own name, which a person may write in a rule."""
        return f"{self.server.name}.{self.name}"

    @property
    def source(self) -> str:
        """The source of what it answers."""
        return f"mcp::{self.called}"


@dataclass(frozen=True)
class Catalogue:
    """What servers offer. `away`: by the name of a server that has no tools now, why. `left_out`: by SERVER.TOOL, why a
    tool that the entry allows is not offered; the name is the server's own."""

    tools: list[Offered] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def _ordered(schema: Any) -> Any:
    """The same schema with the lists in order whose order says nothing (JSON Schema: required, enum, type)."""
    if isinstance(schema, Mapping):
        return {
            key: sorted(value, key=json.dumps) if key in _SETS and isinstance(value, list) else _ordered(value)
            for key, value in schema.items()
        }
    return [_ordered(part) for part in schema] if isinstance(schema, list) else schema


def prepare() -> None:
    """Import the client library now, which takes a second: for a process that must not stop for it later."""
    import mcp

    del mcp
    _trust()


@functools.cache
def _trust() -> ssl.SSLContext:
    """Of all servers: it takes the event loop fifty milliseconds to make."""
    return tls_trust.context()


def allowed(choices: Iterable[str], value: str) -> bool:
    """Whether one of the patterns, in which `*` stands for any text, is the value; none allow all."""
    some = tuple(choices)
    return not some or any(patterns.matches(routing.fold(one), routing.fold(value)) for one in some)


def admits(server: tools.Server, client_id: str) -> bool:
    """Whether the server is there for this client, whose ID is compared as it is; an empty list names none."""
    return any(patterns.matches(one, client_id) for one in server.clients)


async def offered(server: tools.Server, seconds: float = math.inf) -> Catalogue:
    """The tools that the server's entry allows, within its seconds or fewer. Raises Away, Refused or Unreadable."""
    listing = _Listing(server)
    await _exchange(server, listing.read, min(seconds, server.seconds))
    return listing.catalogue()


class _Listing:
    """The pages of a server's list of tools, of which it keeps what is offered and names what is not."""

    def __init__(self, server: tools.Server) -> None:
        self._server = server
        self._tools = dict[str, Offered]()
        self._left_out = dict[str, str]()

    async def read(self, client: mcp.Client, transport: tool_transport.Transport) -> bool:
        """All pages. Raises Unreadable, and what the library raises."""
        from mcp.types import PaginatedRequestParams

        cursor, seen = None, set[str]()
        for _ in range(_MOST_PAGES):
            await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
            result = transport.result or {}
            page = result.get("tools")
            if not isinstance(page, list):
                raise Unreadable(f"The server {self._server.name} answers with a list of tools that is none.")
            for tool in page:
                self._take(tool)
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return True
            if cursor in seen:
                break
            seen.add(cursor)
        self._leave_out("*", f"The list has the same page again, or more than {_MOST_PAGES}.")
        return False

    def catalogue(self) -> Catalogue:
        """What was read."""
        aliases = tool_results.names(self._tools)
        named = [
            tool if aliases[name] == name else replace(tool, alias=aliases[name]) for name, tool in self._tools.items()
        ]
        return Catalogue(named, left_out=self._left_out)

    def _take(self, tool: Any) -> None:
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not name:
            self._leave_out("?", "It has no name.")
        elif self._server.tools and allowed(self._server.tools, name):
            if why := self._unfit(tool, name):
                self._leave_out(name[:_LONGEST_NAME], why)
                return
            described = tool.get("description")
            about = " ".join((described if isinstance(described, str) and described.strip() else name).split())
            if len(about) > _DESCRIPTION:
                about = f"{about[:_DESCRIPTION]} [{len(about) - _DESCRIPTION} more characters are left out]"
            notes = tool.get("annotations")
            hinted = isinstance(notes, Mapping) and notes.get("readOnlyHint") is True
            about = f"[{self._server.name}] {about}"
            self._tools[name] = Offered(self._server, name, about, tool["inputSchema"], hinted=hinted)

    def _unfit(self, tool: Mapping[str, Any], name: str) -> str:
        """Why a tool is not offered; "" where it is."""
        schema, execution = tool.get("inputSchema"), tool.get("execution")
        if name in self._tools:
            return "The server lists two tools of that name; the first is offered."
        if len(name) > _LONGEST_NAME:
            return f"Its name has more than {_LONGEST_NAME} characters."
        if not isinstance(schema, Mapping):
            return "The server does not say which arguments it takes (inputSchema)."
        if (size := len(json.dumps(schema))) > _SCHEMA:
            return f"The schema of its arguments has {size} characters; at most {_SCHEMA} are shown to a model."
        if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
            return "It answers by a task of the protocol alone, which is not supported."
        if len(self._tools) >= _MOST_TOOLS:
            return f"The entry allows more than {_MOST_TOOLS} tools; name the needed ones in its `tools`."
        return ""

    def _leave_out(self, name: str, why: str) -> None:
        if len(self._left_out) < _MOST_NAMED:
            self._left_out.setdefault(f"{self._server.name}.{name}", why)


async def call(tool: Offered, arguments: Mapping[str, Any]) -> Answer:
    """Its answer to one call, whose arguments the server checks; an error that the server states is one. Raises
    NotSent, or Away where it may have happened."""
    if len(json.dumps(arguments)) > MOST_ARGUMENTS:
        return Answer(f"The arguments have more than {MOST_ARGUMENTS} characters.", True)

    async def ask(client: mcp.Client, transport: tool_transport.Transport) -> Mapping[str, Any]:
        import mcp
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        asked = CallToolRequest(params=CallToolRequestParams(name=tool.name, arguments=dict(arguments)))
        try:
            await client.session.send_request(asked, CallToolResult)
        except mcp.MCPError:
            if transport.code != _HEADER_MISMATCH:
                raise
            # Of a stateless server that wants some arguments as headers, which its list says. It has done nothing.
            await _Listing(tool.server).read(client, transport)
            await client.session.send_request(asked, CallToolResult)
        return transport.result or {}

    try:
        result = await _exchange(tool.server, ask, tool.server.seconds)
    except Unreadable as error:
        return Answer(f"{error.message.rstrip('.')}. Whether it was done has to be looked up there.", True)
    except Refused as error:
        return Answer(error.message, True)
    return tool_results.read(result)


async def listed(servers: Iterable[tools.Server], client_id: str, *, seconds: float) -> Catalogue:
    """The tools of all servers that are there for a client; one that takes longer is away."""
    own = [server for server in servers if admits(server, client_id)]
    answers = await asyncio.gather(*(offered(server, seconds) for server in own), return_exceptions=True)
    catalogue = Catalogue()
    for server, answer in zip(own, answers, strict=True):
        if isinstance(answer, errors.JervisError):
            catalogue.away[server.name] = answer.message
        elif isinstance(answer, BaseException):
            raise answer
        else:
            catalogue.tools.extend(answer.tools)
            catalogue.left_out.update(answer.left_out)
    return catalogue


async def _exchange(
    server: tools.Server, work: Callable[[mcp.Client, tool_transport.Transport], Awaitable[_T]], seconds: float
) -> _T:
    """What `work` gives of a connected client, within these seconds. Raises Away, NotSent, Refused, Unreadable.
    What has arrived is not lost to how the connection ends."""
    import mcp

    given = list[_T]()
    cause: BaseException | None = None
    async with http.client(tls=_trust(), seconds=seconds) as opened:
        transport = tool_transport.Transport(server, opened)
        try:
            async with asyncio.timeout(seconds), mcp.Client(transport.streams()) as client:
                given.append(await work(client, transport))
        except* Exception as group:  # noqa: BLE001 -- what its answers may bring up in the protocol's library no list has
            cause = group
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
    if given:
        return given[0]
    assert cause is not None
    raise _why(server, seconds, transport, cause) from cause


def _why(
    server: tools.Server, seconds: float, transport: tool_transport.Transport, cause: BaseException
) -> errors.JervisError:
    if isinstance(cause, TimeoutError):
        why: errors.JervisError = Away(f"The server {server.name} has no answer within {seconds:g} seconds")
    elif transport.failure is not None:
        why = transport.failure
    elif isinstance(cause, errors.JervisError):
        why = cause
    else:
        text = json_bounds.plain(f"{type(cause).__name__}: {str(cause)[:200]}")
        why = Unreadable(f"The server {server.name} has answered, and its answer cannot be read: {text}")
    if isinstance(why, Away) and not isinstance(why, NotSent) and not transport.sent:
        return NotSent(f"{why.message.rstrip('.')}. Nothing was sent.", retry_after=why.retry_after)
    return why
