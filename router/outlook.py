"""What would happen to a request that came now: the scheduler's own decisions, without their effects."""

from __future__ import annotations

from typing import NamedTuple

from router.effects import Reason
from router.fleet import Fleet, Route, Unfit
from router.host import Host
from router.queue import Queue
from router.selection import Selection, by_preference
from router.waiting import SlotRequest


class Prospect(NamedTuple):
    """What a host means for a request that would come now."""

    host: Host
    unfit: Unfit | None
    """Why it cannot serve it at all."""
    admitted: bool
    """It may go there, if a slot is free."""
    later: bool
    """It may go there now or once it is due."""


class Outlook:
    """The read side of `scheduler.Scheduler`."""

    def __init__(self, fleet: Fleet, queue: Queue, selection: Selection) -> None:
        self._fleet, self._queue, self._selection = fleet, queue, selection

    def outlook(self, request: SlotRequest, now: float) -> tuple[Host | Reason | None, list[Prospect]]:
        """What `Scheduler.offered` would do with a metered request: run it on a host, refuse it, or let it wait (None).
        And what each host means for it. Nothing changes."""
        route = self._fleet.route(self._fleet.key(request), now)
        return self._fate(request, route, now), self.prospects(request, now)

    def prospects(self, request: SlotRequest, now: float) -> list[Prospect]:
        """What each host means for a request."""
        key = self._fleet.key(request)
        route = self._fleet.route(key, now)
        prospects = []
        for host in self._fleet.hosts.values():
            unfit = self._fleet.unfit(host, key, now)
            fit = unfit is None
            admitted = fit and self._fleet.admits(host, route, request)
            later = fit and self._fleet.admits(host, route, request, due=True)
            prospects.append(Prospect(host, unfit, admitted, later))
        return prospects

    def _fate(self, request: SlotRequest, route: Route, now: float) -> Host | Reason | None:
        """The decisions of `Scheduler.offered`, with the request in the queue for a moment only."""
        if route.key not in self._queue.lines:
            host = self._selection.backend(request, route)
            if host is not None:
                return host
        if (reason := self._selection.refusal(request, route, now)) is not None:
            return reason
        place = self._queue.place(request)
        if isinstance(place, Reason):
            return place
        self._queue.push(request)
        hosts = by_preference([host for host in route.hosts if host.room(request.model)], request.model)
        found = next((host for host in hosts if self._selection.waiter(host, now)[0] is request), None)
        self._queue.remove(request)
        return found
