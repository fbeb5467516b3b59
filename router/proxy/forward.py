"""The way of one request: a slot, a backend, the answer back, byte for byte.

Nothing is sent to the client before the first body byte of an answer is there. Up to that point the request can move to
another backend without anybody noticing; from then on it cannot, and a backend that dies is shown to the client: an
error line where the format has a place for one, and an end that is not clean.

With the server's handler cancellation every `await` can be the one where the client hangs up: slots are given back in
`finally`, connections that are half read are closed hard, and CancelledError is never swallowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from router import dispatch, priority, scheduler
from router.proxy import hygiene, refusal
from router.proxy.call import Call
from router.proxy.connection import Broken, Connection, Late, Leaving, Preempted
from router.proxy.parts import Parts
from router.proxy.paths import Kind
from router.proxy.pool import Unreachable
from router.proxy.relay import Relay
from router.proxy.rewrite import rewrite

_log = structlog.get_logger("router.forward")

# Says in one word why the router refused.
REASON = "X-Ollama-Router-Reason"


class _Elsewhere(Exception):  # noqa: N818  # not an error: the request goes on at another backend
    """This backend did not answer the request; `refusal` is what to say if nobody else does."""

    def __init__(self, said: refusal.Refusal) -> None:
        super().__init__(said.message)
        self.refusal = said


class _GaveWay(Exception):  # noqa: N818  # not an error: the request is offered again
    """A more urgent request took the slot before the first byte was sent."""


class Forwarder:
    """One per process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, call: Call) -> None:
        """Relay the answer to `call`. Raises Refusal when there is none."""
        parts = self._parts
        parts.budget.earn()
        avoid: frozenset[str] = frozenset()
        failed: refusal.Refusal | None = None
        need, preempted = call.need, 0
        while True:
            ticket = scheduler.Request(
                next(parts.numbers),
                call.model,
                call.level,
                call.arrived,
                avoid,
                call.metered,
                need,
                call.client,
                len(call.request.body),
                preempted,
            )
            try:
                backend = parts.dispatcher.offer(ticket) or await parts.dispatcher.granted(ticket)
            except dispatch.Turned as turned:
                parts.metrics.refused.labels(turned.reason).inc()
                raise failed or _refusal(turned.reason, call.asked) from turned
            except asyncio.CancelledError:
                parts.metrics.hangups.labels("queue").inc()
                raise
            try:
                await self._exchange(call, ticket, backend)
                return
            except _Elsewhere as elsewhere:
                failed = elsewhere.refusal
                avoid |= {backend}
            except _GaveWay:
                preempted += 1

    async def _exchange(self, call: Call, ticket: scheduler.Request, backend: str) -> None:
        """One attempt at one backend. Gives the slot back when the backend is done with it, however that ends."""
        parts = self._parts
        entry = parts.book.find(backend)
        if entry is None:  # removed in the moment between grant and wake-up
            parts.dispatcher.release(ticket.id)
            raise _Elsewhere(_refusal(scheduler.Reason.UNAVAILABLE, call.asked))
        relay = Relay(call, ticket.id, backend, parts.pools.of(backend, entry.spec.url), parts)
        if call.level in priority.OVERFLOW:
            parts.dispatcher.on_cancel(ticket.id, relay.give_way)
        busy = parts.metrics.busy(backend)
        sent = parts.now()
        busy.begin(sent)
        try:
            owned = parts.dispatcher.owns(backend, call.model)
            body = call.request.body if owned is None else self._owned(call, owned)
            connection = await self._first_bytes(call, relay, body)
            if connection.status >= 400:
                self._judge(call, ticket, backend, connection)
            if not parts.dispatcher.began(ticket.id):
                raise _GaveWay
            counters = parts.metrics.exchange(call.level.label, call.model, backend)
            counters.began(sent - call.arrived, parts.now() - sent)
            status = connection.status
            if not relay.begin(
                counters,
                queue_ms=round((sent - call.arrived) * 1000),
                last=parts.draining(),
                model_set="" if owned is None else owned.model_set,
            ):
                await relay.run()
            if relay.spoiled:
                parts.book.failed(backend, relay.spoiled)
            elif relay.whole and status < 500:
                parts.book.succeeded(backend)
        except Broken as error:
            # Only before the first byte: later ones the relay shows to the client itself.
            if isinstance(error, Preempted):
                raise _GaveWay from error
            raise self._spoiled(call, ticket, backend, error) from error
        except asyncio.CancelledError:
            parts.metrics.hangups.labels("streaming" if relay.begun else "first_byte").inc()
            raise
        finally:
            busy.end(parts.now())
            relay.close()

    def _owned(self, call: Call, owned: scheduler.Owned) -> bytes:
        """The body as that backend gets it: the router decides how long a model that it owns stays in memory, and with
        which context, or one client's request would unload or reload everybody's model."""
        body, parts = call.request.body, self._parts
        if not (parts.own_parameters and body and call.kind is Kind.INFERENCE and call.path.startswith("/api/")):
            return body
        changed = rewrite(body, owned.keep_alive, owned.num_ctx)
        if changed != body:
            parts.metrics.rewritten.inc()
        return changed

    async def pinned(self, call: Call, backend: str) -> None:
        """An administrator's request to the one backend that it names: no slot, no retry. Raises Refusal."""
        parts = self._parts
        entry = parts.book.find(backend)
        if entry is None:
            raise refusal.Refusal(404, f"no GpuBackend is named {backend!r} any more")
        relay = Relay(call, None, backend, parts.pools.of(backend, entry.spec.url), parts)
        try:
            await self._first_bytes(call, relay, call.request.body)
            counters = parts.metrics.exchange(call.level.label, "", backend)
            if not relay.begin(counters, queue_ms=0, last=parts.draining()):
                await relay.run()
        except Broken as error:
            raise refusal.Refusal(502, f"backend {backend!r}: {error.message}") from error
        finally:
            relay.close()

    async def _first_bytes(self, call: Call, relay: Relay, body: bytes) -> Connection:
        """Send the request and wait for the first body byte (or the whole of an answer without a body)."""
        pool = relay.pool
        head = hygiene.request_head(
            call.request,
            prefix=pool.base_path,
            authority=pool.authority,
            length=len(body) if call.request.has_body else None,
            request_id=call.request_id,
            authorization=pool.authorization or (b"" if self._parts.guarded else None),
        )
        # Something that must not happen twice never rides on a connection that may just be closing.
        reused = pool.reuse() if call.repeatable else None
        if reused is not None:
            try:
                relay.ask(reused, head, body)
                await reused.arrived()
            except Broken as error:
                if reused.heard or isinstance(error, Late | Leaving):
                    raise
                self._parts.metrics.retries.labels("keepalive").inc()
            else:
                return reused
        relay.connection = None
        connection = await pool.connect()
        relay.ask(connection, head, body)
        await connection.arrived()
        return connection

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
            ticket.id, ticket.model, ticket.level, ticket.arrived, ticket.avoid | {backend}, ticket.metered, ticket.need
        )
        if not call.repeatable or not parts.dispatcher.elsewhere(moved) or not parts.budget.spend():
            return False
        parts.metrics.retries.labels(reason).inc()
        return True


# Reason -> (status, Retry-After in seconds, text; {model} is the client's spelling).
_TURNED: Mapping[scheduler.Reason, tuple[int, int | None, str]] = {
    scheduler.Reason.UNKNOWN_MODEL: (404, None, "model '{model}' not found: no GpuBackend serves it; see /api/tags"),
    scheduler.Reason.INCAPABLE: (
        400,
        None,
        "no GpuBackend that serves model '{model}' may do this: add generate, embed or vision to its spec.capabilities",
    ),
    scheduler.Reason.NO_BACKEND: (503, 5, "no GpuBackend is configured; apply one or set GPU_BACKENDS"),
    scheduler.Reason.QUEUE_FULL: (503, 5, "server busy, please try again. the router's queue is full"),
    scheduler.Reason.CLIENT_QUEUE_FULL: (429, 5, "too many requests of this client are waiting, please try again"),
    scheduler.Reason.DEADLINE: (408, 30, "the request waited for a slot of model '{model}' for too long"),
    scheduler.Reason.EXHAUSTED: (503, 2, "no other backend that serves model '{model}' is available, please try again"),
    scheduler.Reason.UNAVAILABLE: (
        503,
        2,
        "no backend that serves model '{model}' is available at the moment, please try again",
    ),
}


def _refusal(reason: scheduler.Reason, model: str) -> refusal.Refusal:
    """What a client hears when there is no slot. `model` comes from it and may be of any length."""
    status, retry_after, text = _TURNED[reason]
    said = (
        text.format(model=model[:256])
        if model
        else text.replace(" of model '{model}'", "").replace(" that serves model '{model}'", "")
    )
    return refusal.Refusal(status, said, retry_after=retry_after, headers=((REASON, str(reason)),))
