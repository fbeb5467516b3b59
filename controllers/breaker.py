"""Circuit breaker for dispatching: after five failures in a row nothing is tried for a while, then one probe.

One for all tasks: what a dispatch needs (MongoDB, the apiserver, the quota and the policies of the release's namespace)
all of them share.
Source: seed 000 "Circuit Breaker for Orchestrator Health". Synchronous and pure but for its own fields; the caller
passes monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Closed: normal. Open: nothing is tried. HalfOpen: one probe is under way or allowed."""

    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


@dataclass(slots=True)
class Breaker:
    """`threshold` failures in a row open it; `rest` seconds later one probe decides.

    `cause` is a sentence on what the last failure asks of an administrator, or "".
    """

    threshold: int = 5
    rest: float = 30.0
    cause: str = ""
    _failures: int = 0
    _opened_at: float | None = None
    _probe_since: float | None = None

    def state(self, now: float) -> State:
        """Where it stands at `now`."""
        if self._opened_at is None:
            return State.CLOSED
        return State.HALF_OPEN if now >= self._opened_at + self.rest else State.OPEN

    def allows(self, now: float) -> bool:
        """May another try start? Asking does not take the probe; `started` does."""
        match self.state(now):
            case State.CLOSED:
                return True
            case State.OPEN:
                return False
            case State.HALF_OPEN:
                # A probe that never reported (its task was deleted under it) does not block for ever.
                return self._probe_since is None or now >= self._probe_since + self.rest

    def opens_at(self) -> float | None:
        """Monotonic second at which a probe becomes possible; None while closed."""
        if self._opened_at is None:
            return None
        start = self._opened_at if self._probe_since is None else max(self._opened_at, self._probe_since)
        return start + self.rest

    def started(self, now: float) -> None:
        """A try starts; in HalfOpen it is the probe."""
        if self.state(now) is State.HALF_OPEN:
            self._probe_since = now

    def succeeded(self) -> None:
        """A try went well, or failed for a reason of the task's own: what is shared works."""
        self._failures = 0
        self.cause = ""
        self._opened_at = None
        self._probe_since = None

    def failed(self, now: float, cause: str = "") -> None:
        """A try failed for an operational reason that other tasks would meet as well."""
        self._failures += 1
        self.cause = cause
        self._probe_since = None
        if self._failures >= self.threshold:
            self._opened_at = now
