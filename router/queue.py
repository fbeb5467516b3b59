"""Everybody who waits: the lines, how many and how much may wait, and for how long.

When the queue is full a newcomer who is more urgent than the least urgent waiter takes the place of the youngest of
those: whoever matters most is never refused for the sake of background work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from router.ageing import Ageing
from router.effects import Reason
from router.priority import Level
from router.waiting import Key, Line, Request


@dataclass(frozen=True, slots=True)
class Bounds:
    """`count` and `size` (bytes of bodies) over all waiters, `per_client` waiters of one client, `deadlines` in seconds
    of waiting by `Level`."""

    count: int = 20_000
    size: int = 1 << 30
    per_client: int = 10_000
    deadlines: tuple[float, float, float, float, float] = (600.0, 900.0, 1800.0, 1800.0, 3600.0)


@dataclass(slots=True)
class Queue:
    """Lines by what they wait for; no line is empty."""

    ageing: Ageing = field(default_factory=Ageing)
    bounds: Bounds = field(default_factory=Bounds)
    lines: dict[Key, Line] = field(default_factory=dict)
    size: int = 0
    _order: tuple[OrderedDict[int, Request], ...] = field(default_factory=lambda: tuple(OrderedDict() for _ in Level))
    _clients: dict[str, int] = field(default_factory=dict)
    _by_id: dict[int, Request] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Request]:
        """By level, roughly by arrival."""
        for order in self._order:
            yield from order.values()

    def find(self, request_id: int) -> Request | None:
        """The waiter of that id."""
        return self._by_id.get(request_id)

    def refusal(self, request: Request) -> Reason | None:
        """Why it may not wait; None when there is a place."""
        if self._clients.get(request.client, 0) >= self.bounds.per_client:
            return Reason.CLIENT_QUEUE_FULL
        if len(self) >= self.bounds.count or self.size + request.size > self.bounds.size:
            return Reason.QUEUE_FULL
        return None

    def shed(self, level: Level) -> Request | None:
        """Who makes room for a newcomer of `level`: the youngest of the least urgent, if they are less urgent."""
        for below in reversed(Level):
            if below <= level:
                return None
            if self._order[below]:
                return next(reversed(self._order[below].values()))
        return None

    def push(self, request: Request) -> Line:
        """It waits. Who came back stands before the others of its level when deadlines are looked at."""
        key = Key(request.model, request.need)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(self.ageing)
        line.push(request)
        self._by_id[request.id] = request
        self._order[request.level][request.id] = request
        if request.returned:
            self._order[request.level].move_to_end(request.id, last=False)
        self._clients[request.client] = self._clients.get(request.client, 0) + 1
        self.size += request.size
        return line

    def remove(self, request: Request) -> None:
        """It leaves without being served."""
        key = Key(request.model, request.need)
        self.lines[key].remove(request)
        self._gone(key, request)

    def take(self, request: Request) -> None:
        """It is served."""
        key = Key(request.model, request.need)
        self.lines[key].take(request)
        self._gone(key, request)

    def late(self, now: float) -> Iterator[Request]:
        """Who has waited for too long. Take all of them before the first one is removed."""
        for level, order in zip(Level, self._order, strict=True):
            for request in order.values():
                if request.arrived + self.bounds.deadlines[level] > now:
                    break
                yield request

    def _gone(self, key: Key, request: Request) -> None:
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
