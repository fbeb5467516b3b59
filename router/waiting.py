"""The line of requests that wait for the same thing (a model, and a capability of its backend).

Order: by level; inside a level the clients take turns; of one client's requests the oldest goes first. A request that
came back (its backend failed, or it gave way to a more urgent one) goes before the others of its level. A request that
is due (`ageing`) may go before all of them. Joining, leaving anywhere and looking at the next one cost O(1).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from crds.gpubackend import Capability
from router.ageing import Ageing
from router.priority import Level

_LEVELS = tuple(Level)
EVERY_LEVEL = (1 << len(_LEVELS)) - 1


def mask(*levels: Level) -> int:
    """A set of levels as bits."""
    return sum(1 << level for level in levels)


class Request(NamedTuple):
    """What the scheduler knows of a request. `arrived` is in seconds of the caller's clock."""

    id: int
    model: str
    level: Level
    arrived: float = 0.0
    avoid: frozenset[str] = frozenset()
    """Backends that already failed this request."""
    metered: bool = True
    """False for questions about a model (`/api/show`) that take no slot."""
    need: Capability | None = None
    """What its backend must be able to do; None for anything."""
    client: str = ""
    """Whose turn it is, in fairness between clients."""
    size: int = 0
    """Bytes of its body, which wait with it."""
    preempted: int = 0
    """How often it gave way before."""
    lost: int = 0
    """How often a backend ended, or could not be reached, while it had the request."""

    @property
    def returned(self) -> bool:
        """It had a slot before: it stands before the others of its level."""
        return bool(self.avoid or self.preempted or self.lost)


class Key(NamedTuple):
    """What a line waits for."""

    model: str
    need: Capability | None


class _Lane:
    """One level: by arrival, and by clients that take turns."""

    __slots__ = ("_clients", "_order")

    def __init__(self) -> None:
        self._order: OrderedDict[int, Request] = OrderedDict()
        self._clients: OrderedDict[str, OrderedDict[int, Request]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._order.values())

    def push(self, request: Request) -> None:
        self._order[request.id] = request
        own = self._clients.get(request.client)
        if own is None:
            own = self._clients[request.client] = OrderedDict()
        own[request.id] = request

    def next(self) -> Request | None:
        """The oldest request of the client whose turn it is."""
        if not self._clients:
            return None
        return next(iter(next(iter(self._clients.values())).values()))

    def oldest(self) -> Request | None:
        return next(iter(self._order.values())) if self._order else None

    def remove(self, request: Request, *, served: bool) -> None:
        """It leaves; a client that was served stands at the end of the turns."""
        del self._order[request.id]
        own = self._clients[request.client]
        del own[request.id]
        if not own:
            del self._clients[request.client]
        elif served:
            self._clients.move_to_end(request.client)


class Line:
    """Requests for one `Key`. The masks of `peek` are sets of levels: who may go, and who may once they are due."""

    __slots__ = ("_ageing", "_fresh", "_last", "_promoted", "_returned", "_size", "_soonest", "_turns")

    def __init__(self, ageing: Ageing) -> None:
        self._ageing = ageing
        self._fresh = tuple(_Lane() for _ in _LEVELS)
        self._returned: tuple[OrderedDict[int, Request], ...] = tuple(OrderedDict() for _ in _LEVELS)
        self._size = 0
        # Slots given since the last one to somebody due, and the turn at which each level got its last of those.
        self._turns = 0
        self._last = [0] * len(_LEVELS)
        self._promoted: Request | None = None
        # Before this moment nobody is due; it may be too early, never too late.
        self._soonest = float("inf")

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Request]:
        for returned, fresh in zip(self._returned, self._fresh, strict=True):
            yield from returned.values()
            yield from fresh

    def push(self, request: Request) -> None:
        """To the end of its level, or, when it came back, to the end of those of its level that did."""
        self._size += 1
        self._soonest = min(self._soonest, self._ageing.due(request.level, request.arrived))
        if request.returned:
            self._returned[request.level][request.id] = request
        else:
            self._fresh[request.level].push(request)

    def remove(self, request: Request) -> None:
        """It hung up. KeyError if it is not here."""
        self._drop(request, served=False)

    def take(self, request: Request) -> None:
        """It is served: what the last `peek` found."""
        if request is self._promoted:
            self._turns = 0
            self._last[request.level] = max(self._last) + 1
        else:
            self._turns += 1
        self._drop(request, served=True)

    def peek(self, now: float, admitted: int, aged: int, suits: Callable[[Request], bool]) -> Request | None:
        """Who goes next. `suits` is asked for requests that came back: they are few, and each has its own reasons."""
        usual, self._promoted = self._usual(admitted, suits), None
        if now < self._soonest or (usual is not None and self._turns + 1 < self._ageing.every):
            return usual
        self._promoted = self._due(now, aged, suits, usual)
        return self._promoted or usual

    def waits(self, level: Level) -> int:
        """How many of a level."""
        return len(self._fresh[level]) + len(self._returned[level])

    def demand(self) -> tuple[Level, float]:
        """(the most urgent level, the earliest moment at which somebody is due). The line must not be empty."""
        best = min(level for level in _LEVELS if self.waits(level))
        return best, min(self._ageing.due(r.level, r.arrived) for r in self._oldest())

    def _usual(self, admitted: int, suits: Callable[[Request], bool]) -> Request | None:
        for level in _LEVELS:
            for request in self._returned[level].values():
                if suits(request):
                    return request
            if admitted >> level & 1 and (found := self._fresh[level].next()) is not None:
                return found
        return None

    def _due(self, now: float, aged: int, suits: Callable[[Request], bool], usual: Request | None) -> Request | None:
        """Of the levels with somebody due, `usual`'s last, the one whose turn is longest ago; of it the oldest."""
        found: Request | None = None
        rank = (True, 0, 0.0)
        self._soonest = float("inf")
        for request in self._oldest():
            level, moment = request.level, self._ageing.due(request.level, request.arrived)
            self._soonest = min(self._soonest, moment)
            if moment > now or not aged >> level & 1:
                continue
            if request.returned and not suits(request):
                continue
            standing = (usual is not None and level == usual.level, self._last[level], moment)
            if found is None or standing < rank:
                found, rank = request, standing
        return found

    def _oldest(self) -> Iterator[Request]:
        for level in _LEVELS:
            if (request := self._fresh[level].oldest()) is not None:
                yield request
            if self._returned[level]:
                yield next(iter(self._returned[level].values()))

    def _drop(self, request: Request, *, served: bool) -> None:
        if request.returned:
            del self._returned[request.level][request.id]
        else:
            self._fresh[request.level].remove(request, served=served)
        self._size -= 1
