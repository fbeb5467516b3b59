"""The line of requests that wait for the same thing (a model, and a capability of its backend).

Order: by level; inside a level the clients take turns; of one client's requests the oldest goes first. A request that
came back (its backend failed, or it gave way to a more urgent one) goes before the others of its level. The line also
names its requests that are due (`ageing`); which of several lines has the next turn is decided by `selection`. Joining,
leaving anywhere and looking at the next one cost O(1).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from crds.gpubackend import Capability
from router.priority import Level

_LEVELS = tuple(Level)
EVERY_LEVEL = (1 << len(_LEVELS)) - 1


def mask(*levels: Level) -> int:
    """A set of levels as bits."""
    return sum(1 << level for level in levels)


class SlotRequest(NamedTuple):
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
    session: int = 0
    """The conversation that it belongs to (`affinity.session`), 0 for none."""

    ollama: bool = True
    """It came by /api, which OpenAI servers do not have."""

    @property
    def returned(self) -> bool:
        """It had a slot before: it stands before the others of its level."""
        return bool(self.avoid or self.preempted or self.lost)


class Key(NamedTuple):
    """What a line waits for."""

    model: str
    need: Capability | None
    ollama: bool = False
    """An OpenAI server has the model and cannot serve this, because it came by /api."""


class _Lane:
    """One level: by arrival, and by clients that take turns."""

    __slots__ = ("_clients", "_order")

    def __init__(self) -> None:
        self._order: OrderedDict[int, SlotRequest] = OrderedDict()
        self._clients: OrderedDict[str, OrderedDict[int, SlotRequest]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[SlotRequest]:
        return iter(self._order.values())

    def push(self, request: SlotRequest) -> None:
        self._order[request.id] = request
        own = self._clients.get(request.client)
        if own is None:
            own = self._clients[request.client] = OrderedDict()
        own[request.id] = request

    def next(self) -> SlotRequest | None:
        """The oldest request of the client whose turn it is."""
        if not self._clients:
            return None
        return next(iter(next(iter(self._clients.values())).values()))

    def oldest(self) -> SlotRequest | None:
        return next(iter(self._order.values())) if self._order else None

    def remove(self, request: SlotRequest, *, served: bool) -> None:
        """It leaves; a client that was served stands at the end of the turns."""
        del self._order[request.id]
        own = self._clients[request.client]
        del own[request.id]
        if not own:
            del self._clients[request.client]
        elif served:
            self._clients.move_to_end(request.client)


class Line:
    """Requests for one `Key`. `due` says from which moment a request of a level goes before its level."""

    __slots__ = ("_due", "_fresh", "_returned", "_size", "returned", "soonest")

    def __init__(self, due: Callable[[Level, float], float]) -> None:
        self._due = due
        self._fresh = tuple(_Lane() for _ in _LEVELS)
        self._returned: tuple[OrderedDict[int, SlotRequest], ...] = tuple(OrderedDict() for _ in _LEVELS)
        self._size = 0
        self.returned = 0
        """How many came back."""
        self.soonest = float("inf")
        """Before this moment no request is due; it may be too early, never too late."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[SlotRequest]:
        for returned, fresh in zip(self._returned, self._fresh, strict=True):
            yield from returned.values()
            yield from fresh

    def push(self, request: SlotRequest) -> None:
        """To the end of its level, or, when it came back, to the end of those of its level that did."""
        self._size += 1
        self.soonest = min(self.soonest, self._due(request.level, request.arrived))
        if request.returned:
            self._returned[request.level][request.id] = request
            self.returned += 1
        else:
            self._fresh[request.level].push(request)

    def remove(self, request: SlotRequest) -> None:
        """It hung up. KeyError if it is not here."""
        self._drop(request, served=False)

    def take(self, request: SlotRequest) -> None:
        """It is served."""
        self._drop(request, served=True)

    def usual(self, admitted: int, suits: Callable[[SlotRequest], bool]) -> SlotRequest | None:
        """The next one by level. `admitted` are the levels that may go (a set of bits); `suits` is asked for requests
        that came back: they are few, and each has its own backends to avoid."""
        for level in _LEVELS:
            for request in self._returned[level].values():
                if suits(request):
                    return request
            if admitted >> level & 1 and (found := self._fresh[level].next()) is not None:
                return found
        return None

    def due(self, now: float, admitted: int, suits: Callable[[SlotRequest], bool]) -> list[SlotRequest]:
        """The oldest of each level that are due by now. The arguments are for requests that are due."""
        found = []
        self.soonest = float("inf")
        for request in self._oldest():
            moment = self._due(request.level, request.arrived)
            self.soonest = min(self.soonest, moment)
            if moment <= now and (suits(request) if request.returned else admitted >> request.level & 1):
                found.append(request)
        return found

    def waits(self, level: Level) -> int:
        """How many of a level."""
        return len(self._fresh[level]) + len(self._returned[level])

    def oldest(self) -> float:
        """When the first of them arrived. The line must not be empty."""
        return min(request.arrived for request in self._oldest())

    def demand(self) -> tuple[Level, float]:
        """(the most urgent level, the earliest moment at which a request is due). The line must not be empty."""
        best = min(level for level in _LEVELS if self.waits(level))
        return best, min(self._due(r.level, r.arrived) for r in self._oldest())

    def _oldest(self) -> Iterator[SlotRequest]:
        for level in _LEVELS:
            if (request := self._fresh[level].oldest()) is not None:
                yield request
            if self._returned[level]:
                yield next(iter(self._returned[level].values()))

    def _drop(self, request: SlotRequest, *, served: bool) -> None:
        if request.returned:
            del self._returned[request.level][request.id]
            self.returned -= 1
        else:
            self._fresh[request.level].remove(request, served=served)
        self._size -= 1
