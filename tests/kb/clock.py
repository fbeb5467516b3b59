"""A clock that only the test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Clock:
    """Call it for the time; `advance` it."""

    def __init__(self, now: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **units: float) -> None:
        """Move forward by a timedelta."""
        self.now += timedelta(**units)
