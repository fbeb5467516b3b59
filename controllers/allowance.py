"""A token bucket: so much at once, and so much a second."""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """`burst` is there at the beginning and at most; `rate` a second comes back. `monotonic` is the clock."""

    def __init__(self, rate: float, burst: float, *, monotonic: Callable[[], float]) -> None:
        self._rate, self._burst, self._monotonic = rate, burst, monotonic
        self._left, self._seen = burst, monotonic()

    def spend(self, number: float) -> bool:
        """Take `number`. False when there is less; then nothing is taken."""
        self._refill()
        if number > self._left:
            return False
        self._left -= number
        return True

    def charge(self, number: float) -> None:
        """Take `number`, or what there is: for what happens in any case."""
        self._refill()
        self._left = max(0.0, self._left - number)

    def _refill(self) -> None:
        now = self._monotonic()
        self._left = min(self._burst, self._left + max(0.0, now - self._seen) * self._rate)
        self._seen = now
