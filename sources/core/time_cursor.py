"""The cursor of a source that is searched by the time of the last change, to the minute. Pure.

    mark      the latest time of a change that the server listed: never a clock of ours, and never a time that the
              server's own clock has not reached, which an import or a clock that was wrong once may have left
    recent    (milliseconds, version) of what was taken since `OVERLAP` before the mark

Each poll asks again for everything since `OVERLAP` before the mark, because a search index shows changes late and in
any order; what it lists as it was taken is passed over. Source: Atlassian "Search and reconcile": seconds to minutes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from sources.core import port

OVERLAP = timedelta(minutes=15)
_KEPT = int(OVERLAP.total_seconds() * 1000) + 60_000
FIRST = datetime(1970, 1, 2, tzinfo=UTC)
AHEAD = timedelta(minutes=5)
"""Clocks of one site's servers may differ by that."""
LAST = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)
MOST_RECENT = 100_000
"""Names in one cursor, which is a part of one document of MongoDB (16 MiB). What is left out is taken again when it is
listed again, and makes no second task."""
Stamp = tuple[int, int]
"""(milliseconds of the change, number of the version or 0)."""


@dataclass
class Window:
    """`of` names what is read: another one is read from its beginning."""

    of: str
    mark: int = 0
    recent: dict[str, Stamp] = field(default_factory=dict)
    begun: int = 0
    """The mark at the beginning of this poll."""
    latest: int = LAST
    """The mark is never behind it."""

    @classmethod
    def read(cls, cursor: port.Cursor, of: str, now: datetime | None = None) -> Window:
        """That of a cursor, an empty one where the cursor is of something else. `now` is the server's time."""
        latest = LAST if now is None else int((now + AHEAD).timestamp() * 1000)
        if cursor.get("of") != of:
            return cls(of, latest=latest)
        mark, recent = int(cursor["mark"]), {name: (at[0], at[1]) for name, at in cursor["recent"].items()}
        return cls(of, min(mark, latest), recent, min(mark, latest), latest)

    def since(self, first: datetime | None) -> datetime:
        """From when on is asked; `first` is that of the filter."""
        mark = datetime.fromtimestamp(self.mark / 1000, UTC) - OVERLAP if self.mark else FIRST
        return max(mark, first or FIRST)

    def new(self, name: str, stamp: Stamp) -> bool:
        """Whether what is listed is newer than what was taken; an index may still show an older state. A query may have
        to ask for more than the window, which was taken long ago."""
        if self.begun and stamp[0] < self.begun - _KEPT:
            return False
        return name not in self.recent or stamp > self.recent[name]

    def take(self, name: str, stamp: Stamp, listed: Stamp) -> None:
        """It was taken as of `stamp`, and listed as of `listed`: the mark follows the list."""
        self.recent[name] = max(stamp, listed)
        if listed[0] <= self.latest:
            self.mark = max(self.mark, listed[0])

    def batch(self, items: Iterable[port.Item] = (), failures: Iterable[port.Failure] = ()) -> port.Batch:
        """With the cursor as it is now."""
        recent = {name: list(at) for name, at in self.recent.items() if at[0] >= self.mark - _KEPT}
        if len(recent) > MOST_RECENT:
            # The oldest changes leave the window first, and are listed again the fewest times.
            kept = sorted(recent, key=lambda name: recent[name], reverse=True)[:MOST_RECENT]
            recent = {name: recent[name] for name in kept}
        cursor = {"of": self.of, "mark": self.mark, "recent": recent}
        shown = datetime.fromtimestamp(self.mark / 1000, UTC).isoformat(timespec="seconds") if self.mark else ""
        return port.Batch(cursor, f"changes up to {shown}" if shown else "", tuple(items), tuple(failures))


def of(*parts: object) -> str:
    """The name of what is read."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def minute(at: datetime, zone: tzinfo) -> str:
    """The minute in that zone; where its clock shows a time twice, an earlier one that it shows once."""
    local = at.astimezone(zone).replace(second=0, microsecond=0)
    while local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        local = (local.astimezone(UTC) - timedelta(minutes=30)).astimezone(zone)
    return local.strftime("%Y-%m-%d %H:%M")


def milliseconds(text: str) -> int:
    """Of a time as Atlassian writes it: 2026-11-26T12:00:00.000+0100. Raises `ValueError`."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def quoted(text: str) -> str:
    """A text in JQL and CQL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
