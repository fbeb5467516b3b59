"""A circuit breaker for one backend: pure, with the time as an argument.

Only requests that the backend itself spoiled count (no connection, broken off, 5xx other than "busy"); a client that
hangs up never does. While it is open nothing is sent; after the pause one successful health probe half-opens it, one
request at a time then decides. Generations are never used as probes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crds.gpubackend import Circuit


@dataclass(slots=True)
class Breaker:
    """`threshold` consecutive failures open it for `pause` seconds, doubling up to `longest`."""

    threshold: int = 5
    pause: float = 5.0
    longest: float = 60.0
    state: Circuit = Circuit.CLOSED
    _failures: int = 0
    _opened: int = 0
    _until: float = field(default=0.0)

    def failed(self, now: float) -> bool:
        """A request failed; True when the state changed."""
        self._failures += 1
        if self.state is Circuit.OPEN or (self.state is Circuit.CLOSED and self._failures < self.threshold):
            return False
        self._until = now + min(self.pause * 2**self._opened, self.longest)
        self._opened = min(self._opened + 1, 16)
        self.state = Circuit.OPEN
        return True

    def succeeded(self) -> bool:
        """A request was answered; True when the state changed. A late success does not close an open circuit."""
        self._failures = 0
        if not self._opened or self.state is not Circuit.HALF_OPEN:
            return False
        self.state = Circuit.CLOSED
        self._opened = 0
        return True

    def probed(self, now: float) -> bool:
        """A health probe was answered; True when that half-opened the circuit."""
        if self.state is not Circuit.OPEN or now < self._until:
            return False
        self.state = Circuit.HALF_OPEN
        return True
