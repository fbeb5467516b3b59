"""A wait queue in which clients take turns and every waiter is called eventually. Deterministic; no clock, no I/O.

Foreground before Background, then `queuePosition`. Among waiters of one position clients take turns: first the client
that holds the fewest places, then the one whose last turn is longest ago. Within a client: tasks that are assigned to
the team, then age. While a Background waiter has aged (`aged_before`), every fourth place goes to an aged waiter of any
position; aged waiters take turns by client too, within a client the longest waiting first.

The order depends on the waiters, the places that clients hold, and each client's last turn. Only the last turns are not
in the objects: after a restart they are derived from the current runs.

`enter`, `leave` and `call` of one waiter cost O(log n).
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
"""One of this many places goes to an aged waiter, while one waits."""
MOST_CLIENTS = 10_000
"""Largest number of clients whose last turn is stored. A dropped client counts as one without a turn."""

_BACKGROUND = 1
_NEVER = -1
_Place = tuple[int, int, tuple[Any, ...], str]


class Waiter(NamedTuple):
    """`since`: start of the wait, in seconds since the epoch."""

    uid: str
    order: Order
    since: int


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


@dataclass(slots=True)
class _Group:
    """Waiters of one position, or the aged ones, by client. `clients` is filled while the group is `current`."""

    lines: dict[str, Ranked[str]]
    clients: Ranked[str]
    current: bool = False


class WaitQueue:
    """The waiters for one kind of place. The group that is called from is `current`."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns or Turns()
        self.since_aged = 0
        """Places given since the last aged waiter got one, counted while an aged waiter waits."""
        self._waiters: dict[str, Waiter] = {}
        self._groups: dict[tuple[int, int], _Group] = {}
        self._positions: Ranked[tuple[int, int]] = Ranked()
        self._front: tuple[int, int] | None = None
        self._young: Ranked[str] = Ranked()  # Background waiters by start of wait, without the aged
        self._aged = _Group({}, Ranked(), current=True)
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiters

    def waiters(self) -> list[Waiter]:
        """All waiters, unordered."""
        return list(self._waiters.values())

    def enter(self, uid: str, order: Order, since: int) -> None:
        """Add a waiter, or move it."""
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
        """Remove a waiter."""
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
        """Start of wait of the Background waiter that ages next; None without one."""
        self._age(aged_before)
        first = self._young.peek()
        return None if first is None else int(first[1][0])

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
        """Record a place for the client: its next turn comes after those of other clients."""
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
        """Update the client's position after a change of its places or its last turn."""
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
