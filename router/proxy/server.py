"""The client's side: every request enters here and is refused, answered from the router's own knowledge, or forwarded.

aiohttp's low-level server with handler cancellation, so that a hang-up cancels the handler at whatever it waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog
from aiohttp import web

from crds import priority as scale
from router import catalogue, metrics, models, priority, report
from router.backends import book
from router.priority import Level
from router.proxy import body, hygiene, paths, refusal
from router.proxy.call import Call
from router.proxy.forward import Forwarder
from router.proxy.paths import Kind

_log = structlog.get_logger("router.server")

Own = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_LISTS: Mapping[str, Callable[[list[book.Entry]], dict[str, Any]]] = {
    "/api/tags": catalogue.tags,
    "/api/ps": catalogue.loaded,
    "/v1/models": catalogue.openai,
    "/api/version": catalogue.version,
}


def _today() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes. `body` for one request, `buffered` for the bodies of all requests that have no answer yet."""

    body: int = 64 << 20
    buffered: int = 1 << 30


class Server:
    """The handler of all requests. `own` are the router's own documents by path; `ids` makes request ids."""

    def __init__(
        self,
        forwarder: Forwarder,
        backends: book.Book,
        state: report.Report,
        counters: metrics.Metrics,
        *,
        own: Mapping[str, Own],
        bounds: Bounds,
        ids: Callable[[], str],
        now: Callable[[], float],
        today: Callable[[], datetime] = _today,
    ) -> None:
        self._forwarder = forwarder
        self._book = backends
        self._state = state
        self._metrics = counters
        self._own = own
        self._bounds = bounds
        self._ids = ids
        self._now = now
        self._today = today
        self._buffered = 0
        self.active: dict[asyncio.Task[Any], web.RequestHandler] = {}

    def listener(self, loop: asyncio.AbstractEventLoop) -> web.Server:
        """What `loop.create_server` takes."""

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=self._bounds.body)

        return web.Server(
            self.handle,
            request_factory=request,
            handler_cancellation=True,
            access_log=None,
            # Decompressing here while Content-Encoding is passed on would corrupt the body.
            auto_decompress=False,
        )

    def close_idle(self, listener: web.Server) -> None:
        """Close connections that carry no request; the others close after the answer they are at."""
        busy = set(self.active.values())
        for connection in listener.connections:
            connection.close()
            # aiohttp would leave an idle one open until its `shutdown`.
            if connection not in busy:
                connection.force_close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        raw = request.raw_path
        # Only paths that need no decoding are found here; the others pay for it.
        path = raw if raw in paths.INFERENCE else request.path
        task = asyncio.current_task()
        assert task is not None
        self.active[task] = request.protocol
        try:
            own = self._own.get(path)
            if own is not None:
                return await own(request)
            return await self._api(request, path)
        except refusal.Refusal as no:
            self._metrics.answered("router", no.status)
            return refusal.answer(no, path)
        finally:
            del self.active[task]

    async def _api(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        reading = request.method in ("GET", "HEAD")
        if path == "/" and reading:
            return web.Response(text="Ollama is running")
        if path in _LISTS and reading:
            return self._list(path)
        kind = paths.kind(path)
        if kind is Kind.ADMIN:
            raise refusal.Refusal(
                403,
                f"{path} is not available through the router: it would change one backend behind the others' back. "
                "Run it against the Ollama server itself; the model appears here within seconds",
                close=True,
            )
        if kind is Kind.FOREIGN:
            raise refusal.Refusal(404, f"{path} is not a path of Ollama's API", close=True)
        return await self._forward(request, path, kind)

    def _list(self, path: str) -> web.Response:
        if missing := self._state.ready():
            raise refusal.Refusal(503, f"no backend is available: {missing}", retry_after=2)
        return web.Response(body=orjson.dumps(_LISTS[path](self._book.entries())), content_type="application/json")

    async def _forward(self, request: web.BaseRequest, path: str, kind: Kind) -> web.StreamResponse:
        arrived = self._now()
        has_body = request.body_exists
        data = await self._read(request) if has_body else b""
        seen = body.look(data) if len(data) <= body.IN_THREAD else await body.peek(data)
        asked, model = seen.asked, seen.model
        if not model and path.startswith(paths.MODEL_PREFIX):
            asked = path.removeprefix(paths.MODEL_PREFIX)
            model = models.normalise(asked)
        header = request.headers.get(scale.HEADER)
        level = priority.level(header, model, self._book.table)
        self._count(header, level, kind)
        call = Call(
            request=request,
            path=path,
            target=request.raw_path if request.raw_path.startswith("/") else request.path_qs,
            kind=kind,
            request_id=hygiene.request_id(request.headers.get(hygiene.REQUEST_ID), self._ids),
            body=data,
            has_body=has_body,
            asked=asked,
            model=model,
            level=level,
            streams=paths.streams(path, seen.stream),
            arrived=arrived,
        )
        self._buffered += len(data)
        try:
            return await self._forwarder.run(call)
        finally:
            self._buffered -= len(data)

    async def _read(self, request: web.BaseRequest) -> bytes:
        announced, limit = request.content_length, self._bounds.body
        if announced is not None and announced > limit:
            raise _too_large(limit)
        if self._buffered + (announced or 0) > self._bounds.buffered:
            raise refusal.Refusal(503, "server busy: too much is waiting, please try again", retry_after=5, close=True)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        content = request.content
        if content.is_eof() and announced is not None and content.total_bytes == announced:
            return content.read_nowait()  # all of it came with the head
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(limit) from error
        except web.RequestPayloadError as error:
            raise refusal.Refusal(400, f"the body cannot be read: {error}", close=True) from error

    def _count(self, header: str | None, level: Level, kind: Kind) -> None:
        if header:
            self._metrics.asked.labels(level.label).inc()
            if not priority.understood(header):
                self._metrics.unknown_priority.inc()
        if level is Level.P0 and kind is Kind.INFERENCE:
            self._state.last_p0 = self._today()


def _too_large(limit: int) -> refusal.Refusal:
    return refusal.Refusal(
        413, f"the body is larger than {limit} bytes; send less, or raise JERVIS_ROUTER_MAX_BODY_BYTES", close=True
    )
