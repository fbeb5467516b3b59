"""Whose fault it is that an attempt at a backend failed, and what the request does next.

Only before the first byte of an answer: later failures the relay shows to the client itself.
"""

from __future__ import annotations

import structlog

from router.backends import verdict
from router.backends.verdict import Verdict
from router.proxy import refusal
from router.proxy.call import Call
from router.proxy.connection import Broken, Ended, Late, Leaving, Lost
from router.proxy.flight import Flight
from router.proxy.parts import Parts
from router.proxy.paths import Kind
from router.proxy.pool import Unreachable
from router.proxy.quarantine import Ending
from router.proxy.refusal import Cause
from router.proxy.relay import Relay

_log = structlog.get_logger("router.forward")
_SAID = 300
"""Characters of what a backend says that are shown to others who send the same."""


class Elsewhere(Exception):  # noqa: N818  # not an error: the request goes on at another backend
    """This backend did not answer the request; `refusal` is what to say if no other does."""

    def __init__(self, said: refusal.Refusal) -> None:
        super().__init__(said.message)
        self.refusal = said


class Away(Exception):  # noqa: N818  # not an error: the request is offered again
    """The backend is gone, and known to be: the request goes to another, or waits for this one for a while."""

    def __init__(self, said: refusal.Refusal) -> None:
        super().__init__(said.message)
        self.refusal = said


class Blame:
    """Counts failures for the backend, one of its models, or neither."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def judge(self, flight: Flight, backend: str, relay: Relay) -> None:
        """Look at an error before anything is sent to the client. Raises Elsewhere to try another backend, Refusal for
        a request that ended its runner once too often."""
        connection = relay.connection
        assert connection is not None
        parts, call, status = self._parts, flight.call, connection.status
        if status < 400:
            return
        inference = call.kind is Kind.INFERENCE and bool(call.model)
        entry = parts.book.find(backend)
        openai = entry is not None and entry.openai
        body = await connection.gathered(verdict.MOST)
        found = verdict.of(status, body, model=inference, openai=openai)
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
                parts.book.lacks(backend, call.model, call.asked)
            case Verdict.MODEL_FAILED:
                if verdict.crashed(body):
                    await self._died(flight, backend, Ending.RUNNER, f"{said}: {verdict.text(body)}")
                parts.book.failed(backend, said, model=call.model)
        # OpenAI servers differ in what they can: to learn that costs little, and no failure is repeated.
        cheap = openai and found is Verdict.UNABLE
        if self._may_move(flight, backend, f"status_{status}", cheap=cheap):
            raise Elsewhere(refusal.Refusal(503, said, retry_after=2, reason=Cause.BACKEND_FAILED))

    def failed(self, backend: str, error: Broken, call: Call) -> None:
        """Count an exchange that a backend spoiled. One that is silent while the server answers its probes has a runner
        that hangs: the model's fault alone."""
        silent = isinstance(error, Late) and call.kind is Kind.INFERENCE
        self._parts.book.failed(backend, error.message, model=call.model if silent else "")

    async def spoiled(self, flight: Flight, backend: str, error: Broken) -> Exception:
        """A backend that gave no answer: what to raise. Raises Refusal as `judge` does."""
        if isinstance(error, Leaving):
            return refusal.Refusal(503, error.message, retry_after=2, close=True, reason=Cause.STOPPING)
        parts = self._parts
        phase = "connect" if isinstance(error, Unreachable) else "first_byte"
        parts.metrics.broken.labels(backend, phase).inc()
        if isinstance(error, Unreachable):
            parts.book.away(backend, error.message)
        for ending in _endings(flight.relay, error):
            await self._died(flight, backend, ending, f"backend {backend!r}: {error.message}")
        slow = isinstance(error, Late) and flight.relay is not None and flight.relay.slow
        if not isinstance(error, Unreachable) and not slow:
            self.failed(backend, error, flight.call)
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
            return Away(said)
        return Elsewhere(said) if self._may_move(flight, backend, phase) else said

    async def _died(self, flight: Flight, backend: str, ending: Ending, said: str) -> None:
        """A runner ended under the request. Raises Refusal when that is the request's doing: then neither the model nor
        the backend is counted for it."""
        parts, call = self._parts, flight.call
        alone = parts.dispatcher.alone(flight.ticket.id)
        if ending is not Ending.CONNECTION:
            parts.metrics.crashes.labels(backend, "yes" if alone else "no").inc()
        if not (call.kind is Kind.INFERENCE and call.model):
            return
        no = await parts.quarantine.died(call, ending, said[:_SAID]) if alone else None
        if no is not None:
            _log.warning("request in quarantine", backend=backend, model=call.model, reason=said, id=call.request_id)
            parts.metrics.quarantined.inc()
            raise no
        if ending is Ending.RUNNER:
            parts.book.crashed(backend)

    def _may_move(self, flight: Flight, backend: str, reason: str, *, cheap: bool = False) -> bool:
        parts, ticket = self._parts, flight.ticket
        moved = ticket._replace(avoid=ticket.avoid | {backend})
        if not flight.call.repeatable or not parts.dispatcher.elsewhere(moved):
            return False
        if not cheap and not parts.budget.spend():
            return False
        parts.metrics.retries.labels(reason).inc()
        return True


def _endings(relay: Relay | None, error: Broken) -> tuple[Ending, ...]:
    """What ended when an exchange broke off before the first byte, once for each time that the request was sent.
    `sending.first_bytes` has looked whether the server is there."""
    if relay is None or relay.connection is None or not isinstance(relay.connection.error, Ended):
        return ()
    last = Ending.SERVER if isinstance(error, Unreachable) else Ending.CONNECTION
    return (Ending.CONNECTION, last) if relay.sent_again else (last,)
