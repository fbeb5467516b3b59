"""What a case answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Samples = dict[str, float]
"""By name of the task: seconds from its planned moment to what was waited for."""


@dataclass
class Report:
    """`checks` is {what: (figure, "<=" or ">=", target)}."""

    figures: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, tuple[float, str, float]] = field(default_factory=dict)
    samples: dict[str, Samples] = field(default_factory=dict)

    def missed(self) -> list[str]:
        """The checks that do not hold."""
        return [
            f"{what}: {figure} is not {sign} {target}"
            for what, (figure, sign, target) in self.checks.items()
            if not (figure <= target if sign == "<=" else figure >= target)
        ]


def spread(samples: Samples) -> dict[str, float]:
    """Median, 99th percentile and greatest, in milliseconds."""
    ordered = sorted(samples.values())
    if not ordered:
        return {"count": 0}
    return {
        "count": len(ordered),
        "p50_ms": round(ordered[len(ordered) // 2] * 1000, 1),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 1),
        "max_ms": round(ordered[-1] * 1000, 1),
    }
