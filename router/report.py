"""The status document, put together from the running parts. Its shape is in `status`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from crds import modelcheck, modelroles
from crds.gpubackend import Circuit
from router import scheduler, status
from router.aliases import NONE, Aliases
from router.backends import book, placement, records
from router.host import Host
from router.priority import Level
from router.reservation import Reservation
from router.waiting import SlotRequest

_SHOWN = 100
_SHARE = 10.0
_CHEAP = 0.001
"""Seconds. What takes no longer is made anew for everyone who asks, so that a client sees what its last request did."""
STANDBY = "standing by: another router is active"


class Leader(Protocol):
    """Whether this router decides (`ha.Candidate`)."""

    @property
    def active(self) -> bool:
        """It does, at this moment."""


class _Alone:
    """There are no others."""

    active = True


ALONE = _Alone()


class Report:
    """`now` is the scheduler's clock in seconds. `last_p0`, `last_user_p0` and `draining` are set by the
    server."""

    def __init__(
        self,
        backends: book.Book,
        plan: scheduler.Scheduler,
        *,
        now: Callable[[], float],
        leader: Leader = ALONE,
        owners: bool = True,
        spent: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
        roles: Sequence[modelroles.Assigned] = (),
        names: Aliases = NONE,
    ) -> None:
        """`leader` tells whether this router decides. `owners`: reservations name their owners. `spent` is the clock
        that a document's cost is taken by, `clock` that of its age. The models of `roles` are checked on each backend;
        `names` has the aliases under which they may be named."""
        self._roles = tuple(roles)
        self._names = names
        self._owners = owners
        self._spent = spent
        self._clock = clock
        self._made: tuple[float, float, status.Status] | None = None
        self._text: tuple[status.Status, bytes] | None = None
        self._book = backends
        self._plan = plan
        self._now = now
        self.last_p0: datetime | None = None
        self.last_user_p0: datetime | None = None
        self.last_user_p0_on: dict[str, datetime] = {}
        """By backend: when a user's P0 request was last given to it."""
        self.leader = leader
        self.draining = False

    def placed(self, backend: str, at: datetime) -> None:
        """A user's P0 request was given to that backend."""
        self.last_user_p0_on[backend] = at

    def document(self, *, age: float = 0.0) -> status.Status:
        """The state of this moment, or one that is at most `age` seconds old.

        With many waiters it costs milliseconds, and everyone may ask for it, so it is shared for ten times as long as
        it took to make: all who ask together take a tenth of the processor at most.
        """
        if self._made is not None:
            at, share, made = self._made
            if (
                self._clock() - at < max(share, age)
                and made.draining == self.draining
                and made.active == self.leader.active
            ):
                return made
        begun = self._spent()
        made = self._make()
        cost = self._spent() - begun
        self._made = (self._clock(), _SHARE * cost if cost > _CHEAP else 0.0, made)
        return made

    def text(self, *, age: float = 0.0) -> bytes:
        """The same as JSON."""
        document = self.document(age=age)
        if self._text is None or self._text[0] is not document:
            self._text = (document, document.model_dump_json(by_alias=True).encode())
        return self._text[1]

    def _make(self) -> status.Status:
        waiting = list(self._plan.waiting())
        levels = Counter(request.level for request in waiting)
        hosts = {host.backend.name: host for host in self._plan.hosts()}
        now = self._now()
        return status.Status(
            backends=[self._backend(entry, hosts.get(entry.name), now) for entry in self._book.entries()],
            queue=status.Queue(
                waiting=len(waiting),
                by_priority={level.label: levels[level] for level in Level},
                oldest_seconds=round(max((now - r.arrived for r in waiting), default=0.0), 3),
                first=[_waiter(request, now) for request in waiting[:_SHOWN]],
            ),
            last_p0=self.last_p0,
            last_user_p0=self.last_user_p0,
            draining=self.draining,
            active=self.leader.active,
            models=modelcheck.check(self._roles, [_checked(entry) for entry in self._book.entries()], self._names),
        )

    def ready(self) -> str:
        """Empty when requests can be served, else what is missing."""
        entries = self._book.entries()
        if self.draining:
            return "draining"
        if not self.leader.active:
            return STANDBY
        if not entries:
            return "no GpuBackend is configured"
        if any(entry.view().available for entry in entries):
            return ""
        return "; ".join(f"{entry.name}: {_away(entry)}" for entry in entries)

    def _backend(self, entry: book.Entry, host: Host | None, now: float) -> status.Backend:
        return status.Backend(
            name=entry.name,
            kind=entry.spec.kind.value,
            engine=entry.spec.engine.value,
            url=entry.spec.url,
            healthy=entry.healthy,
            reason="" if entry.healthy else entry.reason,
            draining=entry.spec.drain,
            circuit=entry.circuit.value,
            models_failing=sorted(entry.models_in(Circuit.OPEN)),
            in_flight=self._plan.in_flight(entry.name),
            num_parallel=entry.spec.num_parallel,
            models=sorted(entry.served or ()),
            loaded=sorted(entry.loaded),
            version=entry.version,
            vram_bytes=None if host is None else host.backend.vram,
            memory=[_loaded(record) for record in entry.ps],
            model_sets=[] if host is None else _sets(host),
            reservation=None if host is None or host.reservation is None else self._reservation(host.reservation, now),
            running=[] if host is None else _running(host),
            swaps=0 if host is None or host.residency is None else host.residency.swaps,
            last_user_p0=self.last_user_p0_on.get(entry.name),
        )

    def _reservation(self, held: Reservation, now: float) -> status.Reservation:
        return status.Reservation(
            owner=held.named(owners=self._owners),
            model_set=held.model_set,
            ready=held.ready,
            seconds_left=round(max(0.0, held.until - now), 1),
        )


def _checked(entry: book.Entry) -> modelcheck.Backend:
    listed = None if entry.tags is None else entry.served
    loads = {
        member.name: member.num_ctx
        for one in placement.sets(entry.spec, listed)
        for member in one.members
        if member.num_ctx is not None
    }
    return modelcheck.Backend(
        entry.name,
        listed,
        entry.facts,
        openai=entry.openai,
        loads=loads,
        digests={records.model(one): str(one["digest"]) for one in entry.tags or () if "digest" in one},
        away=_away(entry),
        capabilities=frozenset(entry.spec.capabilities),
    )


def _away(entry: book.Entry) -> str:
    """Why no request goes to the backend; empty while requests do."""
    if entry.healthy and not entry.spec.drain:
        return ""
    return "drains" if entry.spec.drain else entry.reason or "circuit is open"


def _waiter(request: SlotRequest, now: float) -> status.Waiter:
    return status.Waiter(
        model=request.model,
        priority=request.level.label,
        client=request.client,
        waited_seconds=round(now - request.arrived, 3),
        preempted=request.preempted,
    )


def _loaded(record: records.Record) -> status.Loaded:
    return status.Loaded(
        name=records.name(record), bytes=records.size(record), vram_bytes=records.size(record, "size_vram")
    )


def _sets(host: Host) -> list[status.SetState]:
    residency = host.residency
    return [
        status.SetState(
            name=one.name,
            models=[member.name for member in one.members],
            state="Out"
            if residency is None or one.name not in residency.active
            else "Loaded"
            if residency.complete(one.name)
            else "Changing",
        )
        for one in host.backend.sets
    ]


def _running(host: Host) -> list[status.Running]:
    counts = Counter((model, run.request.level) for model, runs in host.running.items() for run in runs.values())
    return [
        status.Running(model=model, priority=level.label, count=count)
        for (model, level), count in sorted(counts.items())
    ]
