"""The way of one request: a slot, a backend, the answer back, byte for byte.

Nothing is sent to the client before the first body byte of an answer is there. Up to that point the request can move to
another backend without anybody noticing; from then on it cannot, and a backend that dies is shown to the client: an
error line where the format has a place for one, and an end that is not clean.

Every `await` can be the one where the client hangs up: slots are given back in `finally`, connections that are half
read are closed hard, and CancelledError is never swallowed.
"""

from __future__ import annotations

import asyncio

import structlog

from crds import gpubackend
from router import dispatch, priority, scheduler
from router.backends import verdict
from router.backends.verdict import Verdict
from router.proxy import hygiene, refusal, rewrite, summary, turned_away
from router.proxy.call import Call
from router.proxy.connection import Broken, Late, Leaving, Lost, Piece, Preempted
from router.proxy.flight import Flight
from router.proxy.parts import Parts
from router.proxy.paths import Kind
from router.proxy.pool import Unreachable
from router.proxy.refusal import Cause
from router.proxy.relay import Relay

_log = structlog.get_logger("router.forward")

SUCCESSOR = "(next router)"
"""Instead of a backend's name, which has no brackets, for what was passed on to the router after this one."""
_MOST_LOST = 3
"""So many servers may end under one request before it is taken for the cause."""
# Refusals that another router may have no reason for.
_LEFT = frozenset({scheduler.Reason.STEPPED_DOWN, scheduler.Reason.UNAVAILABLE, scheduler.Reason.NO_BACKEND})


class _Elsewhere(Exception):  # noqa: N818  # not an error: the request goes on at another backend
    """This backend did not answer the request; `refusal` is what to say if nobody else does."""

    def __init__(self, said: refusal.Refusal) -> None:
        super().__init__(said.message)
        self.refusal = said


class _Away(Exception):  # noqa: N818  # not an error: the request is offered again
    """The backend is gone, and known to be: the request goes to another, or waits for this one for a while."""

    def __init__(self, said: refusal.Refusal) -> None:
        super().__init__(said.message)
        self.refusal = said


class _GaveWay(Exception):  # noqa: N818  # not an error: the request is offered again
    """A more urgent request took the slot before the first byte was sent."""


class Forwarder:
    """One per process. A request is launched, and then either heard of by callbacks until its answer was handed over
    (`heard`), or run in a task (`run`) from wherever it stands; whichever client leaves in between is abandoned."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def launch(self, call: Call) -> Flight:
        """Ask for a slot, and send the request if there is one at once."""
        self._parts.budget.earn()
        flight = Flight(call, self._ticket(call))
        self._offer(flight)
        return flight

    def heard(self, flight: Flight) -> bool | None:
        """The backend said something. True when the whole answer was handed over, None when it goes on like this, False
        when it must be run."""
        relay = flight.relay
        assert relay is not None
        if relay.begun:
            done = relay.go_on()
        else:
            connection = relay.connection
            assert connection is not None
            if connection.broken or connection.status >= 400 or not self._parts.dispatcher.began(flight.ticket.id):
                return False
            done = self._begin(flight, relay)
        if done:
            self._landed(flight, relay)
            if (kept := flight.call.request.summary) is not None:
                kept.end()
        return done

    def abandon(self, flight: Flight) -> None:
        """The client is gone, and no task runs the flight."""
        relay = flight.relay
        if relay is not None:
            self._hung_up(relay)
            self._leave(flight, relay)
        else:
            self._parts.metrics.hangups.labels("queue").inc()
            self._parts.dispatcher.withdraw(flight.ticket)
        if (kept := flight.call.request.summary) is not None:
            kept.end(summary.HANGUP)

    async def run(self, flight: Flight) -> None:
        """Relay the answer. Raises Refusal when there is none."""
        kept = flight.call.request.summary
        if kept is None:
            await self._run(flight)
            return
        with kept:
            await self._run(flight)

    async def _run(self, flight: Flight) -> None:
        parts = self._parts
        while True:
            ticket = flight.ticket
            if flight.backend is None:
                try:
                    self._board(flight, await parts.dispatcher.granted(ticket))
                except dispatch.Turned as turned:
                    said = flight.failed or turned_away.refusal(turned.reason, flight.call.asked)
                    if turned.reason in _LEFT and await self._hand_over(flight, said):
                        return
                    if turned.reason is scheduler.Reason.STEPPED_DOWN and parts.deciding() and not parts.draining():
                        # The Lease could not be renewed for a moment, and no other router took it.
                        flight.ticket = self._ticket(flight.call, flight.avoid, flight.preempted, flight.lost)
                        self._offer(flight)
                        continue
                    parts.metrics.refused.labels(turned.reason).inc()
                    raise said from turned
                except asyncio.CancelledError:
                    parts.metrics.hangups.labels("queue").inc()
                    raise
            backend = flight.backend
            assert backend is not None
            try:
                await self._exchange(flight, backend)
                return
            except _Elsewhere as elsewhere:
                flight.failed, why = elsewhere.refusal, elsewhere.refusal.reason
                flight.avoid |= {backend}
            except _Away as away:
                flight.failed, why = away.refusal, away.refusal.reason
                flight.lost += 1
                if flight.lost > _MOST_LOST:
                    raise away.refusal from away
            except _GaveWay:
                flight.preempted += 1
                why = "Preempted"
            if (kept := flight.call.request.summary) is not None:
                kept.moved(why)
            flight.ticket = self._ticket(flight.call, flight.avoid, flight.preempted, flight.lost)
            self._offer(flight)

    def _ticket(
        self, call: Call, avoid: frozenset[str] = frozenset(), preempted: int = 0, lost: int = 0
    ) -> scheduler.Request:
        return scheduler.Request(
            next(self._parts.numbers),
            call.model,
            call.level,
            call.arrived,
            avoid,
            call.metered,
            call.need,
            call.client,
            len(call.request.body),
            preempted,
            lost,
        )

    def _offer(self, flight: Flight) -> None:
        flight.backend = None
        backend = self._parts.dispatcher.offer(flight.ticket)
        if backend is not None:
            self._board(flight, backend)

    def _board(self, flight: Flight, backend: str) -> None:
        """There is a slot: begin an attempt, and send the request if a connection is there."""
        flight.backend = backend
        try:
            self._send(flight, backend)
        except Exception:
            # No attempt, or half of one: the slot is given back by the one or by us.
            if flight.relay is None:
                self._parts.dispatcher.release(flight.ticket.id)
            else:
                relay, flight.relay = flight.relay, None
                relay.close()
            raise

    def _send(self, flight: Flight, backend: str) -> None:
        parts, call = self._parts, flight.call
        entry = parts.book.find(backend)
        if entry is None:
            return  # removed in the moment between grant and wake-up
        if call.user:
            parts.placed(backend)
        pool = parts.pools.of(backend, entry.spec.url)
        slow = entry.spec.kind is gpubackend.Kind.CPU
        relay = flight.relay = Relay(call, flight.ticket.id, backend, pool, parts, slow=slow)
        if call.level in priority.OVERFLOW:
            parts.dispatcher.on_cancel(flight.ticket.id, relay.give_way)
        flight.sent = parts.now()
        parts.metrics.busy(backend).begin(flight.sent)
        if (kept := call.request.summary) is not None:
            kept.attempt(backend)
        owned = flight.owned = parts.dispatcher.owns(backend, call.model)
        self._pack(relay, call, (call.request.body,) if owned is None else self._owned(call, owned))
        # Something that must not happen twice never rides on a connection that may just be closing.
        if call.repeatable and not relay.gave_way and (reused := pool.reuse()) is not None:
            relay.ask(reused)

    async def _exchange(self, flight: Flight, backend: str) -> None:
        """One attempt at one backend. Gives the slot back when the backend is done with it, however that ends."""
        parts, call, relay = self._parts, flight.call, flight.relay
        if relay is None:
            parts.dispatcher.release(flight.ticket.id)
            raise _Elsewhere(turned_away.refusal(scheduler.Reason.UNAVAILABLE, call.asked))
        try:
            if not relay.begun:
                await self._first_bytes(relay)
                await self._judge(flight, backend, relay)
                if not parts.dispatcher.began(flight.ticket.id):
                    raise _GaveWay
                if self._begin(flight, relay):
                    return
            await relay.run()
        except Broken as error:
            # Only before the first byte: later ones the relay shows to the client itself.
            if isinstance(error, Preempted):
                raise _GaveWay from error
            raise self._spoiled(flight, backend, error) from error
        except asyncio.CancelledError:
            self._hung_up(relay)
            raise
        finally:
            self._landed(flight, relay)

    def _begin(self, flight: Flight, relay: Relay) -> bool | None:
        """The answer comes from this backend, and now; returns as `Relay.go_on` does."""
        parts, call, owned = self._parts, flight.call, flight.owned
        waited = flight.sent - call.arrived
        counters = parts.metrics.exchange(call.level.label, call.model, flight.backend or "")
        counters.began(waited, parts.now() - flight.sent)
        return relay.begin(
            counters,
            queue_ms=round(waited * 1000),
            last=parts.draining(),
            model_set="" if owned is None else owned.model_set,
        )

    def _landed(self, flight: Flight, relay: Relay) -> None:
        """The attempt is over, however it ended."""
        backend = flight.backend or ""
        if relay.spoiled is not None:
            self._failed(backend, relay.spoiled, flight.call)
        elif relay.whole and relay.status < 400:
            self._parts.book.succeeded(backend, flight.call.model)
        self._leave(flight, relay)

    def _leave(self, flight: Flight, relay: Relay) -> None:
        self._parts.metrics.busy(flight.backend or "").end(self._parts.now())
        flight.relay = None
        relay.close()

    def _hung_up(self, relay: Relay) -> None:
        self._parts.metrics.hangups.labels("streaming" if relay.begun else "first_byte").inc()

    def _pack(self, relay: Relay, call: Call, body: tuple[Piece, ...], *, claim: bytes = b"") -> None:
        """The request as the relay's backend gets it. With a `claim` that is another router, which needs the client's
        own token."""
        pool = relay.pool
        relay.body = body
        relay.head = hygiene.request_head(
            call.request,
            prefix=pool.base_path,
            authority=pool.authority,
            length=sum(map(len, body)) if call.request.has_body else None,
            request_id=call.request_id,
            claim=claim,
            trace=_trace(call),
            authorization=None if claim else pool.authorization or (b"" if self._private(call) else None),
        )

    def _private(self, call: Call) -> bool:
        """Whether the caller's token is the router's business alone."""
        return self._parts.guarded or bool(call.request.identity.run)

    def _owned(self, call: Call, owned: scheduler.Owned) -> tuple[Piece, ...]:
        """The body as that backend gets it: the router decides how long a model that it owns stays in memory, and with
        which options of its runner, or one client's request would unload or reload everybody's model."""
        body, parts = call.request.body, self._parts
        if not (parts.own_parameters and body and call.kind is Kind.INFERENCE):
            return (body,)
        if not call.path.startswith("/api/"):
            if owned.num_ctx is not None:
                parts.metrics.context_unset.inc()
            return (body,)
        if call.outline is None:
            changed = rewrite.rewrite(body, owned.keep_alive, owned.num_ctx)
        else:
            changed = rewrite.pieces(body, call.outline, owned.keep_alive, owned.num_ctx)
        for option in changed.dropped:
            parts.metrics.dropped.labels(option).inc()
        if len(changed.pieces) > 1:
            parts.metrics.rewritten.inc()
        return changed.pieces

    async def pinned(self, call: Call, backend: str) -> None:
        """An administrator's request to the one backend that it names: no slot, no retry. Raises Refusal."""
        parts = self._parts
        entry = parts.book.find(backend)
        if entry is None:
            raise refusal.Refusal(404, f"no GpuBackend is named {backend!r} any more")
        relay = Relay(call, None, backend, parts.pools.of(backend, entry.spec.url), parts)
        try:
            self._pack(relay, call, (call.request.body,))
            await self._first_bytes(relay)
            counters = parts.metrics.exchange(call.level.label, "", backend)
            if not relay.begin(counters, queue_ms=0, last=parts.draining()):
                await relay.run()
        except Broken as error:
            raise refusal.Refusal(502, f"backend {backend!r}: {error.message}", reason=Cause.BACKEND_FAILED) from error
        finally:
            relay.close()

    async def _hand_over(self, flight: Flight, said: refusal.Refusal) -> bool:
        """Another router decides now: pass on to it what this one had accepted and not begun, so that no client is sent
        away. False when there is none, or the request must not be sent twice. Raises `said` if it does not answer."""
        parts, call = self._parts, flight.call
        where = await parts.successor() if call.repeatable else ""
        if not where:
            return False
        relay = Relay(call, None, SUCCESSOR, parts.pools.of(SUCCESSOR, f"http://{where}"), parts)
        relay.first = parts.limits.whole  # it may wait in line there, too
        try:
            if (kept := call.request.summary) is not None:
                kept.attempt(SUCCESSOR)
            self._pack(relay, call, (call.request.body,), claim=hygiene.claim(call.request, call.level.label))
            await self._first_bytes(relay)
            counters = parts.metrics.exchange(call.level.label, "", SUCCESSOR)
            if not relay.begin(counters, queue_ms=round((parts.now() - call.arrived) * 1000), last=True):
                await relay.run()
        except Broken as error:
            _log.warning("not handed over", to=where, reason=error.message, id=call.request_id)
            raise said from error
        except asyncio.CancelledError:
            self._hung_up(relay)
            raise
        finally:
            relay.close()
        return True

    async def _first_bytes(self, relay: Relay) -> None:
        """Wait for the first body byte, or the whole of an answer without a body. A request that was not sent yet, or
        on a connection that was closing in that very moment, is sent on a new one."""
        reused = relay.connection
        if reused is not None:
            try:
                await reused.arrived()
            except Broken as error:
                if reused.heard or isinstance(error, Late | Leaving | Lost):
                    raise
                self._parts.metrics.retries.labels("keepalive").inc()
            else:
                return
        relay.connection = None
        connection = await relay.pool.connect()
        relay.ask(connection)
        try:
            await connection.arrived()
        except Broken as error:
            if not connection.heard and not isinstance(error, Late | Leaving | Lost):
                # Has the server itself ended? Then that is what to say, and the request may wait for it.
                (await relay.pool.connect()).abort()
            raise

    async def _judge(self, flight: Flight, backend: str, relay: Relay) -> None:
        """Look at an error before anything is sent to the client. Raises _Elsewhere to try another backend."""
        connection = relay.connection
        assert connection is not None
        parts, call, status = self._parts, flight.call, connection.status
        if status < 400:
            return
        inference = call.kind is Kind.INFERENCE and bool(call.model)
        found = verdict.of(status, await connection.gathered(verdict.MOST), model=inference)
        said = f"backend {backend!r} answered {status}"
        match found:
            case Verdict.BACKEND_FAILED:
                parts.book.failed(backend, said)
            case Verdict.BUSY:
                parts.book.busy(backend)
            case _:
                parts.book.succeeded(backend)  # it answers; what its models do is counted apart
        match found:
            case Verdict.FINE | Verdict.REQUEST:
                return
            case Verdict.MODEL_MISSING:
                said = f"backend {backend!r} does not have model {call.asked!r} any more"
                parts.book.lacks(backend, call.model)
            case Verdict.MODEL_FAILED:
                parts.book.failed(backend, said, model=call.model)
        if self._may_move(flight, backend, f"status_{status}"):
            raise _Elsewhere(refusal.Refusal(503, said, retry_after=2, reason=Cause.BACKEND_FAILED))

    def _failed(self, backend: str, error: Broken, call: Call) -> None:
        """Count an exchange that a backend spoiled. One that is silent while the server answers its probes has a runner
        that hangs: the model's fault alone."""
        silent = isinstance(error, Late) and call.kind is Kind.INFERENCE
        self._parts.book.failed(backend, error.message, model=call.model if silent else "")

    def _spoiled(self, flight: Flight, backend: str, error: Broken) -> Exception:
        """A backend that gave no answer: what to raise."""
        if isinstance(error, Leaving):
            return refusal.Refusal(503, error.message, retry_after=2, close=True, reason=Cause.STOPPING)
        parts = self._parts
        phase = "connect" if isinstance(error, Unreachable) else "first_byte"
        parts.metrics.broken.labels(backend, phase).inc()
        if isinstance(error, Unreachable):
            parts.book.away(backend, error.message)
        elif not (isinstance(error, Late) and flight.relay is not None and flight.relay.slow):
            self._failed(backend, error, flight.call)
        _log.warning(
            "backend spoiled a request", backend=backend, phase=phase, reason=error.message, id=flight.call.request_id
        )
        said = refusal.Refusal(
            504 if isinstance(error, Late) else 502,
            f"backend {backend!r}: {error.message}; try again",
            retry_after=2,
            reason=Cause.BACKEND_LATE if isinstance(error, Late) else Cause.BACKEND_FAILED,
        )
        if isinstance(error, Unreachable | Lost) and flight.call.repeatable:
            # No budget is spent: nothing more is sent there before a probe was answered.
            parts.metrics.retries.labels("away").inc()
            return _Away(said)
        return _Elsewhere(said) if self._may_move(flight, backend, phase) else said

    def _may_move(self, flight: Flight, backend: str, reason: str) -> bool:
        parts, ticket = self._parts, flight.ticket
        moved = ticket._replace(avoid=ticket.avoid | {backend})
        if not flight.call.repeatable or not parts.dispatcher.elsewhere(moved) or not parts.budget.spend():
            return False
        parts.metrics.retries.labels(reason).inc()
        return True


def _trace(call: Call) -> bytes:
    """The traceparent for the backend, empty when this router makes no spans."""
    kept = call.request.summary
    return b"" if kept is None or kept.spans is None else kept.spans.traceparent.encode()
