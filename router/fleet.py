"""All backends, and who may serve what: the routes.

GPUs come first. A CPU backend serves a model beside GPUs only where a GpuBackend allows it (`cpuAllowed`), or when no
GPU serves that model at all; then it takes background requests that find the GPUs busy, embeddings of any level, and
all requests when no GPU is available or all of them are reserved for other models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import chain

from crds.gpubackend import Capability
from router import priority
from router.effects import Reason
from router.host import Backend, Host
from router.priority import Level
from router.residency import Patience, Residency
from router.waiting import EVERY_LEVEL, Key, SlotRequest, mask

_OVERFLOW = mask(*priority.OVERFLOW)
# Whom a reserved GPU serves. The others may go there once they are due.
_BESIDE_RESERVATION = mask(Level.P0, Level.P1, Level.P2)


@dataclass(frozen=True, slots=True)
class Route:
    """Hosts that may serve `key` now, slots aside. `able` are all that have the model, for questions about it."""

    key: Key
    gpus: tuple[Host, ...]
    able: tuple[Host, ...]
    hosts: tuple[Host, ...]


class Unfit(Enum):
    """Why a host cannot serve a `Key` at all."""

    UNKNOWN_MODELS = auto()
    """No probe could ask it for its models yet."""
    NO_MODEL = auto()
    OTHER_API = auto()
    """It speaks OpenAI's API, and the request came by /api."""
    AWAY = auto()
    INCAPABLE = auto()
    TRIPPED = auto()
    """Requests for the model failed there in a row, or it is busy."""
    BROKEN = auto()
    """The model could not be loaded there, again and again."""
    CPU_NOT_ALLOWED = auto()
    """A GPU has the model, and no GpuBackend allows a CPU for it."""


class Fleet:
    """Hosts by name. `cpu_allowed(model)` says whether a CPU may serve a model that a GPU serves as well."""

    def __init__(self, patience: Patience | None = None, grace: float = 0.0) -> None:
        """`grace`: seconds for which requests wait for a backend that went away."""
        self._grace = grace
        self.hosts: dict[str, Host] = {}
        self.managed = False
        """Is there a GPU whose memory the router owns?"""
        self.foreign: frozenset[str] = frozenset()
        """Models of OpenAI servers, and "" for anything that names none; empty without such a server."""
        self._gone: dict[str, Host] = {}
        # A Key is equal to the tuple of its parts, which is made in a tenth of the time.
        self._routes: dict[tuple[str, Capability | None, bool], Route] = {}
        self._patience = patience
        self._cpu_allowed: Callable[[str], bool] = lambda model: False

    def configure(
        self, backends: Iterable[Backend], cpu_allowed: Callable[[str], bool] | None, now: float
    ) -> list[Host]:
        """Backends came, went or changed. Returns the GPUs that are there for the first time (again): those that decide
        about their memory themselves when they are available, the others when their memory was looked at."""
        if cpu_allowed is not None:
            self._cpu_allowed = cpu_allowed
        before, self.hosts, fresh = self._gone | self.hosts, {}, []
        for backend in backends:
            host = before.pop(backend.name, None)
            there = host is not None and host.backend.available
            if host is None:
                host = Host(backend)
            else:
                host.update(backend)
            host.missed(now, there=there)
            self.hosts[backend.name] = host
            opened = self._remember(host, now)
            if opened or (host.residency is None and backend.gpu and backend.available and not there):
                fresh.append(host)
        for host in before.values():
            host.residency, host.reservation = None, None
            there = host.backend.available
            host.update(replace(host.backend, available=False))
            host.missed(now, there=there)
        self.managed = any(host.residency is not None for host in self.hosts.values())
        openai = [host.backend.models or frozenset() for host in self.hosts.values() if host.backend.openai]
        self.foreign = frozenset({""}).union(*openai) if openai else frozenset()
        self._gone = before
        self.tick(now)
        return fresh

    def tick(self, now: float) -> None:
        """Time has passed: what was removed is forgotten when nothing runs there and nobody waits for it any more; an
        object may be replaced by deleting it first. A model that could not be loaded may be tried again by now."""
        self._gone = {name: host for name, host in self._gone.items() if host.load or host.due_back(now, self._grace)}
        self.forget_routes()

    @property
    def missing(self) -> bool:
        """Is there something that cannot serve now and is waited for?"""
        return any(host.gone for host in chain(self.hosts.values(), self._gone.values()))

    def forget_routes(self) -> None:
        """Something changed that routes depend on."""
        self._routes.clear()

    def ended(self, host: Host) -> None:
        """A request ended there: a backend that is gone is forgotten with its last one."""
        if not (host.load or host.gone) and self._gone.get(host.backend.name) is host:
            del self._gone[host.backend.name]

    def load(self, name: str) -> int:
        """Requests that run on a backend, whether it still exists or not."""
        host = self.hosts.get(name) or self._gone.get(name)
        return host.load if host is not None else 0

    def key(self, request: SlotRequest) -> Key:
        """What it waits for. Both APIs of one model share a line, unless an OpenAI server has the model too."""
        return Key(request.model, request.need, request.ollama and request.model in self.foreign)

    def route(self, key: Key, now: float) -> Route:
        """Who may serve it."""
        found = self._routes.get(key)
        return found if found is not None else self._find(key, now)

    def route_of(self, request: SlotRequest, now: float) -> Route:
        """Who may serve that request."""
        found = self._routes.get((request.model, request.need, request.ollama and request.model in self.foreign))
        return found if found is not None else self._find(self.key(request), now)

    def levels(self, host: Host, key: Key, gpus: Iterable[Host]) -> tuple[int, int]:
        """The rule of who may go to a host that is fit, slots aside: levels (as bits) that may now, and levels that may
        once they are due. `gpus` are those of the route that may serve the request too."""
        if host.backend.gpu:
            return EVERY_LEVEL if host.reservation is None else _BESIDE_RESERVATION, EVERY_LEVEL
        if key.need is Capability.EMBED or all(closed(gpu, key.model) for gpu in gpus):
            return EVERY_LEVEL, EVERY_LEVEL
        return _OVERFLOW, _OVERFLOW

    def admits(self, host: Host, route: Route, request: SlotRequest, *, due: bool = False) -> bool:
        """May this host of the route serve this request, slots aside, now or once it is `due`?"""
        avoid, gpus = request.avoid, route.gpus
        if host.backend.gpu and host.reservation is None:  # as `levels` says, and nearly always so
            return not avoid or host.backend.name not in avoid
        if avoid:
            if host.backend.name in avoid:
                return False
            gpus = tuple(gpu for gpu in gpus if gpu.backend.name not in avoid)
        return bool(self.levels(host, route.key, gpus)[due] >> request.level & 1)

    def possible(self, request: SlotRequest, now: float) -> bool:
        """Is there a host, free or not, that may serve the request now or later?"""
        route = self.route_of(request, now)
        if not request.metered:
            return any(host.backend.name not in request.avoid for host in route.able)
        return any(self.admits(host, route, request, due=True) for host in route.hosts)

    def unfit(self, host: Host, key: Key, now: float) -> Unfit | None:
        """Why a host cannot serve that at all, None if it can. What is busy or reserved is fit."""
        backend, (model, need, ollama) = host.backend, key
        if model and model not in (backend.models or ()):
            return Unfit.UNKNOWN_MODELS if backend.models is None else Unfit.NO_MODEL
        if ollama and backend.openai:
            return Unfit.OTHER_API
        if not backend.available:
            return Unfit.AWAY
        if need is not None and need not in backend.capabilities:
            return Unfit.INCAPABLE
        if model in backend.tripped:
            return Unfit.TRIPPED
        if host.residency is not None and host.residency.broken(model, now):
            return Unfit.BROKEN
        if backend.gpu or not model or self._cpu_allowed(model):
            return None
        return Unfit.CPU_NOT_ALLOWED if self._on_gpu(model, ollama=ollama) else None

    def _on_gpu(self, model: str, *, ollama: bool) -> bool:
        """Does a GPU serve it, by the API that is asked for?"""
        return any(
            host.backend.gpu and model in (host.backend.models or ()) and not (ollama and host.backend.openai)
            for host in self.hosts.values()
        )

    def awaited(self, request: SlotRequest, now: float) -> bool:
        """Whether a backend that may serve it is expected back. A server that starts again is waited for."""
        model, need = request.model, request.need
        on_cpu = self._cpu_allowed(model) or not self._on_gpu(model, ollama=request.ollama)
        return any(
            host.returns(model, now, self._grace)
            and host.backend.name not in request.avoid
            and (need is None or need in host.backend.capabilities)
            and (host.backend.gpu or on_cpu)
            and not (request.ollama and host.backend.openai)
            for host in chain(self.hosts.values(), self._gone.values())
            if host.gone
        )

    def why_not(self, request: SlotRequest) -> Reason:
        """Why no backend may serve it."""
        backends = [host.backend for host in self.hosts.values()]
        if not backends:
            return Reason.NO_BACKEND
        model, need = request.model, request.need
        having = [b for b in backends if not model or model in (b.models or ())]
        if not having:
            return Reason.UNAVAILABLE if any(b.models is None for b in backends) else Reason.UNKNOWN_MODEL
        if request.ollama and all(b.openai for b in having):
            asked = all(b.openai or b.models is not None for b in backends)
            return Reason.OTHER_API if asked else Reason.UNAVAILABLE
        if need is not None and not any(need in b.capabilities for b in having):
            return Reason.INCAPABLE
        return Reason.UNAVAILABLE

    def _find(self, key: Key, now: float) -> Route:
        why = [(host, self.unfit(host, key, now)) for host in self.hosts.values()]
        absent = (Unfit.UNKNOWN_MODELS, Unfit.NO_MODEL, Unfit.OTHER_API, Unfit.AWAY)
        able = tuple(host for host, unfit in why if unfit not in absent)
        gpus = tuple(host for host, unfit in why if unfit is None and host.backend.gpu)
        cpus = tuple(host for host, unfit in why if unfit is None and not host.backend.gpu)
        route = Route(key, gpus, able, gpus + cpus)
        # Only models that a backend serves are remembered: other names come from clients and have no end.
        if able:
            self._routes[key] = route
        return route

    def _remember(self, host: Host, now: float) -> bool:
        """Bring the book of its memory up to date; True when it was opened just now."""
        backend = host.backend
        if not (backend.gpu and backend.sets):
            host.residency = None
            return False
        book = host.residency
        if book is None:
            book = host.residency = Residency(
                backend.name,
                backend.sets,
                vram=backend.vram,
                max_loaded=backend.max_loaded,
                keep_alive=backend.keep_alive,
                patience=self._patience,
            )
        else:
            book.configure(
                backend.sets, vram=backend.vram, max_loaded=backend.max_loaded, keep_alive=backend.keep_alive
            )
        if not backend.available:
            book.lost()
            return False
        if not book.known:
            book.adopt(backend.loaded, now)
            return True
        book.seen(backend.loaded, host.running.__contains__)
        return False


def closed(gpu: Host, model: str) -> bool:
    """Is the GPU reserved, and not for that model? Then who needs it may use a CPU, at any level."""
    reservation, book = gpu.reservation, gpu.residency
    if reservation is None or book is None or book.means(model):
        return False
    return model not in book.names([reservation.model_set] if reservation.model_set else [])
