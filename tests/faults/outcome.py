"""What one campaign found, as it is printed and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.journal import Journal

BOUND = 60.0
"""Seconds from the last fault until every task has ended, where seconds are judged."""


@dataclass
class Outcome:
    """`seconds` from the last fault until every task had ended; `again` is the command that repeats it. `late` are
    sentences about what took too many seconds: of the machine as much as of the operator."""

    campaign: str
    seed: int
    tasks: int
    seconds: float
    broken: list[str]
    kills: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    last: str = ""
    """How the task went that ended last."""

    @property
    def again(self) -> str:
        """The command that repeats it."""
        return f"python -m tests.faults {self.campaign} --seed {self.seed}"

    def count(self, journals: Iterable[Journal]) -> Outcome:
        """Take over what the doors did."""
        for journal in journals:
            self.faults.update({fault.value: number for fault, number in journal.faults.items()})
        self.kills += sum(number for name, number in self.faults.items() if name.startswith("kill"))
        return self

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "campaign": self.campaign,
            "seed": self.seed,
            "tasks": self.tasks,
            "kills": self.kills,
            "starts": self.starts,
            "faults": dict(sorted(self.faults.items())),
            "lost": sum(" is " in one and ", not " in one for one in self.broken),
            "duplicates": sum(" Jobs for " in one or " copies instead of " in one for one in self.broken),
            "broken": self.broken,
            "late": self.late,
            "secondsToConverge": round(self.seconds, 1),
            "lastToEnd": self.last,
            **self.details,
        }

    def sentences(self, *, timed: bool = False) -> list[str]:
        """What does not hold, and how to see it again; empty when all is well. `timed`: bounds in seconds among it,
        for a machine that does nothing else."""
        found = [*self.broken, *(self.late if timed else ())]
        if timed and self.seconds > BOUND:
            found.append(f"converged only {self.seconds:.0f} s after the last fault; the last: {self.last}")
        return [*found, f"repeat with: {self.again}"] if found else []
