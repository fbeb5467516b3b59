"""Tools of other servers by the Model Context Protocol (streamable HTTP), named SERVER.TOOL.

Only servers that the settings list are called, only for the clients and only the tools that their entry allows. What a
server says about its tools is text of that server: names and schemas are bounded, descriptions are cut. A tool of a
server without `readOnly` has an effect that cannot be looked up, so a person approves each call, and decides again
where one was begun and not answered. A run can do without any of these servers. The client library is imported only
where a server is listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from crds import errors, scope, tools
from orchestrator_job import errors as job_errors
from orchestrator_job import ledger
from orchestrator_job.delegation.tools import bounds, port

if TYPE_CHECKING:
    import mcp

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DESCRIPTION, _SCHEMA, _MOST_TOOLS, _ARGUMENTS = 500, 20_000, 50, 100_000


class Away(errors.Operational):
    """The server does not answer."""


class _Any(port.Arguments):
    """Arguments by the server's own schema, which the server checks."""

    model_config = ConfigDict(frozen=True, extra="allow")


def arguments(schema: Mapping[str, Any]) -> type[port.Arguments]:
    """A class of arguments that shows `schema` to the model and takes any object."""

    class Given(_Any):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return dict(schema)

    return Given


class _Tool:
    away_seconds = port.DISPENSABLE_SECONDS

    def __init__(self, server: tools.Server, name: str, description: str, schema: Mapping[str, Any]) -> None:
        self._server, self._tool = server, name
        self.name, self.description = f"{server.name}.{name}", description
        self.arguments = arguments(schema)

    async def _call(self, given: Any) -> port.Result:
        """Raises Away, and NotBegun where the call was not sent."""
        sent = dict(given.model_extra or {})
        if len(json.dumps(sent)) > _ARGUMENTS:
            return bounds.failed(f"The arguments have more than {_ARGUMENTS} characters.")
        begun, answer = False, None
        try:
            async with _connected(self._server) as client:
                begun = True
                answer = await client.call_tool(self._tool, sent)
        except Away as error:
            if not begun:
                raise job_errors.NotBegun(f"{error.message.rstrip('.')}. Nothing was sent") from error
            if answer is None:
                raise
            # It has answered; that it does not end the connection as well changes nothing.
        texts = [one.text for one in answer.content if one.type == "text"]
        others = len(answer.content) - len(texts)
        if others:
            texts.append(f"[{others} parts are no text and are left out]")
        if not texts and answer.structured_content is not None:
            texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
        source = f"mcp::{self.name}"
        return port.Result(bounds.cut("\n".join(texts)), sources=(source,), failed=bool(answer.is_error))


class ReadingTool(_Tool):
    """Of a server with `readOnly`."""

    async def read(self, given: Any, place: port.Place) -> port.Result:
        """The server's answer. Raises as `_call`."""
        return await self._call(given)


class ActingTool(_Tool):
    """Of any other."""

    tier = port.Tier.APPROVED

    def aims(self, given: Any) -> Mapping[str, str]:
        """Every argument that is a text, and those within lists and objects."""
        return dict(_texts("", given.model_extra or {}))

    def shown(self, given: Any) -> str:
        """All arguments."""
        sent = json.dumps(given.model_extra or {}, ensure_ascii=False, indent=2, sort_keys=True)
        return f"Call {self._tool} of the server {self._server.name} ({self._server.url}) with\n{sent}"

    def effect(self, given: Any, place: port.Place) -> ledger.Effect:
        """Not begun."""
        return _Effect(self, given)


class _Effect:
    """A `ledger.Effect` that cannot be looked up."""

    repeatable = False

    def __init__(self, tool: ActingTool, given: Any) -> None:
        self._tool, self._given = tool, given

    def intent(self) -> Mapping[str, Any]:
        """The tool."""
        return {"tool": self._tool.name}

    async def find(self, key: str) -> ledger.Receipt | None:
        """The protocol has no question for it."""
        return None

    async def perform(self, key: str) -> ledger.Receipt:
        """Raises Away, after which it may have happened, and NotBegun."""
        result = await self._tool._call(self._given)
        return {"text": result.text, "failed": result.failed}


def _texts(path: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, str):
        yield path or "value", value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _texts(f"{path}.{name}" if path else str(name), one)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _texts(f"{path}.{number}", one)


async def listed(servers: Iterable[tools.Server], viewer: scope.Scope) -> tuple[list[port.Tool], dict[str, str]]:
    """The tools of all servers that `viewer` may use, and by the name of a server that is away, why it has none."""
    own = [one for one in servers if one.clients and bounds.allowed(one.clients, viewer.client_id)]
    answers = await asyncio.gather(*(_offered(one) for one in own), return_exceptions=True)
    found: list[port.Tool] = []
    away: dict[str, str] = {}
    for server, answer in zip(own, answers, strict=True):
        if isinstance(answer, Away):
            away[server.name] = answer.message
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found += answer
    return found, away


async def _offered(server: tools.Server) -> list[port.Tool]:
    """The tools that a server's entry allows. Raises Away."""
    async with _connected(server) as client:
        listed = (await client.list_tools()).tools
    found: list[port.Tool] = []
    for one in listed[:_MOST_TOOLS]:
        schema = dict(one.input_schema)
        fits = _NAME.fullmatch(one.name) and len(json.dumps(schema)) <= _SCHEMA
        if fits and server.tools and bounds.allowed(server.tools, one.name):
            about = " ".join((one.description or one.name).split())[:_DESCRIPTION]
            kind = ReadingTool if server.read_only else ActingTool
            found.append(kind(server, one.name, f"[{server.name}] {about}", schema))
    return found


@contextlib.asynccontextmanager
async def _connected(server: tools.Server) -> AsyncIterator[mcp.Client]:
    """A client for one exchange. Raises Away for whatever goes wrong in it."""
    import httpx2
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    try:
        async with (
            httpx2.AsyncClient(timeout=server.seconds, trust_env=False, follow_redirects=False) as http,
            mcp.Client(
                streamable_http_client(server.url, http_client=http), read_timeout_seconds=server.seconds
            ) as client,
        ):
            yield client
    except* (mcp.MCPError, httpx2.HTTPError, OSError, TimeoutError) as group:
        first = group.exceptions[0]
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise Away(f"The server {server.name} does not answer: {type(first).__name__}: {str(first)[:200]}") from None
