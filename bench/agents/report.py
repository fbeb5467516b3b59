"""What a case answers: figures, checks against targets, and what the samples come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """`checks` is {what: (figure, target)}: none may be above its target."""

    figures: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, tuple[float, float]] = field(default_factory=dict)

    def missed(self) -> list[str]:
        """The checks that do not hold."""
        return [
            f"{what}: {figure:g} is above {target:g}"
            for what, (figure, target) in self.checks.items()
            if not figure <= target  # NaN misses
        ]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        targets = {what: target for what, (_, target) in self.checks.items()}
        return {"figures": self.figures, "targets": targets, "missed": self.missed()}


def percentile(values: Sequence[float], which: int) -> float:
    """By nearest rank; NaN without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * which / 100) - 1)] if ordered else math.nan


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Count, and p50, p95 and the greatest in milliseconds."""
    if not seconds:
        return {"count": 0}
    shown = {f"p{which}_ms": round(percentile(seconds, which) * 1000, 2) for which in (50, 95)}
    return {"count": len(seconds), **shown, "max_ms": round(max(seconds) * 1000, 2)}
