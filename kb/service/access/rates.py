"""Token buckets, one per client: so many requests a second, with a burst. Pure; the time is an argument."""

from __future__ import annotations

import math
from collections import OrderedDict

from kb import errors

# Clients remembered at once; who is forgotten begins with a full bucket again.
_REMEMBERED = 10_000


class Rates:
    """`per_second` requests of one client on average, `burst` at once; 0 per second is no limit."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client_id: str, now: float) -> None:
        """Count one request at `now` (seconds, monotonic). Raises `kb.errors.Crowded` saying when to come back."""
        if self._per_second <= 0:
            return
        left, at = self._buckets.pop(client_id, (float(self._burst), now))
        left = min(left + (now - at) * self._per_second, float(self._burst))
        allowed = left >= 1
        self._buckets[client_id] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = math.ceil((1 - left) / self._per_second)
            raise errors.Crowded(
                f"client {client_id!r} asks more than {self._per_second:g} times a second", retry_after=wait
            )
