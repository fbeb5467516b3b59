"""Which GPUs users' activity keeps Background work away from, and for how long.

A user is active while a task of a user is unfinished or the router has a user's request, and for
`Limits.idle_threshold` after that. With one Ready GPU any user's activity counts. With several, a user's task holds
back the GPU that serves it, or the one that it would be placed on. A request that only the router knows counts for the
backend that served it, or for all backends if that one is unknown.

Source: seed 000 "Preemption"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from controllers.pendingtask import observed, task_index
from controllers.pendingtask.slots import bookings, router_use
from controllers.pendingtask.slots.ledger import Ledger


class UserHold:
    """`users` is the activity at the router, `wall` the time of day."""

    def __init__(
        self,
        tasks: task_index.Tasks,
        limits: observed.Limits,
        ledger: Ledger,
        users: router_use.UserActivity,
        wall: Callable[[], datetime],
    ) -> None:
        self._tasks, self._limits, self._ledger = tasks, limits, ledger
        self._users, self._wall = users, wall

    @property
    def last_user(self) -> datetime | None:
        """When a user was last active, by tasks and the router."""
        known = [at for at in (self._tasks.last_user, self._users.last) if self._past(at)]
        return max((at for at in known if at is not None), default=None)

    @property
    def in_doubt_since(self) -> datetime | None:
        """Since when the users' activity at the router is unknown."""
        since = self._users.in_doubt_since
        return since if self._past(since) else None

    def activity(self) -> observed.Users:
        """What a task that users hold back shows of them."""
        return observed.Users(self._tasks.user_active, self.last_user, self.in_doubt_since)

    def quiet(self) -> float | None:
        """Seconds until Background work may start; None while a user is active."""
        if not self._limits.idle_threshold:
            return 0.0
        return None if self._tasks.user_active else self._left_of(self.last_user, self.in_doubt_since)

    def held_back(self) -> Mapping[str, float | None]:
        """GPUs on which Background work does not start now -> seconds until it may; None: as long as users are
        active."""
        quiet = self.quiet()
        if quiet == 0.0:
            return {}
        offers = self._ledger.ready()
        if len(offers) < 2:
            return {one.name: quiet for one in offers}
        serving, common = self._ledger.serving(), self._left_of(self.in_doubt_since, self._users.unplaced)
        held: dict[str, float | None] = {}
        for one in offers:
            left = max(common, self._left_of(self._tasks.last_user_on.get(one.name), self._users.last_on.get(one.name)))
            if one.name in serving:
                held[one.name] = None
            elif left > 0:
                held[one.name] = left
        if self._tasks.user_active and not serving:
            # A user's task without a slot yet: the GPU that it would get is held back for it.
            free = bookings.count(offers, self._ledger.taken()).free
            held[free[0][0] if free else min(one.name for one in offers)] = None
        return held

    def everywhere(self, held: Mapping[str, float | None]) -> bool:
        """Whether these are all GPUs; without a GPU, whether users are active."""
        offers = self._ledger.ready()
        return all(one.name in held for one in offers) if offers else self.quiet() != 0.0

    def _left_of(self, *moments: datetime | None) -> float:
        """Seconds until the latest of `moments` is `Limits.idle_threshold` ago."""
        known = [at for at in moments if at is not None and self._past(at)]
        if not known:
            return 0.0
        return max(0.0, (max(known) + self._limits.idle_threshold - self._wall()) / timedelta(seconds=1))

    def _past(self, at: datetime | None) -> bool:
        """Whether the time is in the past. A future one was recorded before the clock was set back and is unknown."""
        return at is not None and at <= self._wall() + timedelta(seconds=1)
