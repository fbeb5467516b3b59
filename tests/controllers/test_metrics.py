"""docs/metrics.md says what is exported: every family with its type and labels, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from controllers import metrics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(jervis_(?:operator|warm_pool)_\w+)` \| (\w+) \| ([^|]*) \| (.*\S) \|$", re.M)


def test_the_page_lists_every_metric() -> None:
    registry = CollectorRegistry()
    metrics.Metrics(registry)
    known = {}
    collectors: list[Any] = list(registry._collector_to_names)
    for collector in collectors:
        for family in collector.describe():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            # A plain meter has its labels itself, a collector of several families has them in each.
            labels = getattr(family, "_labelnames", None) or collector._labelnames
            known[name] = (family.type, set(labels), family.documentation)
    told = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in ROW.findall(PAGE.read_text())
    }
    assert told == known
