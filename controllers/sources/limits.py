"""A token bucket: requests to one source, `rate` a minute, `burst` at once. Pure but for its own state."""

from __future__ import annotations


class Bucket:
    """`reserve(now)` takes a place and answers the seconds until it is due."""

    def __init__(self, per_minute: int, burst: int) -> None:
        self._every = 60.0 / per_minute
        self._burst = burst
        self._free_at = float("-inf")
        """When the bucket would be empty of debts: one more request costs `every` seconds."""

    def reserve(self, now: float) -> float:
        """Seconds to wait before the next request, 0 within the burst."""
        self._free_at = max(self._free_at, now - self._burst * self._every) + self._every
        return max(0.0, self._free_at - now)
