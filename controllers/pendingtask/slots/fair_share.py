"""A wait queue in which clients take turns and no waiter waits for ever. Deterministic; no clock, no I/O.

Foreground before Background, then `queuePosition`. Among waiters of one position clients take turns: first the client
that holds the fewest places, then the one whose last turn is longest ago. Within a client: what is assigned to us, then
age. While a Background waiter has aged (`aged_before`), every fourth place goes to an aged one, whatever its position;
aged waiters take turns by client as well, the one that has waited longest first within its client.

What decides is the set of waiters, the places that clients hold, and when each client had its last turn. Only the last
is not in the objects: after a restart it is taken from the runs that are under way.

Entering, leaving and calling one waiter cost O(log n).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controllers.queue import Ranked
from crds.order import Order

AGED_EVERY = 4
"""Of so many places one goes to an aged waiter, while there is one."""
MOST_CLIENTS = 10_000
"""Whose last turn is remembered. A client that is forgotten counts as one that had no turn yet."""

_BACKGROUND = 1
_NEVER = -1
_Place = tuple[int, int, tuple[Any, ...], str]


class Waiter(NamedTuple):
    """`since`: when it began to wait, in seconds since the epoch."""

    uid: str
    order: Order
    since: int


class Turns:
    """When each client had its last turn, as a count of turns."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._count = 0

    def took(self, client: str) -> None:
        """The client got a place."""
        self._last.pop(client, None)
        self._count += 1
        self._last[client] = self._count
        if len(self._last) > MOST_CLIENTS:
            del self._last[next(iter(self._last))]

    def known(self) -> dict[str, int]:
        """All that are remembered."""
        return dict(self._last)

    def last(self, client: str) -> int:
        """The larger the later; smallest for a client without one."""
        return self._last.get(client, _NEVER)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the order of waiters depends on besides themselves: places by client, the last turn of each, ageing.

    `since_aged` is that of the queue.
    """

    held: Mapping[str, int] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    since_aged: int = 0
    aged_before: float = float("-inf")


def arrange(waiters: Iterable[Waiter], standing: Standing) -> list[str]:
    """The order in which a `WaitQueue` calls them when each keeps its place; made at once, in O(n log n)."""
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
        """Keys only grow while waiters go, so an outdated one is noticed when it comes up."""
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
            waits_long = first(old, aged, _by_age)
            if waits_long is not None:
                due = since_aged >= AGED_EVERY - 1
                chosen, since_aged = (waits_long, 0) if due else (chosen, since_aged + 1)
            gone.add(chosen.uid)
            held[chosen.order.client] += 1
            out.append(chosen.uid)
    return out


def _by_order(one: Waiter) -> tuple[Any, ...]:
    return one.order[2:]


def _by_age(one: Waiter) -> tuple[Any, ...]:
    return (one.since, *one.order)


@dataclass(slots=True)
class _Group:
    """Waiters of one position, or the aged ones, by client. `clients` is filled for a group that is called from."""

    lines: dict[str, Ranked[str]]
    clients: Ranked[str]
    current: bool = False


class WaitQueue:
    """Who waits for one kind of place."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns or Turns()
        self.since_aged = 0
        """Places given since the last aged one, while one waited."""
        self._waiters: dict[str, Waiter] = {}
        self._groups: dict[tuple[int, int], _Group] = {}
        self._positions: Ranked[tuple[int, int]] = Ranked()
        self._front: tuple[int, int] | None = None
        self._young: Ranked[str] = Ranked()  # Background, by the time that they wait; aged ones leave it
        self._aged = _Group({}, Ranked(), current=True)
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiters

    def waiters(self) -> list[Waiter]:
        """All, in no order."""
        return list(self._waiters.values())

    def enter(self, uid: str, order: Order, since: int) -> None:
        """Wait, or wait in another place."""
        waiter = Waiter(uid, order, since)
        if self._waiters.get(uid) == waiter:
            return
        self.leave(uid)
        self._waiters[uid] = waiter
        position = order[:2]
        group = self._groups.get(position)
        if group is None:
            group = self._groups[position] = _Group({}, Ranked())
            self._positions.put(position, position)
        self._join(group, waiter, _by_order(waiter))
        if order.lane == _BACKGROUND:
            self._young.put(uid, (since, order))

    def leave(self, uid: str) -> None:
        """Not waiting any more."""
        waiter = self._waiters.pop(uid, None)
        if waiter is None:
            return
        position = waiter.order[:2]
        group = self._groups[position]
        self._part(group, waiter)
        if not group.lines:
            del self._groups[position]
            self._positions.discard(position)
            if self._front == position:
                self._front = None
        self._young.discard(uid)
        self._part(self._aged, waiter)

    def next_to_age(self, aged_before: float) -> int | None:
        """Since when the Background waiter that ages next has waited; None when there is none."""
        self._age(aged_before)
        first = self._young.peek()
        return None if first is None else int(first[1][0])

    def aged(self, aged_before: float) -> bool:
        """Has a Background waiter waited since before that time?"""
        self._age(aged_before)
        return bool(self._aged.lines)

    def call(
        self, count: int, held: Mapping[str, int], aged_before: float, *, aged_only: bool = False
    ) -> list[tuple[str, Order]]:
        """Take out the next `count`, in order; `held`: places by client, those of called ones included."""
        self._hold(held)
        self._age(aged_before)
        called: list[tuple[str, Order]] = []
        while len(called) < count and self._waiters:
            due = bool(self._aged.lines) and self.since_aged >= AGED_EVERY - 1
            if aged_only and not self._aged.lines:
                break
            group = self._aged if due or aged_only else self._first()
            client = _peek(group.clients)
            waiter = self._waiters[_peek(group.lines[client])]
            if self._aged.lines:
                self.since_aged = 0 if group is self._aged else self.since_aged + 1
            self.leave(waiter.uid)
            self._held[client] += 1
            self._rank(client)
            called.append((waiter.uid, waiter.order))
        return called

    def took(self, client: str) -> None:
        """The client got a place: its next turn comes after those of the others."""
        self.turns.took(client)
        self._rank(client)

    def _first(self) -> _Group:
        position = _peek(self._positions)
        group = self._groups[position]
        if self._front != position:
            if self._front is not None and self._front in self._groups:
                self._groups[self._front].current = False
            self._front, group.current, group.clients = position, True, Ranked()
            for client in group.lines:
                self._place(group, client)
        return group

    def _hold(self, held: Mapping[str, int]) -> None:
        changed = [client for client in {*self._held, *held} if self._held[client] != held.get(client, 0)]
        self._held = Counter({client: number for client, number in held.items() if number})
        for client in changed:
            self._rank(client)

    def _age(self, aged_before: float) -> None:
        while (first := self._young.peek()) is not None and first[1][0] < aged_before:
            self._young.discard(first[0])
            waiter = self._waiters[first[0]]
            self._join(self._aged, waiter, _by_age(waiter))

    def _join(self, group: _Group, waiter: Waiter, rank: tuple[Any, ...]) -> None:
        client = waiter.order.client
        group.lines.setdefault(client, Ranked()).put(waiter.uid, rank)
        self._place(group, client)

    def _part(self, group: _Group, waiter: Waiter) -> None:
        client = waiter.order.client
        line = group.lines.get(client)
        if line is None or waiter.uid not in line:
            return
        line.discard(waiter.uid)
        if not len(line):
            del group.lines[client]
        self._place(group, client)

    def _rank(self, client: str) -> None:
        """What decides about the client's turn has changed."""
        for group in (self._aged, None if self._front is None else self._groups.get(self._front)):
            if group is not None and client in group.lines:
                self._place(group, client)

    def _place(self, group: _Group, client: str) -> None:
        if not group.current:
            return
        line = group.lines.get(client)
        first = None if line is None else line.peek()
        if first is None:
            group.clients.discard(client)
            return
        group.clients.put(client, (self._held[client], self.turns.last(client), first[1]))


def _peek(ranked: Ranked[Any]) -> Any:
    first = ranked.peek()
    assert first is not None
    return first[0]
