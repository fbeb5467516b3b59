"""Circuit breaker for dispatching: after five failures in a row nothing is tried for a while, then one probe.

Kept by cause: what every dispatch needs (MongoDB, the apiserver) has one breaker, and each namespace has its own for
what is refused to its tasks alone (a quota, an admission policy). A refusal proves that the shared parts work.
Source: seed 000 "Circuit Breaker for Orchestrator Health". Synchronous and pure but for its own fields; the caller
passes monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """Closed: normal. Open: nothing is tried. HalfOpen: one probe is under way or allowed."""

    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


@dataclass(slots=True)
class Breaker:
    """`threshold` failures in a row open it; `rest` seconds later one probe decides."""

    threshold: int = 5
    rest: float = 30.0
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
        """A try went well."""
        self._failures = 0
        self._opened_at = None
        self._probe_since = None

    def failed(self, now: float) -> None:
        """A try failed for an operational reason."""
        self._failures += 1
        self._probe_since = None
        if self._failures >= self.threshold:
            self._opened_at = now


@dataclass(slots=True)
class Breakers:
    """The shared breaker, under the names that a single one has, and those of the namespaces."""

    shared: Breaker = field(default_factory=Breaker)
    _namespaces: dict[str, Breaker] = field(default_factory=dict)

    def state(self, now: float) -> State:
        """Of the shared one."""
        return self.shared.state(now)

    def allows(self, now: float) -> bool:
        """Does the shared one let another dispatch through?"""
        return self.shared.allows(now)

    def opens_at(self) -> float | None:
        """When the shared one lets a probe through; None while closed."""
        return self.shared.opens_at()

    def refused_for(self, namespace: str, now: float) -> float | None:
        """Seconds until a task of that namespace may be tried; None: now, as far as its namespace goes."""
        own = self._namespaces.get(namespace)
        return None if own is None or own.allows(now) else max(0.05, (own.opens_at() or now) - now)

    def refusing(self, now: float) -> int:
        """Namespaces whose tasks are not tried now."""
        return sum(one.state(now) is not State.CLOSED for one in self._namespaces.values())

    def started(self, now: float, namespace: str = "") -> None:
        """A dispatch of a task of that namespace starts."""
        for one in self._of(namespace):
            one.started(now)

    def succeeded(self, namespace: str = "") -> None:
        """It went well."""
        self.shared.succeeded()
        self._namespaces.pop(namespace, None)

    def answered(self) -> None:
        """It failed for a reason of the task's own: the shared parts work."""
        self.shared.succeeded()

    def failed(self, now: float) -> None:
        """MongoDB or the apiserver was away, or had an error of its own."""
        self.shared.failed(now)

    def refused(self, now: float, namespace: str) -> None:
        """The apiserver refused it to this namespace: a quota, an admission policy, a missing role."""
        self.shared.succeeded()
        self._namespaces.setdefault(namespace, Breaker(self.shared.threshold, self.shared.rest)).failed(now)

    def _of(self, namespace: str) -> tuple[Breaker, ...]:
        own = self._namespaces.get(namespace)
        return (self.shared,) if own is None else (self.shared, own)
