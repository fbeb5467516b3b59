"""Who gets which backend, and when: events in, effects out.

Rules of this module and of those it is put together from (`waiting`, `queue`, `host`, `fleet`, `allotment` and what
that stands on): synchronous, no I/O, no clock, no await; called from one event loop only, so they need no lock. Every
event carries the time in seconds of one monotonic clock and returns effects, which `dispatch` carries out.

Late binding: at most `num_parallel` requests per model run on a backend, the rest wait here, because Ollama's own queue
is first come first served and would turn priorities into fiction. Who may go where is decided in `fleet`, who
comes first in `waiting` and `selection`, which GPU holds what and for whom in `allotment`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crds.gpubackend import Capability
from router import preemption
from router.affinity import Affinity
from router.ageing import Ageing
from router.allotment import Allotment
from router.effects import Cancel, Dispatch, Effect, Held, Load, Reason, Refuse, Unload, WriteStatus
from router.fleet import Fleet, Route
from router.host import Backend, Host, Owned, Run
from router.outlook import Outlook
from router.priority import Level
from router.queue import Queue, QueueBounds
from router.reservation import Answer, Reservation
from router.residency import LoadableSet, Member, Patience
from router.selection import Selection, by_preference
from router.swaps import Pace
from router.waiting import Key, SlotRequest

_NOTHING: list[Effect] = []


class Scheduler:
    """The book of slots. Backends are set by `reconfigured`; there are none before."""

    def __init__(
        self,
        *,
        ageing: Ageing | None = None,
        bounds: QueueBounds | None = None,
        pace: Pace | None = None,
        patience: Patience | None = None,
        grace: float = 0.0,
        affinity: Affinity | None = None,
    ) -> None:
        """`grace`: seconds for which requests wait for a backend that went away, see `Fleet.awaited`."""
        self._fleet = Fleet(patience, grace)
        self._queue = Queue(ageing or Ageing(), bounds or QueueBounds(), key=self._fleet.key)
        self._allotment = Allotment(self._fleet, self._queue, pace or Pace())
        self._running: dict[int, Run] = {}
        self.affinity = affinity or Affinity()
        self._selection = Selection(self._fleet, self._queue, self.affinity)
        view = Outlook(self._fleet, self._queue, self._selection)
        self.outlook, self.prospects = view.outlook, view.prospects

    # Requests.

    def offered(self, request: SlotRequest, now: float) -> list[Effect]:
        """A request arrives, or comes back because its backend failed or it gave way. Without a Dispatch or a Refuse
        for it among the effects, it waits."""
        route = self._fleet.route_of(request, now)
        if not request.metered:
            return self._pass(request, route, now)
        if route.key not in self._queue.lines:
            host = self._selection.backend(request, route)
            if host is not None:
                return self._grant(request, host, now)
        if (request.avoid or not route.hosts) and (reason := self._selection.refusal(request, route, now)) is not None:
            return [Refuse(request, reason)]
        return self._enqueue(request, route, now)

    def began(self, request_id: int) -> bool:
        """The first byte of an answer is about to be sent. False: the request was preempted a moment ago, send
        nothing. This is the one place where that is decided."""
        run = self._running.get(request_id)
        if run is None:
            return True
        if run.victim:
            return False
        run.began = True
        return True

    def alone(self, request_id: int) -> bool:
        """Has nothing else run on the backend since the running request began? Not: on its model, because two names may
        stand for one runner."""
        run = self._running.get(request_id)
        return run is not None and not run.company

    def released(self, request_id: int, now: float) -> list[Effect]:
        """A running request ended. KeyError for a request that does not run."""
        run = self._running.pop(request_id)
        host = run.host
        host.end(run, now)
        if not host.load:
            self._fleet.ended(host)
        if not run.request.metered:
            return _NOTHING
        effects: list[Effect] = []
        if host.residency is not None and host.residency.moving:
            effects += self._allotment.advance(host, now)
        if self._queue.lines:
            effects += self._fill(host, now)
            effects += self._react(now)
        return effects

    def withdrawn(self, request_id: int, now: float) -> list[Effect]:
        """The client hung up, whether its request waits or runs; nothing happens when it is neither."""
        request = self._queue.find(request_id)
        if request is None:
            return self.released(request_id, now) if request_id in self._running else _NOTHING
        self._queue.remove(request)
        return _NOTHING

    # Backends.

    def reconfigured(
        self, backends: Iterable[Backend], now: float, cpu_allowed: Callable[[str], bool] | None = None
    ) -> list[Effect]:
        """Backends came, went or changed, /api/ps included."""
        before, foreign = {name: host.reservation for name, host in self._fleet.hosts.items()}, self._fleet.foreign
        fresh = self._fleet.configure(backends, cpu_allowed, now)
        if self._fleet.foreign != foreign:
            self._queue.regroup()
        self.affinity.configure(len(self._fleet.hosts))
        effects = self._allotment.forget({n: held for n, held in before.items() if n not in self._fleet.hosts})
        for host in fresh:
            effects += self._allotment.settle(host, now)
        for host in self._fleet.hosts.values():
            effects += self._allotment.advance(host, now)
        return effects + self._fill_all(now) + self._react(now) + self._purge(now)

    def loaded(self, backend: str, model: str, now: float, error: str = "") -> list[Effect]:
        """A Load was carried out and /api/ps shows the model, or `error` says why not."""
        host = self._fleet.hosts.get(backend)
        if host is None:
            return _NOTHING
        effects = self._allotment.loaded(host, model, error, now) + self._fill_all(now)
        return effects + (self._purge(now) if error else []) + self._react(now)

    def unloaded(self, backend: str, model: str, now: float) -> list[Effect]:
        """An Unload was carried out and /api/ps has lost the model."""
        host = self._fleet.hosts.get(backend)
        return _NOTHING if host is None else self._allotment.unloaded(host, model, now)

    def restored(self, backend: str, held: Held) -> None:
        """A GpuBackend's status tells of a reservation from before a restart."""
        self._allotment.restore(backend, held)

    # Reservations.

    def announced(
        self, owner: str, model: str, lease_id: str, fresh_id: str, now: float, *, spare_only: bool = False
    ) -> tuple[Answer, list[Effect]]:
        """An orchestrator wants a GPU. `model` is a normalised name or empty, `lease_id` renews, `fresh_id` is the id
        of a new reservation, which a `spare_only` one gets only where it is in nothing's way. One that is not ready yet
        is followed by an Announced."""
        answer, effects = self._allotment.announced(owner, model, lease_id, fresh_id, now, spare_only=spare_only)
        if answer.reservation is not None:
            answer = answer._replace(idle=self._fleet.hosts[answer.reservation.backend].backend.durations.idle)
        return answer, effects + self._fill_all(now)

    def unreserved(self, owner: str, lease_id: str, now: float) -> tuple[Answer, list[Effect]]:
        """An orchestrator gives its GPU back."""
        answer, effects = self._allotment.released(owner, lease_id, now)
        return answer, effects + self._fill_all(now) + self._react(now)

    # Time.

    def ticked(self, now: float) -> list[Effect]:
        """To be called every second or so: deadlines, the ends of reservations, changes of sets that are due."""
        effects: list[Effect] = []
        for request in list(self._queue.late(now)):
            self._queue.remove(request)
            effects.append(Refuse(request, Reason.DEADLINE))
        effects += self._allotment.tick(now)
        missing = self._fleet.missing
        self._fleet.tick(now)
        if missing:
            effects += self._purge(now)  # those who waited for one that has been away for too long by now
        return effects + self._fill_all(now) + self._react(now)

    # Questions.

    def possible(self, request: SlotRequest, now: float) -> bool:
        """Is there an available backend, with or without a free slot, that may serve the request?"""
        return self._fleet.possible(request, now)

    def waiting(self) -> Iterable[SlotRequest]:
        """The requests that wait."""
        return self._queue

    def in_flight(self, backend: str) -> int:
        """Requests that run on a backend, metered or not."""
        return self._fleet.load(backend)

    def owns(self, backend: str, model: str) -> Owned | None:
        """What the router decides about a model in its clients' stead; None for a model that it does not own."""
        host = self._fleet.hosts.get(backend)
        return None if host is None else host.owned.get(model)

    def line(self, request: SlotRequest) -> Key:
        """Those with an equal one wait in one line."""
        return self._fleet.key(request)

    def hosts(self) -> Iterable[Host]:
        """Every backend with what runs there, for reports; not to be changed."""
        return self._fleet.hosts.values()

    # Inside.

    def _pass(self, request: SlotRequest, route: Route, now: float) -> list[Effect]:
        """A question about a model takes no slot and waits for none."""
        able = [h for h in route.able if h.backend.name not in request.avoid]
        if not able:
            return [Refuse(request, Reason.EXHAUSTED if route.able else self._fleet.why_not(request))]
        return self._grant(request, min(able, key=lambda h: (not h.backend.gpu, h.load, h.backend.name)), now)

    def _enqueue(self, request: SlotRequest, route: Route, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if place := self._queue.place(request):
            if isinstance(place, Reason):
                return [Refuse(request, place)]
            for loser in place:
                self._queue.remove(loser)
                effects.append(Refuse(loser, Reason.QUEUE_FULL))
        self._queue.push(request)
        for host in by_preference([host for host in route.hosts if host.room(request.model)], request.model):
            effects += self._fill(host, now)
        if self._queue.find(request.id) is None:
            return effects
        if request.level is Level.P0:
            effects += self._preempt(request.model, route, now)
        return effects + self._react(now)

    def _preempt(self, model: str, route: Route, now: float) -> list[Effect]:
        """A P0 waits for a slot: for each of them one background request is preempted, or the requests of one model."""
        obstacles = (group for host in route.gpus for group in host.obstacles(model))
        # What cannot give way frees no slot.
        groups = [group for group in obstacles if preemption.clears(group) or preemption.leaving(group)]
        victims = preemption.choose(groups)
        if not victims:
            return _NOTHING
        needed = 0
        for key, line in self._queue.lines.items():
            waits = line.waits(Level.P0)
            if waits and self._shares(groups, key.model == model, model, self._fleet.route(key, now)):
                needed += waits
        for group in groups:
            needed -= preemption.leaving(group)
        return preemption.cancel(victims) if needed > 0 else _NOTHING

    def _shares(self, groups: list[list[Run]], same: bool, model: str, route: Route) -> bool:
        """Do these groups stand in the way of that route's requests too? Those of the model itself only in the way of
        the model's own lines (`same`)."""
        return any((same or group[0].request.model != model) and group[0].host in route.gpus for group in groups)

    def _grant(self, request: SlotRequest, host: Host, now: float, promoted: bool = False) -> list[Effect]:
        run = self._running[request.id] = host.start(request, now)
        if request.metered:
            host.turns.count(request.level, promoted)
        if request.session and len(self._fleet.route(self._fleet.key(request), now).hosts) > 1:
            self.affinity.ran(request.session, host.backend.name)
        effects: list[Effect] = [Dispatch(request, host.backend.name)]
        if host.residency is not None and request.level is Level.P0 and request.need is not Capability.EMBED:
            effects += self._allotment.urgent(run, now)
        elif self._fleet.managed and not host.backend.gpu and request.metered:
            gpus = self._fleet.route(self._fleet.key(request), now).gpus
            effects += self._allotment.missed(request.model, gpus, now) if gpus else _NOTHING
        return effects

    def _fill(self, host: Host, now: float) -> list[Effect]:
        """Give the host's free slots to those who wait, the most urgent first."""
        effects: list[Effect] = []
        while True:
            best, promoted = self._selection.waiter(host, now)
            if best is None:
                break
            if not host.room(best.model):
                # The host has as many models in use as it may; a more urgent request waits for another one. No request
                # begins until one of them is out of use.
                break
            self._queue.take(best)
            effects += self._grant(best, host, now, promoted)
        return effects

    def _fill_all(self, now: float) -> list[Effect]:
        """Something changed that may let waiters run on any host, be it the time."""
        if not self._queue.lines:
            return _NOTHING
        hosts = sorted(self._fleet.hosts.values(), key=lambda host: not host.backend.gpu)
        return [effect for host in hosts for effect in self._fill(host, now)]

    def _react(self, now: float) -> list[Effect]:
        if not (self._fleet.managed and self._queue.lines):
            return _NOTHING
        return self._allotment.consider(now)

    def _purge(self, now: float) -> list[Effect]:
        """Refuse the requests that no backend can serve any more."""
        effects: list[Effect] = []
        for key, line in list(self._queue.lines.items()):
            route = self._fleet.route(key, now)
            for request in list(line) if not route.hosts else [r for r in line if r.avoid]:
                if not self._fleet.possible(request, now) and not self._fleet.awaited(request, now):
                    self._queue.remove(request)
                    reason = Reason.EXHAUSTED if route.hosts else self._fleet.why_not(request)
                    effects.append(Refuse(request, reason))
        return effects


__all__ = [
    "Backend", "Scheduler", "SlotRequest", "Level", "Reason", "Dispatch", "Refuse", "Cancel", "Load", "Unload",
    "WriteStatus",
    "Held", "Reservation", "Answer", "LoadableSet", "Member", "Effect", "QueueBounds", "Ageing", "Pace", "Owned",
]  # fmt: skip
