"""Kubernetes Events: one per transition, posted in the background and limited by a token bucket.

`Recorder.post` only queues, so a decision never waits for an Event. An Event's name is made of the object, the
resourceVersion of the write and the number of the transition in it (one write may make several). So a repeated post is
the same Event, and `kubectl get events`, which lists by name, shows them in order.

`TokenBucket` limits the Events to a rate that a person can read. An object's Events beyond it wait for
`PATIENCE_SECONDS` and are then merged into one Event that names every transition (docs/decisions/0019).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

import kube
from crds import errors


class TokenBucket:
    """A token bucket: full with `burst` tokens, refilled with `rate` tokens a second. `monotonic` is the clock."""

    def __init__(self, rate: float, burst: float, *, monotonic: Callable[[], float]) -> None:
        self._rate, self._burst, self._monotonic = rate, burst, monotonic
        self._left, self._seen = burst, monotonic()

    def spend(self, number: float) -> bool:
        """Take `number` tokens. False when there are fewer; then none is taken."""
        self._refill()
        if number > self._left:
            return False
        self._left -= number
        return True

    def charge(self, number: float) -> None:
        """Take `number` tokens, or all that are left: for an action that is not limited."""
        self._refill()
        self._left = max(0.0, self._left - number)

    def _refill(self) -> None:
        now = self._monotonic()
        self._left = min(self._burst, self._left + max(0.0, now - self._seen) * self._rate)
        self._seen = now


log = structlog.get_logger(__name__)

COMPONENT = "jervis-operator"
PATIENCE_SECONDS = 5.0
RATE, BURST = 20.0, 100.0
"""Events a second that go one by one, and how many more after a quiet time: some sixteen tasks from end to end."""
LOOK_SECONDS = 0.1
"""Between two checks whether the token bucket lets Events go."""
AWAY_SECONDS = 2.0
"""Between two tries while the apiserver does not answer."""
TRIES = 30
"""Of one Event; all others wait behind it."""
FAREWELL_SECONDS = 2.0
"""At the end of the process; the next leader waits for it."""
CAPACITY = 20_000
"""Objects with Events to be posted. They hold a few sentences each; beyond that the oldest are dropped and counted."""
_MAX_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Note:
    """One transition: `step` of the write that made `version`."""

    reason: str
    message: str
    warning: bool
    version: str
    step: int
    at: datetime


@dataclass(slots=True)
class Waiting:
    """The transitions of one object that wait to be posted, and since when (monotonic seconds)."""

    about: kube.Object
    since: float
    notes: list[Note] = field(default_factory=list)


def manifest(about: kube.Object, notes: Sequence[Note]) -> kube.Object:
    """The core/v1 Event that reports `notes` about an object ({apiVersion, kind, metadata: {name, namespace, uid}})."""
    meta, last = about["metadata"], notes[-1]
    # Of several the last is the one that counts, unless something went wrong on the way.
    named = next((one for one in reversed(notes) if one.warning), last)
    text = last.message if len(notes) == 1 else " ".join(f"{one.reason}: {one.message}" for one in notes)
    # Of one width: "10000" would come before "9999".
    version = f"{int(last.version):016x}" if last.version.isdigit() else last.version
    place = f"{version}.{last.step}" if last.step else version
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta['name'][:200].rstrip('.-')}.{meta['uid'][:8]}.{place}",
            "namespace": meta["namespace"],
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": last.version,
        },
        "reason": named.reason,
        "message": text[:_MAX_MESSAGE],
        "type": "Warning" if named.warning else "Normal",
        "firstTimestamp": _stamp(notes[0].at),
        "lastTimestamp": _stamp(last.at),
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


class Recorder:
    """Posts Events, in the order of their objects; any number of tasks may `run` to post them.

    `merged` is called with the number of transitions that went in the Event of a later one, `dropped` with the number
    that got no Event.
    """

    def __init__(
        self,
        api: kube.Kube,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        dropped: Callable[[int], None],
        merged: Callable[[int], None] = lambda number: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        capacity: int = CAPACITY,
    ) -> None:
        self._api, self._clock, self._monotonic = api, clock, monotonic
        self._dropped, self._merged, self._sleep = dropped, merged, sleep
        self._capacity = capacity
        self._bucket = TokenBucket(RATE, BURST, monotonic=monotonic)
        self._line: dict[str, Waiting] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._line)

    def post(self, about: kube.Object, reason: str, message: str, *, warning: bool = False, step: int = 0) -> None:
        """Queue one transition of `about`, an object as the API has just returned it."""
        meta = about["metadata"]
        waiting = self._line.get(meta["uid"])
        if waiting is None:
            if len(self._line) >= self._capacity:
                self._dropped(len(self._line.pop(next(iter(self._line))).notes))
            names = {key: meta[key] for key in ("name", "namespace", "uid")}
            slim = {"apiVersion": about["apiVersion"], "kind": about["kind"], "metadata": names}
            waiting = self._line[meta["uid"]] = Waiting(slim, self._monotonic())
        waiting.notes.append(Note(reason, message, warning, meta["resourceVersion"], step, self._clock()))
        self._arrived.set()

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            about, batches = await self._next()
            for notes in batches:
                await self._send(manifest(about, notes), len(notes))

    async def finish(self) -> None:
        """Post what is left, merged, after every `run` has ended; stops after `FAREWELL_SECONDS`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._line:
                    left = self._line.pop(next(iter(self._line)))
                    self._merged(len(left.notes) - 1)
                    await self._send(manifest(left.about, left.notes), len(left.notes))
        self._dropped(sum(len(one.notes) for one in self._line.values()))

    async def _next(self) -> tuple[kube.Object, list[list[Note]]]:
        """The next object and its transitions: a list per Event."""
        while True:
            first = next(iter(self._line.values()), None)
            if first is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            overdue = self._monotonic() >= first.since + PATIENCE_SECONDS
            if not overdue and not self._bucket.spend(len(first.notes)):
                await self._sleep(LOOK_SECONDS)
                continue
            del self._line[first.about["metadata"]["uid"]]
            if not overdue:
                return first.about, [[one] for one in first.notes]
            self._bucket.charge(1)
            self._merged(len(first.notes) - 1)
            return first.about, [first.notes]

    async def _send(self, body: kube.Object, number: int) -> None:
        """Until the apiserver has it or refuses it (403: the namespace is on its way out, for instance)."""
        reason = ""
        for _ in range(TRIES):
            try:
                await self._api.create(kube.EVENTS, body["metadata"]["namespace"], body)
            except kube.AlreadyExists:
                return
            except (kube.Forbidden, errors.Permanent) as error:
                reason = error.message
                break
            except errors.Operational as error:
                reason = error.message
                await self._sleep(AWAY_SECONDS)
            else:
                return
        self._dropped(number)
        log.info("event not posted", about=body["involvedObject"]["name"], reason=reason)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
