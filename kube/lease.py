"""Leadership: a coordination.k8s.io Lease renewed in a thread of its own.

The arithmetic (`Watcher`, `Terms`) is pure; the thread around it only reads clocks and calls a `Store`, which shares
neither the event loop nor the executor of the process. Three promises:

- an observer takes over only after the record has not changed for its whole duration by the observer's own monotonic
  clock, so clocks of different machines need not agree;
- the holder's deadline is counted from *before* its last successful renewal was sent, minus a margin; `check` is called
  before every write, so a process that was frozen writes nothing after it thaws;
- a holder that cannot renew in time has lost the lease at once, and `lost` is called: that ends the process (the
  operator), or it returns and the process competes again as an observer does (the router).

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
"""leaseTransitions is an int32. Takeovers never reach that number."""
MOST_HEEDED = 2**30
"""A higher epoch on an object is forged (a status may be written before its namespace is served) and is ignored: it
would use up the epochs that are left. Half of them remain."""
_LATE = "the lease could not be renewed in time"
_SHORTEST_PAUSE = 0.1


class Fenced(errors.Operational):
    """This process does not hold the lease, or not for long enough to write."""


class ContestedError(Exception):
    """Another process changed the record first."""


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

    Epochs of two Leases say nothing about each other. The apiserver may remember one that is long gone, so they
    are distinguished by their time of creation (`lease_created`, RFC 3339; "" when that is not known).
    """

    epoch: int = 0
    lease_created: str = ""


NO_LEADER = FencingToken()
"""Of a process that does not lead."""


class Store(Protocol):
    """Where the record is. Blocking, with timeouts of its own; raises `crds.errors.Operational` when it is away."""

    def read(self) -> Record | None:
        """The record, or None when there is none."""

    def write(self, record: Record) -> Record:
        """Create (version "") or replace it; raises `ContestedError` when the version is not the stored one."""

    def close(self) -> None:
        """Nothing is asked any more."""


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
        """May the lease be taken? To be asked at every reading; `now` is after its answer.

        A record that disappears is a change like any other: its holder may not have noticed yet.
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

    `lost` is called from the thread with a sentence when the lease is lost. When it returns, the process competes
    again. `acquired` is called from the thread when the lease is won, `ended` as its last act. `predecessor(holder)`
    is true for a holder that is known to be dead: the process that ran in this very pod before; its lease need not run
    out.
    """

    def __init__(
        self,
        store: Store,
        identity: str,
        terms: Terms,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        lost: Callable[[str], None],
        acquired: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
        predecessor: Callable[[str], bool] = lambda holder: False,
    ) -> None:
        self._predecessor = predecessor
        self._store, self._me, self._terms = store, identity, terms
        self._monotonic, self._wall = monotonic, wall
        self._lost, self._acquired, self._ended = lost, acquired, ended
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
        return NO_LEADER if held is None else FencingToken(held.transitions, held.created)

    @property
    def leading(self) -> bool:
        """May this process write at this very moment?"""
        return self.left() > 0

    def left(self) -> float:
        """Seconds for which this process may write if it never renews again; 0 when it may not."""
        if self._held is None or self._stop.is_set():
            return 0.0
        return max(0.0, self._deadline - self._monotonic())

    def silent_for(self) -> float:
        """Seconds since the store last answered: what liveness checks."""
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
        if not self._floor < epoch <= MOST_HEEDED:
            return
        self._floor = epoch
        if self._held is not None and self.epoch < epoch:
            self._wake.set()

    def start(self) -> None:
        """Begin to compete for the lease."""
        self._thread.start()

    def release(self, timeout: float = 5.0) -> None:
        """Lead no more, from now on; the thread hands the lease over and ends, for which this waits `timeout` seconds.

        To be called when nothing writes any more.
        """
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def step(self) -> float:
        """One turn: renew, or try to acquire. Returns the seconds until the next one."""
        sent, answered = self._monotonic(), True
        if self._held is not None and sent >= self._deadline:
            # Frozen for so long that another may lead: nothing is sent under this leadership, a renewal neither.
            self._lose(_LATE)
        try:
            if self._held is not None:
                self._renew(self._held, sent)
            else:
                self._compete(sent)
        except ContestedError:
            self._settle()
        except errors.JervisError as error:
            answered = False
            log.warning("lease not renewed" if self._held else "lease not read", reason=error.message)
        now = self._monotonic()
        if answered:
            self._heard = now
        if self._held is not None and now >= self._deadline:
            self._lose(_LATE)
        if self._held is not None or not answered:
            return self._terms.renew_every
        # An observer reads again the moment the lease may be vacant, so that a takeover waits for nothing else.
        return min(self._terms.renew_every, max(_SHORTEST_PAUSE, self._watcher.left(now)))

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stop.is_set():
                break
            try:
                pause = self.step()
            except Exception as error:  # the edge of this thread: whatever it was, the lease is not renewed
                log.exception("the lease thread failed")
                pause = self._terms.renew_every
                self._lose(f"the lease thread failed: {error!r}")
        try:
            self._hand_over()
            self._store.close()
        finally:
            self._ended()

    def _hand_over(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        try:
            self._store.write(replace(held, holder="", renewed=self._wall(), duration=1.0))
        except (ContestedError, errors.JervisError) as error:
            log.info("lease not handed over; it runs out by itself", reason=str(error))

    def _lose(self, why: str) -> None:
        held, self._held = self._held, None
        if held is not None:
            # From here on an observer like any other: that the record disappears would be a change, too.
            self._watcher.vacant(held, self._monotonic())
        self._lost(why)

    def _renew(self, held: Record, sent: float) -> None:
        # Only the present holder can raise it: a record of another holder refuses this version.
        floor = self._floor
        transitions = held.transitions if held.transitions >= floor else floor + 1
        self._held = self._store.write(replace(held, renewed=self._wall(), transitions=transitions))
        self._deadline = self._terms.deadline(sent)
        if transitions != held.transitions:
            log.warning("epoch raised: objects were written under a higher one", epoch=transitions, seen=floor)

    def _compete(self, sent: float) -> None:
        record = self._store.read()
        # Ours: the answer to the write that took it was lost, or it ran out for us and no other process took it.
        known = record is not None and (record.holder == self._me or self._predecessor(record.holder))
        if not self._watcher.vacant(record, self._monotonic()) and not known:
            return
        won = self._store.write(claimed(record, self._me, self._terms, self._wall(), self._floor))
        self._deadline = self._terms.deadline(sent)
        self._held = won
        log.info("lease acquired", epoch=won.transitions, identity=self._me)
        self._acquired()

    def _settle(self) -> None:
        """After a conflict; what cannot be settled now is checked again in the next turn, within the deadline."""
        try:
            if self._held is not None:
                self._verify(self._held)
        except ContestedError:
            log.info("the lease changed again")
        except errors.JervisError as error:
            log.warning("lease not read", reason=error.message)

    def _verify(self, held: Record) -> None:
        """A conflict on our own lease: it was edited, deleted or taken, or our own renewal got through and its answer
        did not."""
        sent = self._monotonic()
        record = self._store.read()
        if record is not None and record.holder != self._me:
            self._lose(f"the lease was taken by {record.holder or 'an empty holder'}")
        elif sent >= self._deadline:
            return  # too late to write anything
        elif record is None:
            # An observer waits for the duration in the record, so until our deadline the lease is ours to renew.
            self._renew(replace(held, version=""), sent)
            log.warning("the lease was deleted; it is there again", epoch=self.epoch)
        else:
            self._renew(replace(held, version=record.version, transitions=record.transitions), sent)
