"""Totals of delegations by agent and outcome: how one is added, how they are stored, how they are exported. Pure.

Labels are bounded: an agent's name is one of those of the runs' own list, and beyond `MOST_AGENTS` names, or for one
that is no name, `other`; an outcome is `completed`, `failed` (its agent did not do all of it, or was too unsure) or
`stopped` (by a budget, or because it repeated itself). Nothing of a task or a client is in a total.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from crds.approvals import AllowedBy

SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
TOKENS = (500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 25_000.0, 50_000.0, 100_000.0, 250_000.0)
CONFIDENCE = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Upper bounds of the buckets. Below 0.4 an agent is asked again, below 0.7 its statements are looked up."""
MOST_AGENTS = 40
OTHER = "other"
_AGENT = re.compile(r"[A-Za-z][A-Za-z0-9]{0,39}")
_LABELS = ("agent", "outcome")

Key = tuple[str, str]
"""Agent and outcome."""


class Histogram:
    """How often values fell into each bucket, and their sum."""

    def __init__(self, bounds: Sequence[float], counts: Sequence[int] = (), total: float = 0.0) -> None:
        self.bounds = tuple(bounds)
        self.counts = list(counts) or [0] * (len(self.bounds) + 1)
        self.total = total

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, int]]:
        """Cumulative, as Prometheus has them."""
        shown, so_far = [], 0
        for bound, count in zip((*map(repr, self.bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            shown.append((bound, so_far))
        return shown

    def dump(self) -> dict[str, Any]:
        """For MongoDB."""
        return {"bounds": list(self.bounds), "counts": self.counts, "total": self.total}

    @classmethod
    def load(cls, bounds: Sequence[float], found: Any) -> Histogram:
        """What `dump` gave; empty for one that another version made with other bounds."""
        if not isinstance(found, Mapping) or tuple(found.get("bounds", ())) != tuple(bounds):
            return cls(bounds)
        return cls(bounds, [int(one) for one in found["counts"]], float(found["total"]))


@dataclass(slots=True)
class Series:
    """The totals of one agent and outcome."""

    delegations: int = 0
    model_calls: int = 0
    retries: int = 0
    escalations: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    """By what allowed them."""
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    tokens: Histogram = field(default_factory=lambda: Histogram(TOKENS))
    confidence: Histogram = field(default_factory=lambda: Histogram(CONFIDENCE))


_COUNTED = ("delegations", "model_calls", "retries", "escalations")
_SPREAD = {"seconds": SECONDS, "tokens": TOKENS, "confidence": CONFIDENCE}


class Totals:
    """All series."""

    def __init__(self) -> None:
        self.series: dict[Key, Series] = {}

    def add(self, found: Mapping[str, Any]) -> None:
        """Count a document of `delegation_metrics`; of an incomplete one what it has."""
        used = found.get("success") and not found.get("escalated")
        outcome = "stopped" if found.get("stopped") else "completed" if used else "failed"
        series = self.series.setdefault((self._agent(found.get("agentName")), outcome), Series())
        series.delegations += 1
        series.model_calls += _number(found.get("llmCalls"))
        series.retries += _number(found.get("retries"))
        series.escalations += bool(found.get("escalated"))
        for by in AllowedBy:
            if number := _number((found.get("effects") or {}).get(by.value)):
                series.effects[by.value] = series.effects.get(by.value, 0) + number
        took = _took(found)
        if took is not None:
            series.seconds.add(took)
        series.tokens.add(_number(found.get("tokenCount")))
        confidence = found.get("confidence")
        # A stopped agent has not said how sure it is.
        if outcome != "stopped" and isinstance(confidence, int | float) and math.isfinite(confidence):
            series.confidence.add(float(confidence))

    def dump(self) -> list[dict[str, Any]]:
        """For MongoDB."""
        return [
            {
                **dict(zip(_LABELS, key, strict=True)),
                **{name: getattr(series, name) for name in _COUNTED},
                "effects": dict(series.effects),
                **{name: getattr(series, name).dump() for name in _SPREAD},
            }
            for key, series in sorted(self.series.items())
        ]

    @classmethod
    def load(cls, found: Sequence[Mapping[str, Any]]) -> Totals:
        """What `dump` gave."""
        made = cls()
        for one in found:
            series = Series()
            for name in _COUNTED:
                setattr(series, name, _number(one.get(name)))
            series.effects = {str(by): _number(number) for by, number in (one.get("effects") or {}).items()}
            for name, bounds in _SPREAD.items():
                setattr(series, name, Histogram.load(bounds, one.get(name)))
            made.series[str(one["agent"]), str(one["outcome"])] = series
        return made

    def _agent(self, name: object) -> str:
        known = {agent for agent, _ in self.series}
        if not isinstance(name, str) or not _AGENT.fullmatch(name):
            return OTHER
        return name if name in known or len(known - {OTHER}) < MOST_AGENTS else OTHER


class Exported(Collector):
    """The metrics of a replica: of the leader what is stored, of one that stands by nothing. A new leader goes on where
    the last one was, so no counter begins anew."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self.totals = Totals()
        self._prefix = prefix
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """The families without samples."""
        return self._families(Totals())

    def collect(self) -> Iterator[Metric]:
        """What was counted."""
        return self._families(self.totals)

    def _families(self, totals: Totals) -> Iterator[Metric]:
        counters = {
            "delegations": ("delegations", "Ended delegations of runs: completed, failed, or stopped"),
            "model_calls": ("delegation_model_calls", "Model calls of ended delegations, without sub-delegations"),
            "retries": ("delegation_retries", "Reports that an agent was asked for again"),
            "escalations": ("delegation_escalations", "Delegations that the LegacyAgent had to take over"),
        }
        spread = {
            "seconds": ("delegation_seconds", "From the beginning of a delegation to its end, waits included"),
            "tokens": ("delegation_tokens", "Tokens that models read and wrote for a delegation"),
            "confidence": ("delegation_confidence", "How sure agents were of their reports"),
        }
        for attribute, (name, text) in counters.items():
            counter = CounterMetricFamily(f"{self._prefix}_{name}", text, labels=_LABELS)
            for key, series in totals.series.items():
                counter.add_metric(key, getattr(series, attribute))
            yield counter
        text = "Effects that were done, by what allowed them: Permit, Rule, Approval, Edited, ForTask"
        effects = CounterMetricFamily(f"{self._prefix}_effects", text, labels=("agent", "allowed_by"))
        done: Counter[tuple[str, str]] = Counter()
        for (agent, _), series in totals.series.items():
            done.update({(agent, by): number for by, number in series.effects.items()})
        for labels, number in sorted(done.items()):
            effects.add_metric(labels, number)
        yield effects
        for attribute, (name, text) in spread.items():
            family = HistogramMetricFamily(f"{self._prefix}_{name}", text, labels=_LABELS)
            for key, series in totals.series.items():
                histogram: Histogram = getattr(series, attribute)
                family.add_metric(key, histogram.buckets(), histogram.total)
            yield family


def _took(found: Mapping[str, Any]) -> float | None:
    try:
        began, ended = (datetime.fromisoformat(str(found[name])) for name in ("startTime", "endTime"))
        return max(0.0, (ended - began).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def _number(found: object) -> int:
    return int(found) if isinstance(found, int | float) and math.isfinite(found) and found > 0 else 0
