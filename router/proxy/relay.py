"""From the backend's connection to the client's: the pump of one exchange."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from router import metrics
from router.proxy import hygiene, refusal, stall
from router.proxy.answer import Answer
from router.proxy.call import Call
from router.proxy.connection import Broken, Connection, Late, Leaving

_log = structlog.get_logger("router.relay")

_TAIL = 4


class Relay:
    """`begun` turns True at the one place where it is decided that the answer comes from this backend; `spoiled` says
    how the backend broke off after that. `complete` is called when the backend has done its part, before the client
    has taken the last bytes."""

    def __init__(
        self,
        call: Call,
        backend: str,
        watch: stall.Watch,
        limits: stall.Limits,
        counters: metrics.Metrics,
        *,
        now: Callable[[], float],
        complete: Callable[[], None],
    ) -> None:
        self.begun = False
        self.spoiled = ""
        self._complete = complete
        self._tail = b""
        self.connection: Connection | None = None
        self._call = call
        self._backend = backend
        self._watch = watch
        self._limits = limits
        self._metrics = counters
        self._now = now
        self._guard = watch.open(self._cut)

    def close(self) -> None:
        """The exchange is over."""
        self._watch.close(self._guard)
        self._guard.forget()

    async def ask(self, connection: Connection, head: bytes) -> None:
        """Send the request and wait for the first body byte or the end. Raises Broken."""
        self.connection = connection
        limit = self._limits.first if self._call.streams else self._limits.whole
        self._guard.move(self._now(), limit, self._silent)
        connection.send(head, self._call.body, head_only=self._call.request.method == "HEAD")
        await connection.arrived()

    async def run(self, connection: Connection, counters: metrics.Exchange, *, queue_ms: int, last: bool) -> Answer:
        """Relay the answer that has begun to arrive. `last` closes the client's connection after it."""
        call = self._call
        answer = Answer(
            call.request,
            connection.status,
            connection.headers,
            hygiene.own_headers(self._backend, queue_ms, call.request_id),
            last=last,
        )
        self.begun = True
        call.body = b""
        self._metrics.answered("backend", connection.status)
        try:
            await self._pump(connection, answer, counters)
        except Broken as error:
            await self._show(error, answer)
        except ConnectionError:
            # The client was gone before its hang-up reached us as a cancellation; the caller closes the backend's side.
            self._metrics.hangups.labels("streaming").inc()
            answer.tear()
        return answer

    async def _pump(self, connection: Connection, answer: Answer, counters: metrics.Exchange) -> None:
        guard, now, limits = self._guard, self._now, self._limits

        def sink(piece: bytes) -> bool:
            guard.since = now()
            self._tail = piece
            counters.sent += len(piece)
            try:
                return answer.pour(piece)
            except ConnectionResetError:
                return False  # the client is gone: `room` says so to the task

        data = connection.take()
        while not connection.complete:
            if data:
                connection.congested = not sink(data)
                data = b""
            if connection.congested:
                guard.move(now(), limits.write, self._stalled)
                await answer.room()
            guard.move(now(), limits.between, self._silent)
            await connection.flow(sink)
        data += connection.take()
        self._complete()
        self._writing()
        await answer.end(data)
        counters.sent += len(data)

    async def _show(self, error: Broken, answer: Answer) -> None:
        """The backend died in the middle: say so, and end in a way that nobody takes for the end of an answer."""
        if not isinstance(error, Leaving):
            self.spoiled = error.message
            self._metrics.broken.labels(self._backend, "silent" if isinstance(error, Late) else "stream").inc()
        _log.warning("answer broke off", backend=self._backend, reason=error.message, id=self._call.request_id)
        try:
            message = f"backend {self._backend!r}: {error.message}"
            line = refusal.late(message, answer.content_type, self._tail[-_TAIL:])
            # Inside a declared length an error line would be taken for content.
            if line and not answer.declared:
                self._writing()
                answer.pour(line)
                await answer.room()
        except ConnectionError:
            self._metrics.hangups.labels("streaming").inc()
        finally:
            answer.tear()

    def _writing(self) -> None:
        self._guard.move(self._now(), self._limits.write, self._stalled)

    def _silent(self) -> None:
        if self.connection is not None:
            waited = self._guard.limit
            self.connection.fail(Late(f"the backend was silent for {waited:g} s"))

    def _cut(self) -> None:
        if self.connection is not None:
            self.connection.fail(Leaving("the router is shutting down; try again"))

    def _stalled(self) -> None:
        """The client takes nothing: its connection goes, which cancels the handler and frees the slot."""
        self._metrics.stalled.inc()
        transport = self._call.request.transport
        if transport is not None:
            transport.abort()
