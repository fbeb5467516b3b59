"""Which backend a request gets, and which waiter the next slot of a backend: the order among those that may.

Who may go where is decided in `fleet`, in which order clients and levels take turns in `waiting` and `ageing`. Nothing
changes here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from router.affinity import Affinity
from router.effects import Reason
from router.fleet import Fleet, Route
from router.host import Host
from router.queue import Queue
from router.waiting import Line, SlotRequest


def _unasked(request: SlotRequest, *, due: bool = False) -> bool:
    """For a line without requests that came back: only about those it asks."""
    raise AssertionError(request)


class Selection:
    """Reads the backends, the queue and where conversations ran."""

    def __init__(self, fleet: Fleet, queue: Queue, affinity: Affinity) -> None:
        self._fleet, self._queue, self._affinity = fleet, queue, affinity

    def backend(self, request: SlotRequest, route: Route) -> Host | None:
        """The best host with a free slot."""
        hosts = route.hosts
        if len(hosts) == 1:
            host = hosts[0]
            return host if self._free(host, request, route) else None
        free = [host for host in hosts if self._free(host, request, route)]
        if not free:
            return None
        if not request.session:
            return by_preference(free, request.model)[0]
        return _home(free, request.model, self._affinity.last(request.session), self._affinity.slack)

    def _free(self, host: Host, request: SlotRequest, route: Route) -> bool:
        if not host.room(request.model) or not self._fleet.admits(host, route, request):
            return False
        # Others wait for this backend because it holds as many models as it can: the queue decides.
        return not (self._queue.lines and host.full())

    def waiter(self, host: Host, now: float) -> tuple[SlotRequest | None, bool]:
        """Which waiter has the next slot of a host, over all models; True: because it is due."""
        usual: SlotRequest | None = None
        rank: tuple[int, bool, float] | None = None
        aged: list[tuple[Line, int, Callable[..., bool]]] = []
        ageing = self._queue.ageing
        for key, line in self._queue.lines.items():
            room = host.room(key.model)
            if not room and not host.crowded(key.model):
                continue
            route = self._fleet.route(key, now)
            if host not in route.hosts:
                continue
            admitted, later = self._fleet.levels(host, key, route.gpus)
            suits = partial(self._fleet.admits, host, route) if line.returned else _unasked
            found = line.usual(admitted, suits)
            if found is not None:
                standing = (int(found.level), not room, found.arrived)
                if rank is None or standing < rank:
                    usual, rank = found, standing
            if line.soonest <= now:
                aged.append((line, later, suits))
        if not aged or not host.turns.owed(ageing, usual):
            return usual, False
        due = [one for line, mask, suits in aged for one in line.due(now, mask, partial(suits, due=True))]
        promoted = host.turns.choose(due, ageing, usual)
        return (usual, False) if promoted is None else (promoted, True)

    def refusal(self, request: SlotRequest, route: Route, now: float) -> Reason | None:
        """Why no host can serve the request now or later."""
        if route.hosts and (not request.avoid or self._fleet.possible(request, now)):
            return None
        if request.metered and self._fleet.awaited(request, now):
            return None
        return Reason.EXHAUSTED if route.hosts else self._fleet.why_not(request)


def by_preference(hosts: list[Host], model: str) -> list[Host]:
    """GPU before CPU, loaded before not, then the one with less to do."""
    if len(hosts) > 1:
        hosts.sort(key=lambda h: (not h.backend.gpu, not h.has(model), h.load / h.backend.weight, h.backend.name))
    return hosts


def _home(hosts: list[Host], model: str, last: str, slack: float) -> Host:
    """The one for a turn of a conversation: as above, but `last`, where the last turn ran, may have as much as `slack`
    more to do. A new conversation goes to the one that has been idle for longest."""

    def standing(host: Host) -> tuple[bool, bool, float, bool, float, str]:
        name, load = host.backend.name, host.load / host.backend.weight
        stays = name == last
        return not host.backend.gpu, not host.has(model), load - slack if stays else load, not stays, host.used, name

    return min(hosts, key=standing)
