"""The waiting requests: the lines, how many and how much may wait, and for how long.

When the queue is full by count or by bytes, a more urgent request takes the places of less urgent ones: of the least
urgent first, and of those the youngest first. If all of them together would not be enough, none of them is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from router.ageing import Ageing
from router.effects import Reason
from router.priority import Level
from router.waiting import Key, Line, SlotRequest

_LEVELS = tuple(Level)


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """`count` and `size` (bytes of bodies) over all waiters, `per_client` waiters of one client, `deadlines` in seconds
    of waiting by `Level`."""

    count: int = 20_000
    size: int = 1 << 30
    per_client: int = 10_000
    deadlines: tuple[float, float, float, float, float] = (600.0, 900.0, 1800.0, 1800.0, 3600.0)


def _key(request: SlotRequest) -> Key:
    return Key(request.model, request.need)


@dataclass(slots=True)
class Queue:
    """Lines by what they wait for (`key`); no line is empty."""

    ageing: Ageing = field(default_factory=Ageing)
    bounds: QueueBounds = field(default_factory=QueueBounds)
    lines: dict[Key, Line] = field(default_factory=dict)
    size: int = 0
    key: Callable[[SlotRequest], Key] = _key
    _order: tuple[OrderedDict[int, SlotRequest], ...] = field(
        default_factory=lambda: tuple(OrderedDict() for _ in Level)
    )
    _clients: dict[str, int] = field(default_factory=dict)
    _by_id: dict[int, SlotRequest] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[SlotRequest]:
        """By level, roughly by arrival."""
        for order in self._order:
            yield from order.values()

    def find(self, request_id: int) -> SlotRequest | None:
        """The waiter of that id."""
        return self._by_id.get(request_id)

    def place(self, request: SlotRequest) -> Reason | list[SlotRequest]:
        """Why it may not wait, or the less urgent requests that have to leave for it; nothing changes."""
        bounds = self.bounds
        if self._clients.get(request.client, 0) >= bounds.per_client:
            return Reason.CLIENT_QUEUE_FULL
        count = len(self._by_id) + 1 - bounds.count
        size = self.size + request.size - bounds.size
        if count <= 0 and size <= 0:
            return []
        losers: list[SlotRequest] = []
        for level in reversed(_LEVELS[request.level + 1 :]):
            for other in reversed(self._order[level].values()):
                if count > 0 or other.size:
                    losers.append(other)
                    count, size = count - 1, size - other.size
                    if count <= 0 and size <= 0:
                        return losers
        return Reason.QUEUE_FULL

    def push(self, request: SlotRequest) -> Line:
        """It waits. Who came back stands before the others of its level when deadlines are looked at."""
        line = self._line(request)
        line.push(request)
        self._by_id[request.id] = request
        self._order[request.level][request.id] = request
        if request.returned:
            self._order[request.level].move_to_end(request.id, last=False)
        self._clients[request.client] = self._clients.get(request.client, 0) + 1
        self.size += request.size
        return line

    def regroup(self) -> None:
        """`key` tells other lines apart than before. Turns of clients begin anew."""
        waiters = sorted((one for line in self.lines.values() for one in line), key=lambda one: one.arrived)
        self.lines.clear()
        for request in waiters:
            self._line(request).push(request)

    def _line(self, request: SlotRequest) -> Line:
        key = self.key(request)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(self.ageing.due)
        return line

    def remove(self, request: SlotRequest) -> None:
        """It leaves without being served."""
        key = self.key(request)
        self.lines[key].remove(request)
        self._gone(key, request)

    def take(self, request: SlotRequest) -> None:
        """It is served."""
        key = self.key(request)
        self.lines[key].take(request)
        self._gone(key, request)

    def late(self, now: float) -> Iterator[SlotRequest]:
        """Who has waited for too long. Take all of them before the first one is removed."""
        for level, order in zip(Level, self._order, strict=True):
            for request in order.values():
                if request.arrived + self.bounds.deadlines[level] > now:
                    break
                yield request

    def _gone(self, key: Key, request: SlotRequest) -> None:
        if not self.lines[key]:
            del self.lines[key]
        del self._by_id[request.id]
        del self._order[request.level][request.id]
        left = self._clients[request.client] - 1
        if left:
            self._clients[request.client] = left
        else:
            del self._clients[request.client]
        self.size -= request.size
