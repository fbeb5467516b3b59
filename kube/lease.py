"""Leadership: a coordination.k8s.io Lease renewed in a thread of its own.

The arithmetic (`Watcher`, `Terms`) is pure; the thread around it only reads clocks and calls a `Store`. Three promises:

- an observer takes over only after the record has not changed for its whole duration by the observer's own monotonic
  clock, so clocks of different machines need not agree;
- the holder's deadline is counted from *before* its last successful renewal was sent, minus a margin; `check` is called
  before every write, so a process that was frozen writes nothing after it thaws;
- a holder that cannot renew in time ends the process at once.

`epoch` is `leaseTransitions` and goes into every status that is written. It never falls behind an epoch that was seen
on an object (`heed`): a Lease that was deleted, or objects restored into another cluster, are counted on from. kopf's
peering is not a lock and is not used.
Source: client-go tools/leaderelection; operator.md point 5.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import structlog

from crds import errors

log = structlog.get_logger(__name__)

MOST_TRANSITIONS = 2**31 - 1
"""leaseTransitions is an int32. Nobody gets there by taking over; a forged status must not stop the counting."""
_LATE = "the lease could not be renewed in time"
_SHORTEST_PAUSE = 0.1


class Fenced(errors.Operational):
    """This process does not hold the lease, or not for long enough to write."""


class ContestedError(Exception):
    """Somebody else changed the record first."""


@dataclass(frozen=True, slots=True)
class Record:
    """The Lease as stored. `version`: its resourceVersion, "" for one that does not exist yet; `created`: RFC 3339."""

    holder: str
    duration: float
    acquired: datetime | None
    renewed: datetime | None
    transitions: int
    version: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True)
class FencingToken:
    """Under which leadership something is written: a later leader's is higher.

    Epochs of two Leases say nothing about each other. The apiserver may remember one that is long gone, and what tells
    the two apart is when they were created (`lease_created`, RFC 3339; "" when that is not known).
    """

    epoch: int = 0
    lease_created: str = ""


NOBODYS = FencingToken()
"""Of a process that does not lead."""


class Store(Protocol):
    """Where the record is. Blocking, with timeouts of its own; raises `crds.errors.Operational` when it is away."""

    def read(self) -> Record | None:
        """The record, or None when there is none."""

    def write(self, record: Record) -> Record:
        """Create (version "") or replace it; raises `ContestedError` when the version is not the stored one."""


RENEW_EVERY = 1.5
MARGIN = 2.0
SHORTEST_DURATION = MARGIN + 2 * RENEW_EVERY + 1.0
"""A holder that misses one renewal must still have time for the next one, also when the first got no answer."""
_LONGEST_REQUEST, _LATENESS = 3.0, 0.2


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. `margin` is what the holder gives up of its duration for the time a write is on its way."""

    duration: float = 8.0
    renew_every: float = RENEW_EVERY
    margin: float = MARGIN

    @property
    def timeout(self) -> float:
        """Of one request to the store: after one without an answer the next renewal is sent before the deadline."""
        return min(_LONGEST_REQUEST, self.duration - self.margin - 2 * self.renew_every - _LATENESS)

    def deadline(self, sent: float) -> float:
        """Until when (monotonic) a holder may write whose renewal was sent at `sent`."""
        return sent + self.duration - self.margin


class Watcher:
    """When did the record last change, by our own clock?"""

    def __init__(self) -> None:
        self._seen: tuple[str, str] | None = None
        self._since = 0.0
        self._duration = 0.0

    def vacant(self, record: Record | None, now: float) -> bool:
        """May the lease be taken? To be asked at every reading.

        A record that disappears is a change like any other: whoever held it may not have noticed yet.
        """
        if record is not None and not record.holder:
            return True
        if record is None and self._seen is None:
            return True
        mark = ("", "") if record is None else (record.holder, record.version)
        if mark != self._seen:
            self._seen, self._since = mark, now
        if record is not None:
            self._duration = record.duration
        return now >= self._since + self._duration

    def left(self, now: float) -> float:
        """Seconds until the record that was read last may be taken, unless it changes."""
        return self._since + self._duration - now


def claimed(old: Record | None, me: str, terms: Terms, now: datetime, floor: int = 0) -> Record:
    """The record that makes `me` the holder; the epoch goes up with every change of holder and beyond `floor`."""
    transitions = min(max(0 if old is None else old.transitions, floor) + 1, MOST_TRANSITIONS)
    return Record(me, terms.duration, now, now, transitions, "" if old is None else old.version)


class Lease:
    """`start` it; `check` before writes; `release` at the end.

    `die` is called with a sentence when the lease is lost; it must not return. `acquired` is called from the thread
    when the lease is won. `predecessor(holder)` is true for a holder that is known to be dead: the process that ran in
    this very pod before; its lease need not run out.
    """

    def __init__(
        self,
        store: Store,
        identity: str,
        terms: Terms,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        die: Callable[[str], None],
        acquired: Callable[[], None] = lambda: None,
        predecessor: Callable[[str], bool] = lambda holder: False,
    ) -> None:
        self._predecessor = predecessor
        self._store, self._me, self._terms = store, identity, terms
        self._monotonic, self._wall = monotonic, wall
        self._die, self._acquired = die, acquired
        self._watcher = Watcher()
        self._held: Record | None = None
        self._deadline = 0.0
        self._floor = 0
        self._heard = monotonic()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def epoch(self) -> int:
        """leaseTransitions of the lease that is held; 0 when none is."""
        held = self._held
        return 0 if held is None else held.transitions

    @property
    def token(self) -> FencingToken:
        """What goes onto objects that have no status of ours to carry the epoch."""
        held = self._held
        return NOBODYS if held is None else FencingToken(held.transitions, held.created)

    @property
    def leading(self) -> bool:
        """May this process write at this very moment?"""
        return self._held is not None and self._monotonic() < self._deadline

    def silent_for(self) -> float:
        """Seconds since the store last answered: what liveness looks at."""
        return self._monotonic() - self._heard

    def alive(self) -> bool:
        """The thread runs."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise `Fenced` unless this process may write now."""
        if not self.leading:
            raise Fenced("this replica does not hold the lease")
        if self.epoch < self._floor:
            raise Fenced(f"an object was written under epoch {self._floor}; ours is {self.epoch} and goes up first")

    def heed(self, epoch: int) -> None:
        """`epoch` was seen on an object. A holder whose own is lower writes nothing until its Lease says more.

        An old leader that thawed does not get that far: the write that would raise its epoch finds the lease taken.
        """
        if not self._floor < epoch < MOST_TRANSITIONS:
            return
        self._floor = epoch
        if self._held is not None and self.epoch < epoch:
            self._wake.set()

    def start(self) -> None:
        """Begin to compete for the lease."""
        self._thread.start()

    def release(self, timeout: float = 5.0) -> None:
        """Stop renewing and hand the lease over, when nothing writes any more; blocks up to `timeout` seconds."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout)
        held, self._held = self._held, None
        if held is None or self._thread.is_alive():
            return
        try:
            self._store.write(replace(held, holder="", renewed=self._wall(), duration=1.0))
        except (ContestedError, errors.JervisError) as error:
            log.info("lease not handed over; it runs out by itself", reason=str(error))

    def step(self) -> float:
        """One turn: renew, or try to acquire. Returns the seconds until the next one."""
        sent = self._monotonic()
        if self._held is not None and sent >= self._deadline:
            # Frozen for so long that another may lead: nothing is sent any more, a renewal neither.
            self._die(_LATE)
        try:
            if self._held is not None:
                self._renew(self._held, sent)
            else:
                self._compete(sent)
            self._heard = self._monotonic()
        except ContestedError:
            self._heard = self._monotonic()
            self._settle()
        except errors.JervisError as error:
            log.warning("lease not renewed" if self._held else "lease not read", reason=error.message)
        if self._held is not None and self._monotonic() >= self._deadline:
            self._die(_LATE)
        # An observer looks again the moment the lease may be vacant, so that a takeover waits for nothing else.
        runs_out = self._terms.renew_every if self._held is not None else self._watcher.left(self._monotonic())
        return min(self._terms.renew_every, max(_SHORTEST_PAUSE, runs_out))

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                pause = self.step()
            except Exception as error:  # noqa: BLE001  # the edge of this thread: without it the process must not go on
                self._die(f"the lease thread failed: {error!r}")
                return

    def _renew(self, held: Record, sent: float) -> None:
        # Only whoever still holds the record can raise it: another's would refuse this version.
        floor = self._floor
        transitions = held.transitions if held.transitions >= floor else floor + 1
        self._held = self._store.write(replace(held, renewed=self._wall(), transitions=transitions))
        self._deadline = self._terms.deadline(sent)
        if transitions != held.transitions:
            log.warning("epoch raised: objects were written under a higher one", epoch=transitions, seen=floor)

    def _compete(self, sent: float) -> None:
        record = self._store.read()
        late = record is not None and self._predecessor(record.holder)
        if not self._watcher.vacant(record, sent) and not late:
            return
        won = self._store.write(claimed(record, self._me, self._terms, self._wall(), self._floor))
        self._deadline = self._terms.deadline(sent)
        self._held = won
        log.info("lease acquired", epoch=won.transitions, identity=self._me)
        self._acquired()

    def _settle(self) -> None:
        """After a conflict; what cannot be settled now is looked at again in the next turn, within the deadline."""
        try:
            if self._held is not None:
                self._verify(self._held)
        except ContestedError:
            log.info("the lease changed again")
        except errors.JervisError as error:
            log.warning("lease not read", reason=error.message)

    def _verify(self, held: Record) -> None:
        """A conflict on our own lease: somebody edited it, deleted it, or took it."""
        sent = self._monotonic()
        record = self._store.read()
        if record is None and sent < self._deadline:
            # Whoever else wants it waits for as long as it was written for, so until our deadline it is ours to renew.
            self._held = self._store.write(replace(held, version="", renewed=self._wall()))
            self._deadline = self._terms.deadline(sent)
            log.warning("the lease was deleted; it is there again", epoch=self._held.transitions)
            return
        if record is None or record.holder != self._me:
            self._die(f"the lease was taken by {record.holder if record else 'nobody'}")
            return
        self._held = replace(held, version=record.version, transitions=record.transitions)
