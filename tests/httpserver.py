"""Servers of the tests on loopback: HTTP by aiohttp, and TCP for bytes that no library would send.

Tests with an event loop open them by `async with`. Tests without one wrap them in `in_thread`. A server that is a class
derives from `Server`; `Recorder` is the one that keeps its requests and answers by a handler or by a table of handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from aiohttp import web

R = TypeVar("R")
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(
    served: web.Application | Handler,
    *,
    method: str = "*",
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    shutdown_seconds: float = 0.1,
    handler_cancellation: bool = False,
) -> AsyncIterator[str]:
    """The address of an application, or of a handler of all paths for one `method` (405 for others; *: every method).

    At the end, requests that are still being answered have `shutdown_seconds`. `handler_cancellation`: the handler of a
    client that hangs up is cancelled.
    """
    runner = web.AppRunner(
        served if isinstance(served, web.Application) else application(served, method),
        access_log=None,
        shutdown_timeout=shutdown_seconds,
        handler_cancellation=handler_cancellation,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        yield f"http{'s' if tls else ''}://{host}:{runner.addresses[0][1]}"
    finally:
        links = runner.server.connections if tls and runner.server else []
        transports = [link.transport for link in links if link.transport]
        await runner.cleanup()
        for transport in transports:
            transport.abort()  # asyncio would wait half a minute for a peer that does not end TLS
        await asyncio.sleep(0)


def application(handler: Handler, method: str = "*") -> web.Application:
    """One handler for all paths, which takes bodies of any size."""
    made = web.Application(client_max_size=1 << 30)
    made.router.add_route(method, "/{path:.*}", handler)
    return made


@contextlib.contextmanager
def in_thread(server: contextlib.AbstractAsyncContextManager[T]) -> Iterator[T]:
    """The server in an event loop of its own, which a thread runs for the length of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(step: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(step, loop).result()

    async def enter() -> T:
        return await server.__aenter__()

    async def leave() -> None:
        await server.__aexit__(None, None, None)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    try:
        opened = run(enter())
        try:
            yield opened
        finally:
            run(leave())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Server:
    """An HTTP server at `url`. Subclasses define `answer`, or `application` if they have routes."""

    method = "*"
    url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The answer to any request."""
        raise NotImplementedError

    def application(self) -> web.Application:
        """What is served."""
        return application(self.answer, self.method)

    @contextlib.asynccontextmanager
    async def serving(
        self, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Self]:
        """The server in the event loop of the test, for the length of the block."""
        async with serving(self.application(), host=host, port=port, tls=tls) as self.url:
            yield self

    def in_thread(
        self, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> contextlib.AbstractContextManager[Self]:
        """The same in a thread, for tests without an event loop."""
        return in_thread(self.serving(host=host, tls=tls))

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])


@dataclass(frozen=True)
class Request:
    """A request as it came; `path` has the query, names of `headers` have any case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Recorder(Server):
    """`requests` in the order in which they came. A table has a handler for each path; other paths are 404."""

    def __init__(self, handler: Handler | Mapping[str, Handler], *, method: str = "*") -> None:
        self.handler, self.method = handler, method
        self.requests: list[Request] = []

    def calls(self) -> list[tuple[str, str]]:
        """Method and path of each request."""
        return [(request.method, request.path) for request in self.requests]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Record the request, then answer it."""
        body = await request.read()
        self.requests.append(Request(request.method, request.raw_path, request.query, request.headers, body))
        handler = self.handler.get(request.path) if isinstance(self.handler, Mapping) else self.handler
        return web.Response(status=404) if handler is None else await handler(request)


def fixed(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    """A handler that gives every request the same answer: bytes as they are, anything else as JSON."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return reply(document, status, headers)

    return answer


def reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON answer; `document` may be its bytes or its text."""
    body = document.encode() if isinstance(document, str) else document
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


@contextlib.asynccontextmanager
async def tcp(conversation: Conversation, *, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port whose connections are handed to `conversation`. Each is closed after it, those left at the end of the
    block are cut."""
    links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await conversation(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has left
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links[asyncio.create_task(serve(reader, writer))] = writer

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls, limit=1 << 26)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task, writer in links.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*links, return_exceptions=True)
