"""How far a poll of a Git host is: what was seen, what was found, and the cursor. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sources.core import port

BATCH, BATCH_BYTES = 25, 8 << 20
_TAKEN, _UNSETTLED = "!", "?"
MOST_STORED = 100_000
"""Names in one cursor, which is a part of one document of MongoDB (16 MiB). What is left out is looked at again when it
is listed again, and makes no second task."""


class Seen:
    """The stamps of what was seen, by name. A time of the host's last seconds may come to stand for a second change: it
    counts for one poll, and is stored with a mark behind it."""

    def __init__(self, stored: Mapping[str, str]) -> None:
        self.stamps = dict(stored)

    def knows(self, name: str, stamp: str) -> bool:
        """Whether nothing changed since."""
        return self.stamps.get(name, "").partition(_TAKEN)[0] == stamp

    def untimed(self, name: str, stamp: str) -> str:
        """The stamp before this one, where nothing but the number of comments fell: some were deleted."""
        known, _, before = self.stamps.get(name, "").partition(_UNSETTLED)
        (then, _, some), (now, _, left) = known.partition("/"), stamp.partition("/")
        fell = then == now and some.isdigit() and left.isdigit() and int(left) < int(some)
        return before if known == stamp else known if fell else ""

    def put(self, name: str, stamp: str, before: str, *, settled: bool) -> None:
        """It was taken."""
        self.stamps[name] = stamp if settled else f"{stamp}{_TAKEN}{before}"

    def stored(self) -> dict[str, str]:
        """For the cursor."""
        return {name: stamp.replace(_TAKEN, _UNSETTLED) for name, stamp in self.stamps.items()}


@dataclass(slots=True)
class Taken:
    """What one poll of a repository came to."""

    comments: dict[str, str] = field(default_factory=dict)
    """The last change of each comment that came with its issue."""


@dataclass(slots=True)
class Some:
    """What a batch has so far."""

    items: list[port.Item] = field(default_factory=list)
    failures: list[port.Failure] = field(default_factory=list)
    size: int = 0

    def add(self, one: port.Item) -> None:
        """Add an item."""
        self.items.append(one)
        self.size += len(one.text) + sum(len(file.body) for file in one.files)

    @property
    def full(self) -> bool:
        """Whether it is to be stored now."""
        return len(self.items) >= BATCH or self.size >= BATCH_BYTES

    def __bool__(self) -> bool:
        return bool(self.items or self.failures)


@dataclass(slots=True)
class At:
    """The cursor as it grows."""

    of: str
    lists: dict[str, Any]
    counts: dict[str, int]
    access: dict[str, str] = field(default_factory=dict)
    """By repository: who may read it, as a hash."""

    def batch(self, name: str = "", state: Mapping[str, Any] | None = None, some: Some | None = None) -> port.Batch:
        """What was found, and the cursor behind it."""
        if state is not None:
            self.lists[name] = {**state, "seen": dict(state["seen"])}
            self._bound()
        shown = "; ".join(f"{name}: {one.get('mark') or one.get('high')}" for name, one in sorted(self.lists.items()))
        cursor = {"of": self.of, "lists": dict(self.lists), "counts": dict(self.counts), "access": dict(self.access)}
        return port.Batch(cursor, shown, tuple(some.items) if some else (), tuple(some.failures) if some else ())

    def _bound(self) -> None:
        """Lists that have more than their share keep what was seen last."""
        if sum(len(one.get("seen", ())) for one in self.lists.values()) > MOST_STORED:
            share = MOST_STORED // len(self.lists)
            for name, one in self.lists.items():
                if len(one.get("seen", ())) > share:
                    self.lists[name] = {**one, "seen": dict([*one["seen"].items()][-share:])}


def timed(stamp: str) -> str:
    """The time in a stamp."""
    return stamp.partition(_UNSETTLED)[0].partition("/")[0]
