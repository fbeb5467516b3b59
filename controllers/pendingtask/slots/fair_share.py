"""A wait queue in which clients take turns and every waiter is called eventually. Deterministic; no clock, no I/O.

Foreground before Background, then `queuePosition`. Among waiters of one position clients take turns: first the client
that holds the fewest places, then the one whose last turn is longest ago. Within a client: tasks that are assigned to
the team, then age. While a Background waiter has aged (`aged_before`), every fourth place goes to an aged waiter of any
position; aged waiters take turns by client too, within a client the longest waiting first.

The order depends on the waiters, the places that clients hold, and each client's last turn. Only the last turns are not
in the objects: after a restart they are derived from the current runs.

`enter`, `leave` and `call` of one waiter cost O(log n). A waiter costs one entry in two heaps and one in a dict: the
heaps hold the waiters themselves, and a waiter that left stays in them until it comes first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from controllers.queue import Ranked
from crds.order import Order

AGED_EVERY = 4
"""One of this many places goes to an aged waiter, while one waits."""
MOST_CLIENTS = 10_000
"""Largest number of clients whose last turn is stored. A dropped client counts as one without a turn."""

_BACKGROUND = 1
_NEVER = -1
_Place = tuple[int, int, tuple[Any, ...], str]


class Waiter(NamedTuple):
    """Smaller comes first within a client. `since`: start of the wait, in seconds since the epoch."""

    order: Order
    since: int
    uid: str


class Turns:
    """The last turn of each client, as a running number."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._count = 0

    def took(self, client: str) -> None:
        """Record a place for the client."""
        self._last.pop(client, None)
        self._count += 1
        self._last[client] = self._count
        if len(self._last) > MOST_CLIENTS:
            del self._last[next(iter(self._last))]

    def known(self) -> dict[str, int]:
        """All stored last turns."""
        return dict(self._last)

    def last(self, client: str) -> int:
        """Larger is later; smallest for a client without a turn."""
        return self._last.get(client, _NEVER)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the order depends on besides the waiters: places and last turn by client, ageing.

    `since_aged` is `WaitQueue.since_aged`.
    """

    held: Mapping[str, int] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    since_aged: int = 0
    aged_before: float = float("-inf")


def arrange(waiters: Iterable[Waiter], standing: Standing) -> list[str]:
    """The order in which a `WaitQueue` calls the waiters if each keeps its place; computed at once, in O(n log n)."""
    held, last, since_aged = Counter(standing.held), standing.last, standing.since_aged
    groups: dict[tuple[int, int], dict[str, list[Waiter]]] = {}
    aged: dict[str, list[Waiter]] = {}
    for one in waiters:
        groups.setdefault(one.order[:2], {}).setdefault(one.order.client, []).append(one)
        if one.order.lane == _BACKGROUND and one.since < standing.aged_before:
            aged.setdefault(one.order.client, []).append(one)
    gone: set[str] = set()
    out: list[str] = []

    def heap(lines: dict[str, list[Waiter]], rank: Callable[[Waiter], tuple[Any, ...]]) -> list[_Place]:
        for line in lines.values():
            line.sort(key=rank, reverse=True)
        made = [(held[client], last.get(client, _NEVER), rank(line[-1]), client) for client, line in lines.items()]
        heapq.heapify(made)
        return made

    def first(
        places: list[_Place], lines: dict[str, list[Waiter]], rank: Callable[[Waiter], tuple[Any, ...]]
    ) -> Waiter | None:
        """Keys only grow while waiters leave, so an outdated key is detected at the top of the heap."""
        while places:
            client, line = places[0][3], lines[places[0][3]]
            while line and line[-1].uid in gone:
                line.pop()
            if not line:
                heapq.heappop(places)
                continue
            now = (held[client], last.get(client, _NEVER), rank(line[-1]), client)
            if now == places[0]:
                return line[-1]
            heapq.heapreplace(places, now)
        return None

    old = heap(aged, _by_age)
    for position in sorted(groups):
        places = heap(groups[position], _by_order)
        while (chosen := first(places, groups[position], _by_order)) is not None:
            longest = first(old, aged, _by_age)
            if longest is not None:
                due = since_aged >= AGED_EVERY - 1
                chosen, since_aged = (longest, 0) if due else (chosen, since_aged + 1)
            gone.add(chosen.uid)
            held[chosen.order.client] += 1
            out.append(chosen.uid)
    return out


def _by_order(one: Waiter) -> tuple[Any, ...]:
    return one.order[2:]


def _by_age(one: Waiter) -> tuple[Any, ...]:
    return (one.since, *one.order)


_ByAge = tuple[int, Waiter]
"""(Waiter.since, the waiter)"""
T = TypeVar("T", Waiter, _ByAge)


class _Heap(Generic[T]):
    """Waiters, the first at hand. `waits` says whether an entry still counts; `live` is the number of those that do."""

    __slots__ = ("_entries", "_waits", "live")

    def __init__(self, waits: Callable[[T], bool]) -> None:
        self._entries: list[T] = []
        self._waits: Callable[[T], bool] = waits
        self.live = 0

    def put(self, entry: T) -> None:
        """Add an entry, which counts already."""
        self.live += 1
        heapq.heappush(self._entries, entry)
        if len(self._entries) > 2 * self.live + 64:
            self._entries = [one for one in self._entries if self._waits(one)]
            heapq.heapify(self._entries)

    def left(self) -> None:
        """One entry does not count any more."""
        self.live -= 1

    def peek(self) -> T | None:
        """The first entry; None when empty."""
        while self._entries and not self._waits(self._entries[0]):
            heapq.heappop(self._entries)
        return self._entries[0] if self._entries else None


@dataclass(slots=True)
class _Group(Generic[T]):
    """Waiters of one position, or the aged ones, by client. `clients` is filled while the group is `current`."""

    lines: dict[str, _Heap[T]]
    clients: Ranked[str]
    current: bool = False


class WaitQueue:
    """The waiters for one kind of place. The group that is called from is `current`."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns or Turns()
        self.since_aged = 0
        """Places given since the last aged waiter got one, counted while an aged waiter waits."""
        self._waiters: dict[str, Waiter] = {}
        self._groups: dict[tuple[int, int], _Group[Waiter]] = {}
        self._positions: Ranked[tuple[int, int]] = Ranked()
        self._front: tuple[int, int] | None = None
        self._young: _Heap[_ByAge] = _Heap(lambda one: self._waits(one[1]) and one[1].uid not in self._old)
        self._aged: _Group[_ByAge] = _Group({}, Ranked(), current=True)
        self._old: set[str] = set()
        """The waiters of `_aged`; the other Background ones are in `_young`."""
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiters

    def waiters(self) -> list[Waiter]:
        """All waiters, unordered."""
        return list(self._waiters.values())

    def _waits(self, waiter: Waiter) -> bool:
        """Whether it neither left nor was moved."""
        return self._waiters.get(waiter.uid) is waiter

    def enter(self, waiter: Waiter) -> None:
        """Add a waiter, or move it."""
        order, since, uid = waiter
        if self._waiters.get(uid) == waiter:
            return
        self.leave(uid)
        self._waiters[uid] = waiter
        position = order[:2]
        group = self._groups.get(position)
        if group is None:
            group = self._groups[position] = _Group({}, Ranked())
            self._positions.put(position, position)
        group.lines.setdefault(order.client, _Heap(self._waits)).put(waiter)
        self._place(group, order.client)
        if order.lane == _BACKGROUND:
            self._young.put((since, waiter))

    def leave(self, uid: str) -> None:
        """Remove a waiter."""
        waiter = self._waiters.pop(uid, None)
        if waiter is None:
            return
        position = waiter.order[:2]
        group = self._groups[position]
        self._part(group, waiter.order.client)
        if not group.lines:
            del self._groups[position]
            self._positions.discard(position)
            if self._front == position:
                self._front = None
        if uid in self._old:
            self._old.discard(uid)
            self._part(self._aged, waiter.order.client)
        elif waiter.order.lane == _BACKGROUND:
            self._young.left()

    def next_to_age(self, aged_before: float) -> int | None:
        """Start of wait of the Background waiter that ages next; None without one."""
        self._age(aged_before)
        first = self._young.peek()
        return None if first is None else first[0]

    def aged(self, aged_before: float) -> bool:
        """Whether a Background waiter has waited since before that time."""
        self._age(aged_before)
        return bool(self._aged.lines)

    def call(
        self, count: int, held: Mapping[str, int], aged_before: float, *, aged_only: bool = False
    ) -> list[tuple[str, Order]]:
        """Remove and return the next `count` waiters, in order. `held`: places by client, including called waiters."""
        self._hold(held)
        self._age(aged_before)
        called: list[tuple[str, Order]] = []
        while len(called) < count and self._waiters:
            due = bool(self._aged.lines) and self.since_aged >= AGED_EVERY - 1
            if aged_only and not self._aged.lines:
                break
            aged = due or aged_only
            client, waiter = self._first_aged() if aged else self._first()
            if self._aged.lines:
                self.since_aged = 0 if aged else self.since_aged + 1
            self.leave(waiter.uid)
            self._held[client] += 1
            self._rank(client)
            called.append((waiter.uid, waiter.order))
        return called

    def took(self, client: str) -> None:
        """Record a place for the client: its next turn comes after those of other clients."""
        self.turns.took(client)
        self._rank(client)

    def _first(self) -> tuple[str, Waiter]:
        position = _peek(self._positions)
        group = self._groups[position]
        if self._front != position:
            if self._front is not None and self._front in self._groups:
                self._groups[self._front].current = False
            self._front, group.current, group.clients = position, True, Ranked()
            for client in group.lines:
                self._place(group, client)
        client = _peek(group.clients)
        waiter = group.lines[client].peek()
        assert waiter is not None
        return client, waiter

    def _first_aged(self) -> tuple[str, Waiter]:
        client = _peek(self._aged.clients)
        entry = self._aged.lines[client].peek()
        assert entry is not None
        return client, entry[1]

    def _hold(self, held: Mapping[str, int]) -> None:
        changed = [client for client in {*self._held, *held} if self._held[client] != held.get(client, 0)]
        self._held = Counter({client: number for client, number in held.items() if number})
        for client in changed:
            self._rank(client)

    def _age(self, aged_before: float) -> None:
        while (first := self._young.peek()) is not None and first[0] < aged_before:
            client = first[1].order.client
            self._old.add(first[1].uid)
            self._young.left()
            self._aged.lines.setdefault(client, _Heap(self._waits_aged)).put(first)
            self._place(self._aged, client)

    def _waits_aged(self, entry: _ByAge) -> bool:
        return self._waits(entry[1])

    def _part(self, group: _Group[T], client: str) -> None:
        """A waiter of the client left the group."""
        line = group.lines[client]
        line.left()
        if not line.live:
            del group.lines[client]
        self._place(group, client)

    def _rank(self, client: str) -> None:
        """Update the client's position after a change of its places or its last turn."""
        self._place(self._aged, client)
        if self._front is not None and self._front in self._groups:
            self._place(self._groups[self._front], client)

    def _place(self, group: _Group[T], client: str) -> None:
        if not group.current:
            return
        line = group.lines.get(client)
        first = None if line is None else line.peek()
        if first is None:
            group.clients.discard(client)
            return
        group.clients.put(client, (self._held[client], self.turns.last(client), first))


def _peek(ranked: Ranked[Any]) -> Any:
    first = ranked.peek()
    assert first is not None
    return first[0]
