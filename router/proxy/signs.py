"""Signs of life: what a client receives while its stream waits for a slot, for its model, or for the next event.

A client asks for them by a header, or a setting gives them to every stream of /v1. The first one sends the head of the
answer before it is known what the answer will be; from then on a failure is shown in the stream. It decides nothing:
the request waits, gives way and moves as before, because nothing of an answer was sent.

In server-sent events a sign is a comment (HTML Living Standard, 9.2.6); in Ollama's lines it is a record without text.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import orjson

from router import metrics, scheduler
from router.backends import verdict
from router.proxy import hygiene, refusal
from router.proxy.answer import Answer, Passing
from router.proxy.call import Call
from router.proxy.message import Request

_LINES, _EVENTS = b"application/x-ndjson", b"text/event-stream"
_EVENT_PATHS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"})
_EMPTY: dict[str, dict[str, object]] = {
    "/api/chat": {"message": {"role": "assistant", "content": ""}},
    "/api/generate": {"response": ""},
}
_SWEEPS = 4
"""Looks in the time between two signs."""


class Attempt(Protocol):
    """A `relay.Relay`."""

    begun: bool

    def pausing(self, since: float) -> Answer | None:
        """The answer, where something may be said in it."""


class Followed(Protocol):
    """A `flight.Flight`."""

    @property
    def call(self) -> Call:
        """What was asked."""

    @property
    def ticket(self) -> scheduler.SlotRequest:
        """How the scheduler knows it."""

    @property
    def backend(self) -> str | None:
        """Where it has its slot."""

    @property
    def relay(self) -> Attempt | None:
        """The present attempt."""


@dataclass(slots=True)
class _Follower:
    """A request whose client gets signs, and whether it wants to know what is waited for."""

    flight: Followed
    asked: bool
    since: float
    """When it arrived, or got its last sign."""


class Signs:
    """One per process. `every` is in seconds, `for_all`: streams of /v1 get them although they did not ask; `now` is
    monotonic seconds, `today` the time in UTC."""

    def __init__(
        self,
        plan: scheduler.Scheduler,
        counters: metrics.Metrics,
        *,
        every: float,
        for_all: bool,
        now: Callable[[], float],
        today: Callable[[], datetime],
    ) -> None:
        self._plan = plan
        self._metrics = counters
        self._every = every
        self.for_all = for_all
        """Without it only those have to be followed that ask for signs."""
        self._now = now
        self._today = today
        self._followers: list[_Follower] = []

    def follow(self, flight: Followed) -> None:
        """A stream was asked for. Whom it ends for is found by `sweep`."""
        call = flight.call
        asked = (call.request.get(hygiene.PROGRESS) or "").lower() in hygiene.YES
        wanted = (asked or self.for_all) if call.path in _EVENT_PATHS else asked and call.path in _EMPTY
        if wanted:
            self._followers.append(_Follower(flight, asked, self._now()))

    def forget(self, flight: Followed) -> None:
        """Another router answers it, and tells its client."""
        self._followers = [one for one in self._followers if one.flight is not flight]

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(min(1.0, self._every / _SWEEPS))
            self.sweep()

    def sweep(self) -> None:
        """Send a sign to the clients that have received nothing for long."""
        if not self._followers:
            return
        now, waiting = self._now(), _Waiting(self._plan)
        self._followers = [one for one in self._followers if _served(one.flight.call.request)]
        for one in self._followers:
            if now - one.since < self._every:
                continue
            relay, call = one.flight.relay, one.flight.call
            if call.request.link.full:
                continue
            if relay is not None and relay.begun:
                answer, phase, text = relay.pausing(now - self._every), "answer", "the answer goes on"
            else:
                answer = call.early = call.early or _early(call)
                phase = "queue" if relay is None else "first_byte"
                text = (
                    waiting.words(one.flight.ticket, now)
                    if relay is None
                    else f"sent to {one.flight.backend}, which has not begun to answer"
                )
            if answer is not None:
                one.since = now
                self._metrics.signs.labels(phase).inc()
                with suppress(ConnectionError):  # its end is about to be noticed
                    answer.pour(self._sign(call, text if one.asked else "waiting"))

    def _sign(self, call: Call, text: str) -> bytes:
        if call.path not in _EMPTY:
            return b": %s\n\n" % " ".join(text.split()).encode()
        at = self._today().isoformat().replace("+00:00", "Z")
        record = {"model": call.asked, "created_at": at, **_EMPTY[call.path], "done": False, "progress": text}
        return orjson.dumps(record) + b"\n"


def _served(request: Request) -> bool:
    return request.link.serves(request)


def _early(call: Call) -> Answer:
    """The head that goes before an answer that is not known yet."""
    media = _LINES if call.path in _EMPTY else _EVENTS
    own = b"X-Request-Id: %s\r\n" % call.request_id.encode("ascii")
    passing = Passing(b"Content-Type: %s\r\n" % media, media, False)
    return Answer(call.request, 200, b"OK", passing, own, last=False)


def fits(answer: Answer, status: int, content_type: bytes) -> bool:
    """Can the backend's answer go on under the head that was sent early?"""
    return status == answer.status and content_type == answer.content_type


def fail(answer: Answer, document: bytes, path: str) -> None:
    """Show an error (`refusal.body`) in a stream of that path that has begun with signs alone."""
    with suppress(ConnectionError):
        answer.pour(refusal.late(document, answer.content_type, b"", path))
    answer.tear()


class Misfit(Answer):
    """A backend's answer that cannot go on under the head that was sent early: an error, or no stream. It is collected,
    relayed and counted as any other, and shown as an error in the stream when it ends."""

    __slots__ = ("_early", "_path", "_seen")

    def __init__(self, early: Answer, status: int, path: str) -> None:
        """`status` is the backend's."""
        self.status, self.content_type = status, early.content_type
        self.declared = True  # nothing may be said between its pieces, which the client does not see
        self._early, self._path, self._seen = early, path, b""

    def pour(self, data: bytes) -> bool:
        """Keep the beginning of the piece, as far as an error is looked at."""
        self._seen += data[: verdict.MOST - len(self._seen)]
        return True

    async def room(self) -> None:
        """There always is."""

    def end(self, data: bytes) -> bool:
        """The whole answer is there."""
        self.pour(data)
        self.tear()
        return True

    def tear(self) -> None:
        """Show what came of it, in the backend's own words where they have the shape of the API that was called."""
        fail(self._early, self._document(), self._path)

    def _document(self) -> bytes:
        with suppress(orjson.JSONDecodeError):
            document = orjson.loads(self._seen)
            shape = dict if self._path.startswith("/v1/") else str
            if isinstance(document, dict) and (error := document.get("error")) and isinstance(error, shape):
                return orjson.dumps(document)
        text = verdict.text(self._seen) or f"the backend answered {self.status} and sent no stream"
        return refusal.body(text, self.status if self.status >= 400 else 502, self._path)


class _Waiting:
    """What the queue says of those who wait in it: looked at once for all that get a sign together."""

    def __init__(self, plan: scheduler.Scheduler) -> None:
        self._plan = plan
        self._places: dict[int, int] | None = None
        self._reasons: dict[scheduler.SlotRequest, str] = {}

    def words(self, request: scheduler.SlotRequest, now: float) -> str:
        """For example `queued, position 3 for its model: waits for a slot of gpu-0`."""
        if self._places is None:
            self._places, seen = {}, Counter[tuple[object, ...]]()
            for other in self._plan.waiting():
                key = self._plan.line(other)
                seen[key] += 1
                self._places[other.id] = seen[key]
        place = self._places.get(request.id)
        if place is None:
            return "about to be sent"
        alike = request._replace(id=-1, arrived=0.0, client="", size=0, session=0)
        reason = self._reasons.get(alike)
        if reason is None:
            reason = self._reasons[alike] = self._reason(alike, now)
        return f"queued, position {place} for its model: waits for {reason}"

    def _reason(self, request: scheduler.SlotRequest, now: float) -> str:
        hosts = [one.host for one in self._plan.prospects(request, now) if one.later]
        if not hosts:
            return "a backend to come back"
        names = ", ".join(host.backend.name for host in hosts)
        if all(host.residency is not None and not host.residency.warm(request.model) for host in hosts):
            return f"its model set to be loaded on {names}"
        return f"a slot of {names}"
