"""How many requests may be tried again: a share of all requests, so that failing backends are not buried in retries."""

from __future__ import annotations


class Budget:
    """`share` of requests may be repeated; up to `reserve` of them at once after a quiet time."""

    def __init__(self, share: float = 0.1, reserve: float = 20.0) -> None:
        self._share = share
        self._reserve = reserve
        self._left = reserve

    def earn(self) -> None:
        """A request arrived."""
        if self._left < self._reserve:
            self._left = min(self._left + self._share, self._reserve)

    def spend(self) -> bool:
        """Take one repetition; False when none is left."""
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
