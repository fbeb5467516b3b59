"""A server of tools (Model Context Protocol, streamable HTTP) that answers as a test says, whatever its rules."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from tests import httpserver

Respond = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse | None]]


def tool(name: str, properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An entry of a list of tools."""
    schema = {"type": "object", "properties": properties or {}}
    return {"name": name, "description": f"Says {name}.", "inputSchema": schema, **more}


def text(content: str, **more: Any) -> dict[str, Any]:
    """A result with one text."""
    return {"content": [{"type": "text", "text": content}], **more}


class ToolServer:
    """At `url`. `pages` are those of its list of tools, `answer` the result of each call, or its error where it has a
    `code`; `events`: it answers by a stream of events. `before` may answer a request itself, by its method. `asked`
    are the methods that came, and `calls` the parameters of calls."""

    def __init__(self) -> None:
        self.url = ""
        self.pages: list[list[Any]] = [[tool("say")]]
        self.answer: Any = text("said")
        self.events = False
        self.session = ""
        self.before: dict[str, Respond] = {}
        self.asked: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.held = asyncio.Event()
        """A call waits until it is set, where a test clears it."""
        self.held.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        if request.method != "POST":
            self.asked.append(request.method)
            own = self.before.get(request.method)
            answer = await own(request, {}) if own is not None else None
            return answer or web.Response(status=405)
        message = await request.json()
        method = message["method"]
        self.asked.append(method)
        if method == "tools/call":
            self.calls.append(message["params"])
            await self.held.wait()
        if method in self.before and (answer := await self.before[method](request, message)) is not None:
            return answer
        if "id" not in message:
            return web.Response(status=202)
        return self.respond(message, self._result(method, message.get("params") or {}))

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            info = {"serverInfo": {"name": "scripted", "version": "1"}, "capabilities": {"tools": {}}}
            return {"protocolVersion": params["protocolVersion"], **info}
        if method == "tools/list":
            number = int(params.get("cursor", 0))
            more = {"nextCursor": str(number + 1)} if number + 1 < len(self.pages) else {}
            return {"tools": self.pages[number], **more}
        if method == "tools/call":
            return self.answer
        return {"code": -32601, "message": "no such method"}

    def respond(self, message: dict[str, Any], result: Any) -> web.Response:
        """The answer to a request."""
        kind = "error" if isinstance(result, dict) and "code" in result else "result"
        document = json.dumps({"jsonrpc": "2.0", "id": message["id"], kind: result})
        headers = {"Mcp-Session-Id": self.session} if self.session and message["method"] == "initialize" else {}
        if self.events:
            return web.Response(
                text=f"event: message\ndata: {document}\n\n", content_type="text/event-stream", headers=headers
            )
        return web.Response(text=document, content_type="application/json", headers=headers)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[ToolServer]:
    """The server."""
    server, application = ToolServer(), web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    async with httpserver.serving(application) as base:
        server.url = f"{base}/mcp"
        yield server
        # The end of the server waits for the calls that it has.
        server.held.set()
