"""Servers of the Model Context Protocol (streamable HTTP) as clients of ours call them: what one offers, and a call.

Only servers that a setting lists are called, without credentials, redirects and proxies, and only the tools that the
entry allows. What a server says about its tools is text of that server: names and schemas are bounded, descriptions are
cut. The client library is imported when a server is called, or by `prepare`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from clients import http, tls_trust
from contracts.rules import routing
from crds import errors, patterns, tools

if TYPE_CHECKING:
    import mcp

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DESCRIPTION, _SCHEMA, _MOST_TOOLS = 500, 20_000, 50
_ANSWER_BYTES = 8 << 20
_SETS = frozenset({"required", "enum", "type"})
MOST_ARGUMENTS = 100_000
"""Characters of the arguments of a call, as JSON."""


class Away(errors.Operational):
    """The server does not answer."""


class NotSent(Away):
    """It does not answer, and no call was sent to it."""


@dataclass(frozen=True)
class Offered:
    """A tool of a server: `name` is the server's own, `about` one line, `schema` that of its arguments."""

    server: tools.Server
    name: str
    about: str
    schema: Mapping[str, Any]

    @property
    def definition(self) -> str:
        """A digest of where the server is and of all that a model is shown of the tool, whatever its order."""
        said = [self.server.url, self.name, self.about, _ordered(self.schema)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def called(self) -> str:
        """The name by which a model chooses it: SERVER.TOOL."""
        return f"{self.server.name}.{self.name}"

    @property
    def source(self) -> str:
        """The source of what it answers."""
        return f"mcp::{self.called}"


@dataclass(frozen=True)
class Answer:
    """What a call gave; `failed`: the server says that it did not work."""

    text: str
    failed: bool


def _ordered(schema: Any) -> Any:
    """The same schema with the lists in order whose order says nothing (JSON Schema: required, enum, type)."""
    if isinstance(schema, Mapping):
        return {
            key: sorted(value, key=json.dumps) if key in _SETS and isinstance(value, list) else _ordered(value)
            for key, value in schema.items()
        }
    return [_ordered(one) for one in schema] if isinstance(schema, list) else schema


def prepare() -> None:
    """Import the client library now, which takes a second: for a process that must not stop for it later."""
    import httpx2
    import mcp.client.streamable_http

    del httpx2, mcp


def allowed(patterns: Iterable[str], value: str) -> bool:
    """Whether one of the patterns, in which `*` stands for any text, is the value; none allow all."""
    some = tuple(patterns)
    return not some or any(patterns.matches(routing.fold(one), routing.fold(value)) for one in some)


def admits(server: tools.Server, client_id: str) -> bool:
    """Whether the server is there for this client, whose ID is compared as it is; an empty list names none."""
    return any(patterns.matches(one, client_id) for one in server.clients)


async def offered(server: tools.Server) -> list[Offered]:
    """The tools that the server's entry allows. Raises Away."""
    async with _connected(server) as client:
        listed = (await client.list_tools()).tools
    found: list[Offered] = []
    for one in listed[:_MOST_TOOLS]:
        schema = dict(one.input_schema)
        fits = _NAME.fullmatch(one.name) and len(json.dumps(schema)) <= _SCHEMA
        if fits and server.tools and allowed(server.tools, one.name):
            # Halves of characters, which JSON can have and UTF-8 cannot, stand in no prompt.
            about = " ".join((one.description or one.name).encode(errors="replace").decode().split())[:_DESCRIPTION]
            found.append(Offered(server, one.name, f"[{server.name}] {about}", schema))
    return found


async def call(tool: Offered, arguments: Mapping[str, Any]) -> Answer:
    """Its answer to one call, whose arguments the server checks. Raises NotSent, or Away where it may have happened."""
    begun, answer = False, None
    try:
        async with _connected(tool.server) as client:
            begun = True
            answer = await client.call_tool(tool.name, dict(arguments))
    except Away as error:
        if not begun:
            raise NotSent(f"{error.message.rstrip('.')}. Nothing was sent") from error
        if answer is None:
            raise
        # It has answered; that it does not end the connection as well changes nothing.
    texts = [one.text for one in answer.content if one.type == "text"]
    others = len(answer.content) - len(texts)
    if others:
        texts.append(f"[{others} parts are no text and are left out]")
    if not texts and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
    return Answer("\n".join(texts), bool(answer.is_error))


async def listed(servers: Iterable[tools.Server], client_id: str) -> tuple[list[Offered], dict[str, str]]:
    """The tools of all servers that are there for a client, and by the name of a server that is away, why it has
    none."""
    own = [one for one in servers if admits(one, client_id)]
    answers = await asyncio.gather(*(offered(one) for one in own), return_exceptions=True)
    found: list[Offered] = []
    away: dict[str, str] = {}
    for server, answer in zip(own, answers, strict=True):
        if isinstance(answer, Away):
            away[server.name] = answer.message
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found += answer
    return found, away


@contextlib.asynccontextmanager
async def _connected(server: tools.Server) -> AsyncIterator[mcp.Client]:
    """A client for one exchange. Raises Away for whatever goes wrong in it."""
    import httpx2
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    try:
        async with (
            httpx2.AsyncClient(
                timeout=server.seconds, trust_env=False, follow_redirects=False, transport=_transport()
            ) as opened,
            mcp.Client(
                streamable_http_client(server.url, http_client=opened), read_timeout_seconds=server.seconds
            ) as client,
        ):
            yield client
    except* Exception as group:  # noqa: BLE001 -- what its answers may bring up in the client library no list has
        first = group.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise Away(f"The server {server.name} does not answer: {type(first).__name__}: {str(first)[:200]}") from None


def _transport() -> Any:
    """`clients.http` for the library, which has an httpx of its own. Answers end behind _ANSWER_BYTES: it reads them
    whole first."""
    import httpx2

    class Stream(httpx2.AsyncByteStream):
        def __init__(self, answer: httpx.Response) -> None:
            self._answer = answer

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = _ANSWER_BYTES
            async for piece in self._answer.aiter_raw():
                left -= len(piece)
                if left < 0:
                    raise httpx2.ReadError(f"the answer has more than {_ANSWER_BYTES} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._answer.aclose()

    class Transport(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            self._inner = http.Transport(tls=tls_trust.context())

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            sent = httpx.Request(
                request.method,
                str(request.url),
                headers=request.headers.raw,
                content=await request.aread(),
                extensions=request.extensions,
            )
            answer = await self._inner.handle_async_request(sent)
            return httpx2.Response(answer.status_code, headers=answer.headers.raw, stream=Stream(answer))

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Transport()
