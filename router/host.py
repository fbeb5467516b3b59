"""One backend as the scheduler keeps it: what it is, what runs there, and whether there is room for one more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from crds.gpubackend import Capability, Preemption
from router.ageing import Turns
from router.priority import Level
from router.reservation import Durations, Reservation
from router.residency import LoadableSet, Residency
from router.waiting import SlotRequest

# A slow start that has come so far is over.
_FULL = 1 << 16
_CAN = frozenset(Capability)
_URGENT = Level.P1
"""This level and those above keep a reservation alive."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What the scheduler knows of a backend; normalised model names, bytes and seconds."""

    name: str
    gpu: bool = True
    num_parallel: int = 1
    available: bool = True
    """Healthy, circuit not open, not draining."""
    models: frozenset[str] | None = None
    """What it can serve; None before a probe has succeeded."""
    loaded: frozenset[str] = frozenset()
    """What is in its memory."""
    expected: bool = False
    """One that is not available comes back, as far as is known: it does not drain."""
    tripped: frozenset[str] = frozenset()
    """Models that get no request for now, because they failed again and again."""
    cautious: frozenset[str] = frozenset()
    """Models that get one request at a time, which shows whether they work again."""
    capabilities: frozenset[Capability] = _CAN
    openai: bool = False
    """It speaks OpenAI's API alone: nothing of /api may go there, its models are always ready, it is never reserved."""
    pool: str = "default"
    weight: int = 1
    """A backend of weight 2 takes twice as many requests as one of weight 1."""
    max_loaded: int = 1 << 30
    """Models in its memory at once."""
    max_in_flight: int = 1 << 30
    """Requests at once, over all models."""
    vram: int | None = None
    sets: tuple[LoadableSet, ...] = ()
    """Model sets whose loading the router does itself; empty: the server loads what it is asked for."""
    durations: Durations = field(default_factory=Durations)
    keep_alive: int = 2100
    """What the models of its sets are kept in memory for after a request."""
    preemption: Preemption = Preemption.BEFORE_FIRST_BYTE


@dataclass(slots=True)
class Run:
    """A request that runs. `began` turns True when the first byte of its answer is about to be sent."""

    request: SlotRequest
    host: Host
    started: float
    began: bool = False
    victim: bool = False
    """It is being preempted; its slot is not free yet."""
    company: bool = False
    """Another request ran there at some time while it did."""


class Owned(NamedTuple):
    """What the router decides about a model in its clients' stead: seconds and tokens."""

    keep_alive: int
    num_ctx: int | None
    model_set: str


class Host:
    """Outlives its backend while something runs there: when that comes back under its name, what runs still counts."""

    __slots__ = (
        "_ramp",
        "_served",
        "backend",
        "gone",
        "known",
        "limit",
        "load",
        "owned",
        "reservation",
        "residency",
        "running",
        "single",
        "turns",
        "urgent",
        "used",
    )

    def __init__(self, backend: Backend) -> None:
        self.running: dict[str, dict[int, Run]] = {}
        self.load = 0
        self.single: Run | None = None
        """The run that has had the backend to itself until now."""
        self.turns = Turns()
        self.urgent = 0
        """Requests of the levels that keep a reservation alive."""
        self.used = float("-inf")
        """When a request last began or ended."""
        self.gone: dict[str, float] = {}
        """Models that it has and cannot serve now, "" for all of them, by the moment since when."""
        self.reservation: Reservation | None = None
        self.residency: Residency | None = None
        self.backend = backend
        self.known = backend.models or frozenset()
        """Its models, as it last listed them: one with a new address has not been asked yet."""
        self.owned = _owned(backend)
        self.limit = backend.num_parallel
        """Requests at once for each model: `num_parallel`, or less while it starts slowly."""
        self._ramp = _FULL
        self._served = 0

    def update(self, backend: Backend) -> None:
        """The backend changed. One that comes back starts with one request a model, then two, then four."""
        if backend.available and not self.backend.available and self.backend.models is not None:
            self._ramp, self._served = 1, 0
        self.backend = backend
        if backend.models is not None:
            self.known = backend.models
        self.owned = _owned(backend)
        self.limit = min(backend.num_parallel, self._ramp)

    def missed(self, now: float, *, there: bool) -> None:
        """Note what it cannot serve from `now` on, and forget what it can serve again. `there`: it was available until
        now; one that never was is not waited for."""
        backend = self.backend
        away = not backend.available and backend.expected and (there or "" in self.gone)
        gone = backend.tripped | {""} if away else backend.tripped
        if gone or self.gone:
            self.gone = {model: self.gone.get(model, now) for model in gone}

    def returns(self, model: str, now: float, grace: float) -> bool:
        """It cannot serve the model now and is expected to soon: it could `grace` seconds ago."""
        if model not in self.known:
            return False
        since = [self.gone[key] for key in ("", model) if key in self.gone]
        return bool(since) and now - min(since) < grace and (self.backend.available or self.backend.expected)

    def due_back(self, now: float, grace: float) -> bool:
        """It is away as a whole, and was there `grace` seconds ago."""
        return "" in self.gone and now - self.gone[""] < grace and self.backend.expected

    def room(self, model: str) -> bool:
        """Is a slot free for that model, and the model where it can be used?"""
        backend, slots = self.backend, self.running.get(model)
        if slots is None:
            if self.residency is None and len(self.running) >= backend.max_loaded:
                return False
        elif len(slots) >= (self.limit if model not in backend.cautious else 1):
            return False
        return self.load < backend.max_in_flight and (self.residency is None or self.residency.warm(model))

    def crowded(self, model: str) -> bool:
        """Would the model have room, if fewer models were in use?"""
        full = self.residency is None and model not in self.running and len(self.running) >= self.backend.max_loaded
        return full and self.load < self.backend.max_in_flight

    def full(self) -> bool:
        """Are as many models in use as may be, so that others may be waiting for one of them to go?"""
        return self.residency is None and len(self.running) >= self.backend.max_loaded

    def obstacles(self, model: str) -> list[list[Run]]:
        """What takes the model's place: when every run of one of these groups has ended, a slot is free for it. None
        when no run is in its way."""
        own, others = self.running.get(model), self.running.values()
        if own is not None and len(own) >= self.limit:
            return [[run] for run in own.values()]
        if own is None and self.full():
            return [list(runs.values()) for runs in others]
        if self.load >= self.backend.max_in_flight and (self.residency is None or self.residency.warm(model)):
            return [[run] for runs in others for run in runs.values()]
        return []

    def start(self, request: SlotRequest, now: float) -> Run:
        """A request takes a slot (or none, when it is not metered)."""
        run = Run(request, self, now)
        if self.load:
            run.company = True
            if self.single is not None:
                self.single.company, self.single = True, None
        else:
            self.single = run
        self.load += 1
        self.used = now
        if request.level <= _URGENT:
            self.urgent += 1
            self._renew(request.level, now)
        if request.metered:
            slots = self.running.get(request.model)
            if slots is None:
                slots = self.running[request.model] = {}
            slots[request.id] = run
        return run

    def end(self, run: Run, now: float) -> None:
        """It gives its slot back."""
        request = run.request
        self.load -= 1
        if self.single is run:
            self.single = None
        self.used = now
        if request.level <= _URGENT:
            self.urgent -= 1
            self._renew(request.level, now)
        if request.metered:
            slots = self.running[request.model]
            del slots[request.id]
            if not slots:
                del self.running[request.model]
        if self._ramp < _FULL:
            self._served += 1
            if self._served >= self.limit:
                self._ramp, self._served = self._ramp * 2, 0
                self.limit = min(self.backend.num_parallel, self._ramp)

    def _renew(self, level: Level, now: float) -> None:
        """An urgent request began or ended: a reservation is in use."""
        if self.reservation is not None:
            self.reservation.active = now
            if level is Level.P0:
                self.reservation.until = max(self.reservation.until, now + self.backend.durations.longest)

    def has(self, model: str) -> bool:
        """Is the model in its memory, as far as is known?"""
        return model in self.backend.loaded or model in self.running

    def runs(self, models: Iterable[str]) -> list[Run]:
        """What runs there on those models."""
        return [run for model in models for run in self.running.get(model, {}).values()]


def _owned(backend: Backend) -> dict[str, Owned]:
    return {
        member.name: Owned(backend.keep_alive, member.num_ctx, one.name)
        for one in reversed(backend.sets)
        for member in one.members
    }
