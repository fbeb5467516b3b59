"""What can be done to a request, and who decides about it. Pure; random choices follow from seed, site and object."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from tests.faults.sites import Call, Door, Moment


class Fault(StrEnum):
    """Of the wire, but for the last four: a user who is quicker, and the end of the operator's process at that moment
    of a request. A lost event is the door's own (`HttpDoor.deaf_to`), not a request's."""

    CONFLICT = "409"
    THROTTLED = "429 with Retry-After"
    BUSY = "503 with Retry-After"
    LOST_ANSWER = "500 after commit"
    REFUSED = "error instead of an answer"
    RESET_BEFORE = "connection reset before commit"
    RESET_AFTER = "connection reset after commit"
    LATENCY = "latency"
    GONE = "410 Gone in a watch"
    SILENT = "silent watch"
    UNREPORTED = "deletion that no watch reports"
    HELD = "held by the network until later"
    LAST_WORDS = "a user's message just before the write"
    KILL_BEFORE = "kill -9 before send"
    KILL_COMMITTED = "kill -9 after commit before answer"
    KILL_ANSWERED = "kill -9 after answer"


KILLS = {
    Moment.BEFORE: Fault.KILL_BEFORE,
    Moment.COMMITTED: Fault.KILL_COMMITTED,
    Moment.ANSWERED: Fault.KILL_ANSWERED,
}


@dataclass(frozen=True, slots=True)
class Fate:
    """One request's fate. `seconds`: of latency or silence, until a watch breaks, or the Retry-After."""

    fault: Fault
    seconds: float = 0.0


Decide = Callable[[Call], Fate | None]
"""Asked about every request as it arrives; None lets it pass."""


def possible(call: Call) -> tuple[Fault, ...]:
    """What may happen to such a request in real life.

    The knowledge base never gets a 500: that is an error of its own and ends in phase Error by contract.
    """
    site = call.site
    if site.door is Door.KNOWLEDGE:
        return (Fault.THROTTLED, Fault.BUSY, Fault.RESET_BEFORE, Fault.RESET_AFTER, Fault.LATENCY)
    if site.door is Door.MONGODB:
        return (Fault.REFUSED, Fault.RESET_BEFORE, Fault.RESET_AFTER, Fault.LATENCY)
    if site.verb == "WATCH":
        return (Fault.THROTTLED, Fault.RESET_BEFORE, Fault.RESET_AFTER, Fault.GONE, Fault.SILENT)
    common = (Fault.THROTTLED, Fault.LOST_ANSWER, Fault.RESET_BEFORE, Fault.RESET_AFTER, Fault.LATENCY)
    return (*common, Fault.CONFLICT) if site.writes else common


def first(*deciders: Decide) -> Decide:
    """The first that has an opinion."""

    def decide(call: Call) -> Fate | None:
        return next((fate for one in deciders if (fate := one(call)) is not None), None)

    return decide


class Mix:
    """Random faults while `on`: the n-th request of a site about an object always meets the same fate for a seed."""

    def __init__(self, seed: int, rate: float, *, longest: float = 1.0) -> None:
        self._seed, self._rate, self._longest = seed, rate, longest
        self._count: Counter[tuple[object, str]] = Counter()
        self.on = True

    def __call__(self, call: Call) -> Fate | None:
        key = (call.site, call.name)
        self._count[key] += 1
        chance = random.Random(f"{self._seed}/{call.site}/{call.name}/{self._count[key]}")
        if not self.on or chance.random() >= self._rate:
            return None
        fault = chance.choice(possible(call))
        return Fate(fault, 1.0 if fault in (Fault.THROTTLED, Fault.BUSY) else chance.uniform(0.0, self._longest))


class Every:
    """One fault for each request that it can happen to, until each object has met it `times` times per site."""

    def __init__(self, fault: Fault, *, times: int = 1, seconds: float = 1.0) -> None:
        self._fault, self._times, self._seconds = fault, times, seconds
        self._count: Counter[tuple[object, str]] = Counter()
        self.on = True

    @property
    def sites(self) -> frozenset[object]:
        """Where it was meant to happen so far."""
        return frozenset(site for site, _ in self._count)

    def __call__(self, call: Call) -> Fate | None:
        key = (call.site, call.name)
        if not self.on or self._fault not in possible(call) or self._count[key] >= self._times:
            return None
        self._count[key] += 1
        return Fate(self._fault, self._seconds)


class Hold:
    """The first request of that site about that object waits in the network until the door lets go."""

    def __init__(self, verb: str, resource: str, name: str) -> None:
        self._wanted, self._name = (verb, resource), name
        self.done = False

    def __call__(self, call: Call) -> Fate | None:
        if self.done or (call.site.verb, call.site.resource) != self._wanted or not call.name.startswith(self._name):
            return None
        self.done = True
        return Fate(Fault.HELD)


class LastWords:
    """Each task's user says something at the very moment at which the end of its run is being written, once."""

    def __init__(self, intents: Collection[str]) -> None:
        self._intents = intents
        self.said: list[str] = []

    def __call__(self, call: Call) -> Fate | None:
        site = call.site
        if site.resource != "pendingtasks" or site.intent not in self._intents or call.name in self.said:
            return None
        self.said.append(call.name)
        return Fate(Fault.LAST_WORDS)


def busy_once() -> Decide:
    """A knowledge base that is busy the first time it is asked about content with the word BUSY."""
    asked: set[str] = set()

    def decide(call: Call) -> Fate | None:
        if call.site.door is not Door.KNOWLEDGE or "BUSY" not in call.body or call.name in asked:
            return None
        asked.add(call.name)
        return Fate(Fault.BUSY, 1.0)

    return decide
