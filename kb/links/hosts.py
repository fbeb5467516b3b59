"""Hosts that do not answer, or slowly: for a while no link of theirs is opened, so that others need not wait for them.

Known to one process and forgotten at its end. `FAILURES` in a row close a host, for `FIRST` seconds and then twice as
long each time, up to `LONGEST`; an answer in time opens it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FAILURES = 2
FIRST, LONGEST = 60.0, 900.0
SLOW = 10.0
"""Seconds from which a page counts as a failure of its host."""
_MOST = 10_000


@dataclass
class _Host:
    failures: int = 0
    until: float = 0.0


class Hosts:
    """`monotonic` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: OrderedDict[str, _Host] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def closed(self, host: str) -> float:
        """Seconds for which it is not asked; 0: it may be."""
        found = self._known.get(host)
        return max(0.0, found.until - self._monotonic()) if found is not None else 0.0

    def answered(self, host: str, *, away: bool, seconds: float) -> None:
        """It was asked, and this came of it."""
        if not away and seconds < SLOW:
            self._known.pop(host, None)
            return
        found = self._known.setdefault(host, _Host())
        self._known.move_to_end(host)
        found.failures += 1
        if found.failures >= FAILURES:
            found.until = self._monotonic() + min(FIRST * 2 ** min(found.failures - FAILURES, 10), LONGEST)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
