"""`/api/v1/queue` beside the history: what waits in a namespace, for what, behind how many, and since when.

GET /api/v1/queue?client=&limit=           the present state
GET /api/v1/queue/events?client=&limit=    the same as server-sent events: once, and again whenever it changes

Tickets are those of the history (docs/decisions/0007) and give access to one namespace; of other namespaces' tasks an
answer has a number and nothing else. Any replica answers from its own task cache; `leading` says whether it acts.
One survey serves all requests. It and the answers from it take a twentieth of the process's time, but a survey is never
shown for longer than `OLDEST_SECONDS`. A token bucket limits each namespace's requests (429 beyond it), and a request
reads its namespace's tasks only: whatever one tenant asks, the others' answers stay fresh and cheap.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from contracts.api import queue_api as wire
from controllers import events
from controllers.archive import http, query, tickets
from controllers.pendingtask.slots import wait_reasons
from crds import errors, pendingtask

FRESH_SECONDS = 1.0
"""How long a survey is shown again."""
SHARE = 20.0
"""A survey is shown for this multiple of the time that it, and the answers from it, took to make."""
OLDEST_SECONDS = 10.0
"""Then a new survey is made, whatever the last one and the answers from it took."""
MOST_SHOWN = 256
"""Answers that are kept; the one that was made first goes first. More than there may be streams."""
REQUESTS_A_SECOND, REQUESTS_AT_ONCE = 5, 20
"""Of one namespace: answers, and beginnings of streams."""
MOST_NAMESPACES = 1000
"""Namespaces whose requests are counted; beyond that counting begins anew."""
BEAT_SECONDS = 15.0
"""Time between two comments on a stream without events."""
MOST_STREAMS = 64
MOST_STREAMS_EACH = 8
"""Streams at the same time, of all and of one namespace."""
IN_THREAD = 1000
"""From this number of waiting tasks on, a survey is made in a thread."""
LONGEST_SECONDS = 3600.0
"""Then a stream ends, and its client asks anew."""

_PARAMETERS = frozenset({"namespace", "client", "limit"})


class TooMany(errors.Operational):
    """As many streams as there may be."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A survey, and its uids in their order by namespace."""

    survey: wait_reasons.Survey
    by_namespace: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """`client` "" is any."""

    namespace: str
    client: str
    limit: int


class QueueState:
    """`observe` gives what is known now; it raises `errors.Operational` before everything has been read."""

    def __init__(
        self,
        observe: Callable[[], wait_reasons.Observed],
        *,
        breaker: Callable[[], str],
        leading: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._observe, self._breaker, self._leading, self._monotonic = observe, breaker, leading, monotonic
        self._made: Surveyed | None = None
        self._shown: dict[Asked, bytes] = {}
        self._made_at = self._spent = 0.0
        self._making = asyncio.Lock()

    def __len__(self) -> int:
        """Answers that are kept."""
        return len(self._shown)

    async def document(self, asked: Asked) -> bytes:
        """What that namespace may see, a `waits.Queue` as JSON. Raises the error of `observe`."""
        made = await self._survey()
        shown = self._shown.get(asked)
        if shown is None:
            began = self._monotonic()
            shown = http.encoded(document(made, asked, breaker=self._breaker(), leading=self._leading()))
            if len(self._shown) >= MOST_SHOWN:
                del self._shown[next(iter(self._shown))]
            self._shown[asked] = shown
            self._spent += self._monotonic() - began
        return shown

    async def _survey(self) -> Surveyed:
        async with self._making:
            began = self._monotonic()
            if self._made is None or began >= self._made_at + self._shown_for():
                found = self._observe()
                large = len(found.entries) > IN_THREAD
                self._made = await asyncio.to_thread(surveyed, found) if large else surveyed(found)
                self._shown.clear()
                self._made_at = self._monotonic()
                self._spent = self._made_at - began
            return self._made

    def _shown_for(self) -> float:
        return min(OLDEST_SECONDS, max(FRESH_SECONDS, SHARE * self._spent))


class QueueHttp:
    """Serves the queue. `access` authenticates each request."""

    def __init__(self, state: QueueState, access: tickets.Tickets, *, monotonic: Callable[[], float]) -> None:
        self._state, self._access, self._monotonic = state, access, monotonic
        self._streams: Counter[str] = Counter()
        self._rates: dict[str, events.TokenBucket] = {}
        self._closing = asyncio.Event()

    def serve(self, application: web.Application) -> None:
        """Add both paths. Streams end when the application shuts down."""

        async def close(_: web.Application) -> None:
            self._closing.set()

        application.router.add_get("/api/v1/queue", http.answering(self._show))
        application.router.add_get("/api/v1/queue/events", http.answering(self._stream))
        application.on_shutdown.append(close)

    async def _show(self, request: web.Request) -> web.Response:
        body = await self._state.document(await self._asked(request))
        return web.Response(body=body, content_type="application/json")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        asked = await self._asked(request)
        place = asked.namespace
        if self._streams.total() >= MOST_STREAMS or self._streams[place] >= MOST_STREAMS_EACH:
            raise TooMany("as many streams as there may be are open; close one, or ask /api/v1/queue now and then")
        self._streams[place] += 1
        try:
            first = await self._state.document(asked)
            headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            # The client goes, or the ticket runs out: the stream has begun, so there is no other answer than its end.
            with contextlib.suppress(ConnectionError, tickets.Denied, errors.Operational):
                await self._follow(request, response, asked, first)
            return response
        finally:
            self._streams[place] -= 1

    async def _follow(self, request: web.Request, response: web.StreamResponse, asked: Asked, shown: bytes) -> None:
        began = beat = self._monotonic()
        await response.write(_event(shown))
        while not self._closing.is_set() and self._monotonic() - began < LONGEST_SECONDS:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await self._closing.wait()
            await self._access.namespace(http.ticket(request), request.remote or "")
            now = await self._state.document(asked)
            if now != shown:
                shown, beat = now, self._monotonic()
                await response.write(_event(now))
            elif self._monotonic() - beat >= BEAT_SECONDS:
                beat = self._monotonic()
                await response.write(b": nothing has changed\n\n")

    def _count(self, namespace: str) -> None:
        """Raises `http.TooOften` for one that has asked too often."""
        if namespace not in self._rates:
            if len(self._rates) >= MOST_NAMESPACES:
                self._rates.clear()
            self._rates[namespace] = events.TokenBucket(REQUESTS_A_SECOND, REQUESTS_AT_ONCE, monotonic=self._monotonic)
        if not self._rates[namespace].spend(1):
            raise http.TooOften(
                f"namespace {namespace} asks more than {REQUESTS_A_SECOND} times a second; ask less often, or follow"
                " /api/v1/queue/events"
            )

    async def _asked(self, request: web.Request) -> Asked:
        namespace = await self._access.namespace(http.ticket(request), request.remote or "")
        self._count(namespace)
        for name in set(request.query):
            if name not in _PARAMETERS:
                known = ", ".join(sorted(_PARAMETERS))
                raise query.Unreadable(f"{name!r} is not a parameter", field=name, remedy=f"Use {known}.")
            if len(request.query.getall(name)) > 1:
                raise query.Unreadable(f"{name} is given more than once", field=name, remedy="Give it once.")
        found = query.parse({"limit": str(query.MOST), **request.query})
        if found.namespace not in ("", namespace):
            raise tickets.Elsewhere(namespace)
        return Asked(namespace, found.client, found.limit)


def surveyed(found: wait_reasons.Observed) -> Surveyed:
    """A survey of what is known. Pure."""
    survey, by_namespace = wait_reasons.survey(found), dict[str, list[str]]()
    for uid in survey:
        by_namespace.setdefault(survey.entries[uid].namespace, []).append(uid)
    return Surveyed(survey, by_namespace)


def document(made: Surveyed, asked: Asked, *, breaker: str, leading: bool) -> wire.Queue:
    """What `asked` may see of a survey. Pure."""
    survey = made.survey
    lanes: tuple[list[wire.Waiting], list[wire.Waiting]] = ([], [])
    pending: Counter[int] = Counter()
    oldest: dict[int, datetime] = {}
    for uid in made.by_namespace.get(asked.namespace, ()):
        entry = survey.entries[uid]
        if asked.client not in ("", entry.order.client):
            continue
        why, lane = survey.why(uid), entry.order.lane
        if why is None:
            continue
        pending[lane] += 1
        if why.reason not in (wire.Reason.SUSPENDED, wire.Reason.JOB_SUSPENDED):
            oldest[lane] = min(oldest.get(lane, why.since), why.since)
        if len(lanes[lane]) < asked.limit:
            lanes[lane].append(_waiting(uid, survey, why))
    items = (*lanes[0], *lanes[1])[: asked.limit]
    state = survey.state
    return wire.Queue(
        leading=leading,
        orchestrator_healthy=not state.circuit_open,
        breaker=breaker,
        slots=wire.Slots(total=state.slots_total, free=state.slots_free),
        foreground=wire.Lane(pending=pending[0], oldest=oldest.get(0)),
        background=wire.Lane(pending=pending[1], oldest=oldest.get(1)),
        items=items,
        more=pending.total() - len(items),
    )


def _waiting(uid: str, survey: wait_reasons.Survey, why: wait_reasons.Wait) -> wire.Waiting:
    entry = survey.entries[uid]
    mode = pendingtask.Mode.BACKGROUND if entry.order.lane else pendingtask.Mode.FOREGROUND
    return wire.Waiting(
        uid=uid,
        name=entry.name,
        client_id=entry.order.client,
        mode=mode,
        queue_position=entry.order.given,
        phase=entry.phase,
        reason=why.reason,
        message=why.message,
        since=why.since,
        not_before=datetime.fromtimestamp(entry.not_before, UTC) if entry.not_before else None,
        position=None if why.place is None else why.place + 1,
        before=why.place or 0,
        before_own=why.own,
        aged=why.aged,
    )


def _event(shown: bytes) -> bytes:
    return b"event: queue\ndata: " + shown + b"\n\n"
