"""The time by which things are deleted: this process's clock, as long as the apiserver's agrees with it.

A clock that is years ahead would have everything expire at once. One reading of one clock deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

log = structlog.get_logger(__name__)

MOST_SKEW = timedelta(minutes=5)


class Clock:
    """`server` is the apiserver's time, None while it is not known; `skew` is called with the seconds by which `wall`
    is ahead of it."""

    def __init__(
        self,
        wall: Callable[[], datetime],
        server: Callable[[], datetime | None],
        *,
        skew: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._wall, self._server, self._skew = wall, server, skew
        self._agreed = True

    def earlier(self) -> datetime:
        """For stamps: the earlier of the two."""
        server, own = self._server(), self._wall()
        return own if server is None else min(own, server)

    def agreed(self) -> datetime | None:
        """Now; None when the two clocks differ by more than `MOST_SKEW`, and then nothing may be deleted by time."""
        server, own = self._server(), self._wall()
        if server is None:
            return own
        ahead = own - server
        self._skew(ahead.total_seconds())
        agreed = abs(ahead) <= MOST_SKEW
        if not agreed and self._agreed:
            log.error(
                "nothing is deleted: the clocks of this process and of the apiserver differ",
                seconds_ahead=round(ahead.total_seconds()),
                own=own.isoformat(),
                server=server.isoformat(),
            )
        self._agreed = agreed
        return own if agreed else None
