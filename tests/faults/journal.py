"""What passed the doors: call sites seen, faults done, and what each replica has sent."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from tests.faults.faults import Fate, Fault
from tests.faults.sites import Call, Site


@dataclass(frozen=True, slots=True)
class Write:
    """A request that changes something, when it came in (monotonic seconds), and its answer's status (0: none)."""

    at: float
    site: Site
    name: str
    status: int


@dataclass
class Journal:
    """One for each replica, shared by its doors."""

    sites: Counter[Site] = field(default_factory=Counter)
    faults: Counter[Fault] = field(default_factory=Counter)
    writes: list[Write] = field(default_factory=list)
    last_fault: float = 0.0

    def saw(self, call: Call) -> None:
        """A request came in."""
        self.sites[call.site] += 1

    def wrote(self, call: Call, since: float, status: int) -> None:
        """A request was answered, or never will be."""
        if call.site.writes:
            self.writes.append(Write(since, call.site, call.name, status))

    def did(self, fate: Fate) -> None:
        """A fault is being done."""
        self.faults[fate.fault] += 1
        self.last_fault = time.monotonic()
