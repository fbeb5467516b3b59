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
from router.proxy import hygiene, refusal, sending, signs, summary, turned_away
from router.proxy.blame import Away, Blame, Elsewhere
from router.proxy.call import Call
from router.proxy.connection import Broken, Preempted
from router.proxy.flight import Flight
from router.proxy.parts import Parts
from router.proxy.paths import Kind
from router.proxy.refusal import Cause
from router.proxy.relay import SUCCESSOR, Relay
from router.proxy.step import DONE, WAIT, Step

_log = structlog.get_logger("router.forward")

_CPU = gpubackend.Kind.CPU
_MOST_LOST = 3
"""So many servers may end under one request before it is taken for the cause."""
# Refusals that another router may have no reason for.
_LEFT = frozenset({scheduler.Reason.STEPPED_DOWN, scheduler.Reason.UNAVAILABLE, scheduler.Reason.NO_BACKEND})


class _GaveWay(Exception):  # noqa: N818  # not an error: the request is offered again
    """A more urgent request took the slot before the first byte was sent."""


class Forwarder:
    """One per process. A request is launched, and then either continued by callbacks until its answer was handed over
    (`proceed`), or run in a task (`run`) from wherever it stands; whichever client leaves in between is abandoned."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._blame = Blame(parts)
        self.suspects = parts.quarantine.suspects

    def launch(self, call: Call) -> Flight:
        """Ask for a slot, and send the request if there is one at once."""
        self._parts.budget.earn()
        flight = Flight(call, self._ticket(call))
        self._offer(flight)
        telling = self._parts.signs
        if call.streams and telling is not None and (telling.for_all or hygiene.PROGRESS in call.request.special):
            telling.follow(flight)
        return flight

    def proceed(self, flight: Flight) -> Step:
        """The backend sent something, or its connection ended. After WAIT go on with `run`."""
        relay = flight.relay
        assert relay is not None
        if relay.begun:
            step = relay.go_on()
        else:
            connection = relay.connection
            assert connection is not None
            if connection.error is not None or connection.status >= 400 or flight.call.early is not None:
                return WAIT
            if not self._parts.dispatcher.began(flight.ticket.id):
                return WAIT
            step = self._begin(flight, relay)
        if step is DONE:
            self._landed(flight, relay)
            if (kept := flight.call.request.summary) is not None:
                kept.end()
        return step

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
            await self._answer(flight)
            return
        with kept:
            await self._answer(flight)

    async def _answer(self, flight: Flight) -> None:
        try:
            await self._run(flight)
        except refusal.Refusal as no:
            early = flight.call.early
            if early is None:
                raise
            self._parts.metrics.answered("router", no.status)
            if (kept := flight.call.request.summary) is not None:
                kept.refused(no.status, no.reason)
            path = flight.call.path
            signs.fail(early, refusal.body(no.message, no.status, path), path)

    async def _run(self, flight: Flight) -> None:
        parts = self._parts
        while True:
            ticket = flight.ticket
            if flight.backend is None:
                try:
                    granted = await parts.dispatcher.granted(ticket)
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
                await self._admitted(flight)
                self._board(flight, granted)
            backend = flight.backend
            assert backend is not None
            try:
                await self._exchange(flight, backend)
                return
            except Elsewhere as elsewhere:
                flight.failed, why = elsewhere.refusal, elsewhere.refusal.reason
                flight.avoid |= {backend}
            except Away as away:
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
    ) -> scheduler.SlotRequest:
        return scheduler.SlotRequest(
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
            call.session,
            call.ollama,
        )

    async def _admitted(self, flight: Flight) -> None:
        """It has waited for its slot; meanwhile another one like it may have ended a runner. Gives the slot back when
        that is so, or the client leaves. Raises Refusal."""
        parts, call = self._parts, flight.call
        if not parts.quarantine.suspects(call.model, len(call.request.body)):
            return
        try:
            await self.check(call)
        except BaseException:
            parts.dispatcher.release(flight.ticket.id)
            raise

    async def check(self, call: Call) -> None:
        """Raises Refusal for a request that is known to end runners."""
        try:
            await self._parts.quarantine.check(call)
        except refusal.Refusal:
            self._parts.metrics.quarantined.inc()
            raise

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
        spec = entry.spec
        pool = parts.pools.of(backend, spec.url)
        relay = flight.relay = Relay(call, flight.ticket.id, backend, pool, parts, slow=spec.kind is _CPU)
        if call.level in priority.OVERFLOW:
            parts.dispatcher.on_cancel(flight.ticket.id, relay.give_way)
        flight.sent = parts.now()
        if (kept := call.request.summary) is not None:
            kept.attempt(backend, spec.engine)
        owned = flight.owned = parts.dispatcher.owns(backend, call.model)
        body = (call.request.body,) if owned is None else sending.owned(parts, call, owned)
        sending.pack(parts, relay, call, body)
        # Something that must not happen twice never rides on a connection that may just be closing.
        if call.repeatable and not relay.gave_way and (reused := pool.reuse()) is not None:
            relay.ask(reused)
        # The backend works already while the rest is noted.
        parts.metrics.busy(backend).begin(flight.sent)
        if call.user:
            parts.placed(backend)

    async def _exchange(self, flight: Flight, backend: str) -> None:
        """One attempt at one backend. Gives the slot back when the backend is done with it, however that ends."""
        parts, call, relay = self._parts, flight.call, flight.relay
        if relay is None:
            parts.dispatcher.release(flight.ticket.id)
            raise Elsewhere(turned_away.refusal(scheduler.Reason.UNAVAILABLE, call.asked))
        try:
            if not relay.begun:
                await sending.first_bytes(parts, relay)
                await self._blame.judge(flight, backend, relay)
                if not parts.dispatcher.began(flight.ticket.id):
                    raise _GaveWay
                if self._begin(flight, relay) is DONE:
                    return
            await relay.run()
        except Broken as error:
            # Only before the first byte: later ones the relay shows to the client itself.
            if isinstance(error, Preempted):
                raise _GaveWay from error
            raise await self._blame.spoiled(flight, backend, error) from error
        except asyncio.CancelledError:
            self._hung_up(relay)
            raise
        finally:
            self._landed(flight, relay)

    def _begin(self, flight: Flight, relay: Relay) -> Step:
        """The answer comes from this backend, and now."""
        parts, call, owned = self._parts, flight.call, flight.owned
        waited, now = flight.sent - call.arrived, parts.now()
        counters = parts.metrics.exchange(call.level.label, call.model, flight.backend or "")
        step = relay.begin(
            counters,
            queue_ms=round(waited * 1000),
            last=parts.draining(),
            model_set="" if owned is None else owned.model_set,
        )
        counters.began(waited, now - flight.sent)
        return step

    def _landed(self, flight: Flight, relay: Relay) -> None:
        """The attempt is over, however it ended."""
        backend, call, parts = flight.backend or "", flight.call, self._parts
        if relay.spoiled is not None:
            self._blame.failed(backend, relay.spoiled, call)
        elif relay.whole and relay.status < 400:
            ran = call.model if call.kind is Kind.INFERENCE else ""
            parts.book.succeeded(backend, ran)
            if ran in parts.quarantine and not refusal.reported(relay.tail):
                parts.quarantine.answered(call)
        self._leave(flight, relay)

    def _leave(self, flight: Flight, relay: Relay) -> None:
        self._parts.metrics.busy(flight.backend or "").end(self._parts.now())
        flight.relay = None
        relay.close()

    def _hung_up(self, relay: Relay) -> None:
        self._parts.metrics.hangups.labels("streaming" if relay.begun else "first_byte").inc()

    async def pinned(self, call: Call, backend: str) -> None:
        """An administrator's request to the one backend that it names: no slot, no retry. Raises Refusal."""
        parts = self._parts
        entry = parts.book.find(backend)
        if entry is None:
            raise refusal.Refusal(404, f"no GpuBackend is named {backend!r} any more")
        relay = Relay(call, None, backend, parts.pools.of(backend, entry.spec.url), parts)
        try:
            sending.pack(parts, relay, call, (call.request.body,))
            await sending.first_bytes(parts, relay)
            counters = parts.metrics.exchange(call.level.label, "", backend)
            if relay.begin(counters, queue_ms=0, last=parts.draining()) is not DONE:
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
        if parts.signs is not None:
            parts.signs.forget(flight)
        relay = Relay(call, None, SUCCESSOR, parts.pools.of(SUCCESSOR, f"http://{where}"), parts)
        relay.first = parts.limits.whole  # it may wait in line there, too
        try:
            if (kept := call.request.summary) is not None:
                kept.attempt(SUCCESSOR)
            sending.pack(parts, relay, call, (call.request.body,), claim=hygiene.claim(call.request, call.level.label))
            await sending.first_bytes(parts, relay)
            counters = parts.metrics.exchange(call.level.label, "", SUCCESSOR)
            if relay.begin(counters, queue_ms=round((parts.now() - call.arrived) * 1000), last=True) is not DONE:
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
