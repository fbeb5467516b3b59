"""The way of one request: a slot, a backend, the answer back, byte for byte.

Nothing is sent to the client before the first body byte of an answer is there. Up to that point the request can move to
another backend without anybody noticing; from then on it cannot, and a backend that dies is shown to the client: an
error line where the format has a place for one, and an end that is not clean.

With the server's handler cancellation every `await` can be the one where the client hangs up: slots are given back in
`finally`, connections that are half read are closed hard, and CancelledError is never swallowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from aiohttp import web

from router import dispatch, metrics, scheduler
from router.backends import book
from router.proxy import hygiene, refusal, stall
from router.proxy.budget import Budget
from router.proxy.call import Call
from router.proxy.connection import Broken, Connection, Late, Leaving
from router.proxy.paths import Kind
from router.proxy.pool import Pool, Pools, Unreachable
from router.proxy.relay import Relay

_log = structlog.get_logger("router.forward")


class _Elsewhere(Exception):  # noqa: N818  # not an error: the request goes on at another backend
    """This backend did not answer the request; `refusal` is what to say if nobody else does."""

    def __init__(self, said: refusal.Refusal) -> None:
        super().__init__(said.message)
        self.refusal = said


class _Hold:
    """A slot and the connection that uses it; both are given back by the first `end`."""

    __slots__ = ("_ended", "_now", "_pool", "_release", "connection")

    def __init__(self, pool: Pool, now: Callable[[], float], release: Callable[[], None]) -> None:
        self.connection: Connection | None = None
        self._pool = pool
        self._now = now
        self._release = release
        self._ended = False

    def end(self) -> None:
        """The answer is complete, or nobody wants it any more."""
        if self._ended:
            return
        self._ended = True
        if self.connection is None:
            self._release()
            return
        self._pool.give_back(self.connection, self._now())
        if self.connection.complete:
            self._release()
        else:
            # The backend's slot is busy until it has lost us.
            self.connection.when_lost(self._release)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a forwarder stands on. `now` is monotonic seconds, `draining` tells whether the process is going."""

    book: book.Book
    dispatcher: dispatch.Dispatcher
    pools: Pools
    watch: stall.Watch
    metrics: metrics.Metrics
    limits: stall.Limits
    budget: Budget
    numbers: Iterator[int]
    now: Callable[[], float]
    draining: Callable[[], bool]


class Forwarder:
    """One per process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, call: Call) -> web.StreamResponse:
        """Relay the answer to `call`. Raises Refusal when there is none."""
        parts = self._parts
        parts.budget.earn()
        avoid: frozenset[str] = frozenset()
        failed: refusal.Refusal | None = None
        while True:
            ticket = scheduler.Request(
                next(parts.numbers), call.model, call.level, call.arrived, avoid, metered=call.metered
            )
            try:
                backend = await parts.dispatcher.acquire(ticket)
            except dispatch.Turned as turned:
                parts.metrics.refused.labels(turned.reason).inc()
                raise failed or _refusal(turned.reason, call.asked) from turned
            except asyncio.CancelledError:
                parts.metrics.hangups.labels("queue").inc()
                raise
            try:
                return await self._exchange(call, ticket, backend)
            except _Elsewhere as elsewhere:
                failed = elsewhere.refusal
                avoid |= {backend}

    async def _exchange(self, call: Call, ticket: scheduler.Request, backend: str) -> web.StreamResponse:
        """One attempt at one backend. Gives the slot back when the backend is done with it, however that ends."""
        parts = self._parts
        entry = parts.book.find(backend)
        if entry is None:  # removed in the moment between grant and wake-up
            parts.dispatcher.release(ticket.id)
            raise _Elsewhere(_refusal(scheduler.Reason.UNAVAILABLE, call.asked))
        pool = parts.pools.of(backend, entry.spec.url)
        hold = _Hold(pool, parts.now, lambda: parts.dispatcher.release(ticket.id))
        relay = Relay(call, backend, parts.watch, parts.limits, parts.metrics, now=parts.now, complete=hold.end)
        try:
            sent = parts.now()
            await self._first_bytes(call, pool, relay, hold)
            connection = hold.connection
            assert connection is not None
            self._judge(call, ticket, backend, connection)
            counters = parts.metrics.exchange(call.level.label, call.model, backend)
            counters.began(sent - call.arrived, parts.now() - sent)
            answer = await relay.run(
                connection, counters, queue_ms=round((sent - call.arrived) * 1000), last=parts.draining()
            )
            if relay.spoiled:
                parts.book.failed(backend, relay.spoiled)
            elif connection.complete and answer.status < 500:
                parts.book.succeeded(backend)
            return answer.response()
        except Broken as error:
            # Only before the first byte: later ones the relay shows to the client itself.
            raise self._spoiled(call, ticket, backend, error) from error
        except asyncio.CancelledError:
            parts.metrics.hangups.labels("streaming" if relay.begun else "first_byte").inc()
            raise
        finally:
            relay.close()
            hold.end()

    async def _first_bytes(self, call: Call, pool: Pool, relay: Relay, hold: _Hold) -> None:
        """Send the request and wait for the first body byte (or the whole of an answer without a body)."""
        head = hygiene.request_head(
            call.request.method,
            pool.base_path.decode() + call.target,
            call.request.raw_headers,
            authority=pool.authority,
            length=len(call.body) if call.has_body else None,
            request_id=call.request_id,
        )
        # Something that must not happen twice never rides on a connection that may just be closing.
        reused = hold.connection = pool.reuse() if call.repeatable else None
        if reused is not None:
            try:
                await relay.ask(reused, head)
            except Broken as error:
                if reused.heard or isinstance(error, Late | Leaving):
                    raise
                self._parts.metrics.retries.labels("keepalive").inc()
            else:
                return
        hold.connection = None
        hold.connection = await pool.connect()
        await relay.ask(hold.connection, head)

    def _judge(self, call: Call, ticket: scheduler.Request, backend: str, connection: Connection) -> None:
        """Look at the status before anything is sent to the client. Raises _Elsewhere to try another backend."""
        parts, status = self._parts, connection.status
        if status == 404 and call.kind is Kind.INFERENCE and call.model:
            said = f"backend {backend!r} does not have model {call.asked!r} any more"
            parts.book.lacks(backend, call.model)
        elif status >= 500:
            said = f"backend {backend!r} answered {status}"
            if status != 503:  # 503 is Ollama's "server busy": load, not damage
                parts.book.failed(backend, f"answered {status}")
        else:
            return
        if self._may_move(call, ticket, backend, f"status_{status}"):
            raise _Elsewhere(refusal.Refusal(503, said, retry_after=2))

    def _spoiled(self, call: Call, ticket: scheduler.Request, backend: str, error: Broken) -> Exception:
        """A backend that gave no answer: what to raise."""
        if isinstance(error, Leaving):
            return refusal.Refusal(503, error.message, retry_after=2, close=True)
        parts = self._parts
        phase = "connect" if isinstance(error, Unreachable) else "first_byte"
        parts.metrics.broken.labels(backend, phase).inc()
        parts.book.failed(backend, error.message)
        _log.warning(
            "backend spoiled a request", backend=backend, phase=phase, reason=error.message, id=call.request_id
        )
        said = refusal.Refusal(
            504 if isinstance(error, Late) else 502,
            f"backend {backend!r}: {error.message}; try again",
            retry_after=2,
        )
        return _Elsewhere(said) if self._may_move(call, ticket, backend, phase) else said

    def _may_move(self, call: Call, ticket: scheduler.Request, backend: str, reason: str) -> bool:
        parts = self._parts
        moved = scheduler.Request(
            ticket.id, ticket.model, ticket.level, ticket.arrived, ticket.avoid | {backend}, ticket.metered
        )
        if not call.repeatable or not parts.dispatcher.elsewhere(moved) or not parts.budget.spend():
            return False
        parts.metrics.retries.labels(reason).inc()
        return True


def _refusal(reason: scheduler.Reason, model: str) -> refusal.Refusal:
    """What a client hears when there is no slot. `model` comes from it and may be of any length."""
    model = model[:256]
    match reason:
        case scheduler.Reason.UNKNOWN_MODEL:
            return refusal.Refusal(404, f"model '{model}' not found: no GpuBackend serves it; see /api/tags")
        case scheduler.Reason.NO_BACKEND:
            return refusal.Refusal(503, "no GpuBackend is configured; apply one or set GPU_BACKENDS", retry_after=5)
        case scheduler.Reason.QUEUE_FULL:
            return refusal.Refusal(503, "server busy, please try again. the router's queue is full", retry_after=5)
        case _:
            which = f" that serves model '{model}'" if model else ""
            return refusal.Refusal(
                503, f"no backend{which} is available at the moment, please try again", retry_after=2
            )
