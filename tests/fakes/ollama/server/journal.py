"""What was asked and how it ended, so that tests count calls and look at order instead of clocks."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import Any

_KEPT = 2000
_BODY_BYTES = 64 * 1024
PRIORITY_HEADER = "X-Ollama-Priority"


@dataclass
class Entry:
    """One request.

    `seq`, `granted` and `ended` count from 1 on one common scale: arrival, the moment it got its slot, its end.
    `outcome` is
    running, finished, cancelled (the client hung up), refused (an error status) or broken (a fault cut it).
    """

    seq: int
    at: str
    method: str
    path: str
    headers: dict[str, str]
    priority: str | None
    model: str | None = None
    tag: str | None = None
    body: dict[str, Any] | None = None
    status: int | None = None
    outcome: str = "running"
    granted: int | None = None
    ended: int | None = None
    tokens: int = 0
    bytes: int = 0
    texts: int = 0
    fault: str | None = None


@dataclass
class Journal:
    """The last requests in full, and counts of all of them."""

    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=_KEPT))
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    _order: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def open(self, at: str, method: str, path: str, headers: dict[str, str], priority: str | None) -> Entry:
        """A request arrived."""
        entry = Entry(next(self._order), at, method, path, headers, priority)
        self.entries.append(entry)
        return entry

    def describe(self, entry: Entry, model: str, tag: str | None, body: dict[str, Any], size: int) -> None:
        """Its body was read; very large bodies are not kept."""
        entry.model, entry.tag = model, tag
        entry.body = body if size <= _BODY_BYTES else None

    def grant(self, entry: Entry) -> None:
        """It got its slot."""
        entry.granted = next(self._order)

    def close(self, entry: Entry, outcome: str) -> None:
        """It is over."""
        entry.ended = next(self._order)
        entry.outcome = outcome
        self.counts[(entry.path, entry.model or "", entry.priority or "")] += 1
        self.outcomes[outcome] += 1

    def listed(self, match: dict[str, str]) -> list[dict[str, Any]]:
        """Entries, oldest first, whose fields equal those of `match`. ValueError for a field that does not exist."""
        unknown = set(match) - set(Entry.__dataclass_fields__)
        if unknown:
            raise ValueError(f"no such field: {', '.join(sorted(unknown))}")
        found = (asdict(entry) for entry in self.entries)
        return [entry for entry in found if all(str(entry[name]) == value for name, value in match.items())]

    def counters(self) -> dict[str, Any]:
        """Finished requests by path, model and priority header, and by outcome."""
        rows = [
            {"path": path, "model": model, "priority": priority, "count": count}
            for (path, model, priority), count in sorted(self.counts.items())
        ]
        return {"requests": rows, "outcomes": dict(self.outcomes)}

    def forget(self) -> None:
        """Drop what ended; running requests stay listed."""
        running = [entry for entry in self.entries if entry.ended is None]
        self.entries = deque(running, maxlen=_KEPT)
        self.counts.clear()
        self.outcomes.clear()
