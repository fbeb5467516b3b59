"""Who may go on now: the places at the qualifier, the GPU slots, the quiet after a user, the circuit breaker.

One object holds what tasks compete for. It gives the shell the shared part of a `World` and says which waiting tasks
to call when something became free. Synchronous; lives in one event loop, so a snapshot and the booking that follows it
without an `await` in between are one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from controllers import breaker, queue
from controllers.gpubackend import slots
from controllers.pendingtask import index, order, world
from controllers.pendingtask.decision import Room
from crds.phases import Phase


class Called(NamedTuple):
    """A task that may try now, and its rank."""

    uid: str
    rank: queue.Rank


class Rooms:
    """`offers` gives the present GPU backends; `wall` and `monotonic` are the clocks."""

    def __init__(
        self,
        tasks: index.Tasks,
        limits: world.Limits,
        offers: Callable[[], Iterable[slots.Offer]],
        *,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._tasks, self._limits, self._offers = tasks, limits, offers
        self._wall, self._monotonic = wall, monotonic
        self._waiting: dict[Room, queue.Waiting[str]] = {room: queue.Waiting() for room in Room}
        self._claims: dict[str, Room] = {}
        self.breaker = breaker.Breaker()

    def claim(self, uid: str, room: Room) -> None:
        """Book a place for the time until the claim is persisted."""
        self._claims[uid] = room

    def settle(self, uid: str) -> None:
        """The claim is persisted (the index knows now) or failed."""
        self._claims.pop(uid, None)

    def enter(self, uid: str, room: Room, rank: queue.Rank) -> None:
        """Wait in `room`."""
        self._waiting[room].enter(uid, rank)

    def leave(self, uid: str) -> None:
        """Wait nowhere."""
        for waiting in self._waiting.values():
            waiting.leave(uid)

    def waiting(self, room: Room) -> int:
        """How many wait there."""
        return len(self._waiting[room])

    def qualifying(self, uid: str) -> int:
        """Places at the qualifier that are taken by others."""
        taken = set(self._tasks.phase(Phase.QUALIFYING))
        taken.update(one for one, room in self._claims.items() if room is Room.QUALIFIER)
        taken.discard(uid)
        return len(taken)

    def slots(self, uid: str = "") -> world.Slots:
        """The book of GPU slots as seen by `uid`."""
        booked = dict(self._tasks.booked())
        for one, room in self._claims.items():
            if room is Room.GPU:
                booked.setdefault(one, "")
        booked.pop(uid, None)
        return slots.count(self._offers(), booked.values())

    def dispatch_open(self) -> bool:
        """The breaker lets a dispatch through."""
        return self.breaker.allows(self._monotonic())

    def call(self) -> tuple[list[Called], float | None]:
        """Who may try now, and in how many seconds to ask again (None: only when something changes)."""
        called: list[Called] = []
        free = self._limits.qualifying_at_once - self.qualifying("")
        if free > 0:
            called += [Called(*one) for one in self._waiting[Room.QUALIFIER].call(free)]
        room = self._waiting[Room.GPU]
        first = room.first()
        if first is None:
            return called, None
        now = self._monotonic()
        if not self.breaker.allows(now):
            return called, max(0.05, (self.breaker.opens_at() or now) - now)
        half_open = self.breaker.state(now) is not breaker.State.CLOSED
        if order.Order(*first).lane == 0:
            # A user's task was only held up by the breaker; with it half open, one goes first as the probe.
            return called + [Called(*one) for one in room.call(1)], None if half_open else 0.05
        quiet = self._quiet()
        if quiet is None or quiet > 0:
            return called, quiet
        free = sum(number for _, number in self.slots().free)
        called += [Called(*one) for one in room.call(min(1, free) if half_open else free)]
        return called, None

    def _quiet(self) -> float | None:
        """Seconds until Background work may go on; None while a user is active."""
        if self._tasks.user_active:
            return None
        last = self._tasks.last_user
        if last is None:
            return 0.0
        return max(0.0, (last + self._limits.idle_threshold - self._wall()).total_seconds())
