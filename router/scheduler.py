"""Who gets which backend, and when. Everything that decides about slots lives here.

Rules of this module: synchronous, no I/O, no clock, no await; called from one event loop only, so it needs no lock.
What follows from a decision (waking a request, refusing it) is done by `dispatch`.

Late binding: at most `num_parallel` requests per model run on a backend, the rest wait here, because Ollama's own queue
is first come first served and would turn priorities into fiction. GPUs come first. A CPU backend is used when no GPU
that serves the model is available, or when GPUs are full, the level may overflow and the model allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

from router import priority
from router.priority import Level
from router.waiting import Line, Request

_Key = TypeVar("_Key", str, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Backend:
    """What the scheduler knows of a backend; normalised model names."""

    name: str
    gpu: bool = True
    num_parallel: int = 1
    available: bool = True
    """Healthy, circuit not open, not draining."""
    models: frozenset[str] | None = None
    """What it can serve; None while nobody could ask it."""
    loaded: frozenset[str] = frozenset()


class Reason(StrEnum):
    """Why a request is refused."""

    NO_BACKEND = "NoBackend"
    UNAVAILABLE = "Unavailable"
    UNKNOWN_MODEL = "UnknownModel"
    EXHAUSTED = "Exhausted"
    QUEUE_FULL = "QueueFull"


class Granted(NamedTuple):
    """The request may run on `backend` until it is released."""

    request: Request
    backend: str


class Queued(NamedTuple):
    """The request waits; a later call returns its Granted or Refused."""

    request: Request


class Refused(NamedTuple):
    """The request cannot be served now (or, for UNKNOWN_MODEL, as it is)."""

    request: Request
    reason: Reason


Outcome = Granted | Refused


@dataclass(frozen=True, slots=True)
class _Route:
    gpus: tuple[Backend, ...]
    cpus: tuple[Backend, ...]
    overflow: bool


class Scheduler:
    """The book of slots.

    `cpu_allowed(model)` says whether a CPU may serve a model while a GPU is merely busy. `max_waiting` bounds the
    requests that wait over all models.
    """

    def __init__(
        self,
        backends: Iterable[Backend] = (),
        *,
        cpu_allowed: Callable[[str], bool] = lambda model: True,
        max_waiting: int = 20_000,
    ) -> None:
        self._max_waiting = max_waiting
        self._lines: dict[str, Line] = {}
        self._waiting: dict[int, Request] = {}
        self._running: dict[int, tuple[Request, str]] = {}
        # Kept for backends that went away too: when one comes back under its name, what still runs there counts.
        self._slots: dict[tuple[str, str], int] = {}
        self._load: dict[str, int] = {}
        self._backends: dict[str, Backend] = {b.name: b for b in backends}
        self._cpu_allowed = cpu_allowed
        self._routes: dict[str, _Route] = {}

    def offered(self, request: Request) -> Granted | Queued | Refused:
        """A request arrives (or comes back with one more backend to avoid)."""
        route = self._route(request.model)
        if not route.gpus and not route.cpus:
            return Refused(request, self._why_not(request.model))
        backend = self._choose(request, route)
        if backend is not None:
            return self._grant(request, backend)
        if request.avoid and not self._eligible(request, route):
            return Refused(request, Reason.EXHAUSTED)
        if len(self._waiting) >= self._max_waiting:
            return Refused(request, Reason.QUEUE_FULL)
        self._lines.setdefault(request.model, Line()).push(request)
        self._waiting[request.id] = request
        return Queued(request)

    def released(self, request_id: int) -> list[Granted]:
        """A running request ended; returns who runs next. KeyError for a request that does not run."""
        request, backend = self._running.pop(request_id)
        _less(self._load, backend)
        if not request.metered:
            return []
        _less(self._slots, (backend, request.model))
        return list(self._fill(request.model)) if request.model in self._lines else []

    def withdrawn(self, request_id: int) -> list[Granted]:
        """The client hung up, whether its request waits or runs; nothing happens when it is neither."""
        request = self._waiting.pop(request_id, None)
        if request is None:
            return self.released(request_id) if request_id in self._running else []
        line = self._lines[request.model]
        line.remove(request)
        if not line:
            del self._lines[request.model]
        return []

    def reconfigured(
        self, backends: Iterable[Backend], cpu_allowed: Callable[[str], bool] | None = None
    ) -> list[Outcome]:
        """Backends came, went or changed; returns who may run now and who no longer can."""
        self._backends = {b.name: b for b in backends}
        if cpu_allowed is not None:
            self._cpu_allowed = cpu_allowed
        self._routes.clear()
        outcomes: list[Outcome] = []
        for model in list(self._lines):
            outcomes += self._fill(model)
            route = self._route(model)
            for request in list(self._lines.get(model, ())):
                if not self._eligible(request, route):
                    self.withdrawn(request.id)
                    served = route.gpus or route.cpus
                    outcomes.append(Refused(request, Reason.EXHAUSTED if served else self._why_not(model)))
        return outcomes

    def possible(self, request: Request) -> bool:
        """Is there an available backend, with or without a free slot, that may serve the request?"""
        return bool(self._eligible(request, self._route(request.model)))

    def waiting(self) -> Iterable[Request]:
        """Everybody in line, oldest first."""
        return self._waiting.values()

    def in_flight(self, backend: str) -> int:
        """Requests that run on a backend, metered or not."""
        return self._load.get(backend, 0)

    def _grant(self, request: Request, backend: Backend) -> Granted:
        self._running[request.id] = (request, backend.name)
        self._load[backend.name] = self._load.get(backend.name, 0) + 1
        if request.metered:
            key = (backend.name, request.model)
            self._slots[key] = self._slots.get(key, 0) + 1
        return Granted(request, backend.name)

    def _fill(self, model: str) -> Iterator[Granted]:
        """Give free slots of `model` to its line, GPUs first."""
        line = self._lines.get(model)
        if line is None:
            return
        route = self._route(model)
        for backend in (*route.gpus, *route.cpus):
            while line and self._free(backend, model):
                request = self._next(line, backend, route)
                if request is None:
                    break
                del self._waiting[request.id]
                yield self._grant(request, backend)
        if not line:
            del self._lines[model]

    def _next(self, line: Line, backend: Backend, route: _Route) -> Request | None:
        """Take the first request of the line that may run on this backend."""
        anyone = backend.gpu or not route.gpus
        return line.take(
            lambda level: anyone or (route.overflow and level in priority.OVERFLOW),
            lambda request: backend in self._eligible(request, route),
        )

    def _choose(self, request: Request, route: _Route) -> Backend | None:
        """The best backend with a free slot: GPU before CPU, loaded before not, then the one with less to do."""
        free = [b for b in self._eligible(request, route) if not request.metered or self._free(b, request.model)]
        if len(free) <= 1:
            return free[0] if free else None
        return min(
            free, key=lambda b: (not b.gpu, not self._has_loaded(b, request.model), self.in_flight(b.name), b.name)
        )

    def _eligible(self, request: Request, route: _Route) -> tuple[Backend, ...]:
        gpus, cpus = route.gpus, route.cpus
        if request.avoid:
            gpus = tuple(b for b in gpus if b.name not in request.avoid)
            cpus = tuple(b for b in cpus if b.name not in request.avoid)
        if not cpus or (gpus and not (route.overflow and request.level in priority.OVERFLOW)):
            return gpus
        return gpus + cpus

    def _free(self, backend: Backend, model: str) -> bool:
        # A request that names no model cannot occupy a runner: the backend will refuse it or answer from its files.
        return not model or self._slots.get((backend.name, model), 0) < backend.num_parallel

    def _has_loaded(self, backend: Backend, model: str) -> bool:
        return model in backend.loaded or (backend.name, model) in self._slots

    def _route(self, model: str) -> _Route:
        route = self._routes.get(model)
        if route is None:
            able = [b for b in self._backends.values() if b.available and (not model or model in (b.models or ()))]
            route = _Route(
                gpus=tuple(b for b in able if b.gpu),
                cpus=tuple(b for b in able if not b.gpu),
                overflow=self._cpu_allowed(model),
            )
            # Only what somebody serves is remembered: other names come from clients and have no end.
            if able:
                self._routes[model] = route
        return route

    def _why_not(self, model: str) -> Reason:
        if not self._backends:
            return Reason.NO_BACKEND
        unasked = any(b.models is None for b in self._backends.values())
        known = not model or any(model in (b.models or ()) for b in self._backends.values())
        return Reason.UNAVAILABLE if known or unasked else Reason.UNKNOWN_MODEL


def _less(counts: dict[_Key, int], key: _Key) -> None:
    """One less; a key at zero goes, since names come and go."""
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]


__all__ = ["Backend", "Granted", "Level", "Outcome", "Queued", "Reason", "Refused", "Request", "Scheduler"]
