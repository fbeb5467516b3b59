"""What a history needs of a source: it changes, it answers, and it says what it has."""

from __future__ import annotations

import contextlib
import functools
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any

from clients import tls_trust
from crds import connection
from kb import api
from sources.core import assignments, limits, port

START = datetime(2026, 10, 25, tzinfo=UTC)
"""A day on which clocks of Europe show an hour twice."""
TROUBLES = ("unreadable", "unreadable", "readable", "short", "whole")
"""Events: the source does not give a thing, gives some again, does not list some, lists all."""
ZONES = ("UTC", "Europe/Prague", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati")
SKEWS = (0, -180, 180, -7200, 7200)
"""Seconds by which our clock is ahead of the source's."""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a list of the source, as it shows it now; for the reference algorithms."""

    item: port.Item | None
    changed: datetime
    place: str = ""
    commits: api.GitCommits | None = None


class Bucket(limits.Bucket):
    """Counts the requests, and lets all of them go at once."""

    def __init__(self) -> None:
        super().__init__(6000, 100_000)
        self.count = 0

    def reserve(self, now: float) -> float:
        """See `limits.Bucket`."""
        self.count += 1
        return 0.0


class Site:
    """One source and its history. `seed` decides its zone and its skew."""

    type: connection.Type
    side = "wire"
    """Which side of the port the model is at: its wire, or the database that the source shares with us."""
    by_writes = False
    """Events fall between writes of ours: there is no request that they could fall between."""

    def __init__(self, seed: int) -> None:
        self.seed, self.bucket = seed, Bucket()
        dice = random.Random(f"site {seed}")
        self.zone, self.skew = dice.choice(ZONES), timedelta(seconds=dice.choice(SKEWS))
        self.events = 0
        self.away: set[str] = set()
        """URNs of what was not there at some time after it first came."""
        self.came: Counter[tuple[str, frozenset[str]]] = Counter()
        """How often each URN came with these tokens, or came to have them."""
        self.arrived: Counter[str] = Counter()
        """How often each URN came, whatever it had."""
        self._there: dict[str, frozenset[str]] = {}

    @property
    def now(self) -> datetime:
        """By the source's clock."""
        raise NotImplementedError

    def tick(self, much: timedelta) -> None:
        """Let time pass."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """For `spec.url`."""
        raise NotImplementedError

    filter: Mapping[str, Any] = MappingProxyType({})

    def serving(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """While it answers."""
        return _nothing()

    def live(self) -> dict[str, frozenset[str]]:
        """By URN the tokens of everything that is there for its user."""
        raise NotImplementedError

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Titles by URN of what the source lists and does not give, former URNs of it included: it is held as it was
        before, or a failure says its title."""
        return {}

    def heal(self, dice: random.Random) -> None:
        """What fails at single things, or hides some, ends; a part of the unreadable ones stay so."""

    def rows(self) -> list[Row]:
        """What its lists show now."""
        raise NotImplementedError

    def change(self, dice: random.Random, number: int) -> Awaitable[None] | None:
        """One event."""
        raise NotImplementedError

    def event(self) -> Awaitable[None] | None:
        """The next event of the history; its own dice decide all of it."""
        self.events += 1
        waits = self.change(random.Random(f"event {self.seed} {self.events}"), self.events)
        if waits is None:
            self._noted()
            return None

        async def both() -> None:
            await waits
            self._noted()

        return both()

    def _noted(self) -> None:
        there = self.live()
        self.away |= self._there.keys() - there.keys()
        self.came.update(there.items() - self._there.items())
        self.arrived.update(there.keys() - self._there.keys())
        self._there = there

    @property
    def known(self) -> frozenset[str]:
        """URNs of everything that ever was there."""
        return frozenset(urn for urn, _ in self.came)

    def faults(self, fault: tuple[int, str] | None) -> None:
        """What the requests from now on meet."""
        raise NotImplementedError

    def fault(self) -> str:
        """For the reference algorithms: what the next request meets, after the events before it."""
        raise NotImplementedError

    meanwhile: Callable[[], None] | None = None
    """Called before each request that the source answers."""

    def query_zone(self) -> tzinfo:
        """In which zone it reads the times of a query."""
        return UTC

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """What makes the real source for one poll, as one process does it."""
        raise NotImplementedError


@functools.cache
def tls() -> ssl.SSLContext:
    """That of a process, which makes one as it starts: to load the authorities takes a tenth of a second."""
    return tls_trust.context()


@contextlib.asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


class Planned:
    """Faults and events for sources whose model has no place for them."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._kind = ""

    def set(self, fault: tuple[int, str] | None) -> None:
        """See `Site.faults`."""
        self._left, self._kind = fault if fault is not None else (None, "")

    def next(self) -> str:
        """What the next request meets, "" nothing."""
        if self._left is None:
            return ""
        self._left -= 1
        if self._left >= 0:
            return ""
        self._left = None
        return self._kind
