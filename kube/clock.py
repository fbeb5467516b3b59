"""What time it is at the apiserver, by the Date header of its answers (RFC 9110, 6.6.1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

REFRESH_SECONDS = 10.0
"""A header is read at most so often."""


class ServerClock:
    """`monotonic` counts on from the last header that was read. One second exact, plus the answer's way."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._read: tuple[datetime, float] | None = None

    def observe(self, date: str | None) -> None:
        """The Date header of an answer that has just come; None when it has none."""
        now = self._monotonic()
        if date is None or (self._read is not None and now < self._read[1] + REFRESH_SECONDS):
            return
        try:
            self._read = (parsedate_to_datetime(date).astimezone(UTC), now)
        except ValueError:
            return

    def now(self) -> datetime | None:
        """The time there; None when no answer has said one."""
        if self._read is None:
            return None
        return self._read[0] + timedelta(seconds=self._monotonic() - self._read[1])
