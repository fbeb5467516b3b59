"""A watch is alive when bytes arrive, and only then; docs/metrics.md says what is exported."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from controllers import health, metrics
from controllers.metrics import Metrics
from kube import beats


class Pulse:
    def __init__(self) -> None:
        self.silent, self.running = 0.0, True

    def alive(self) -> bool:
        return self.running

    def silent_for(self) -> float:
        return self.silent


async def test_liveness_names_what_is_wrong() -> None:
    now, pulse = [0.0], Pulse()
    heard = beats.Beats(lambda: now[0])
    heard.expect("/tasks")
    heard.expect("/jobs")
    known = health.Health(
        heard,
        pulse,
        Metrics(CollectorRegistry()),
        namespaces=lambda: {"team-a": "forbidden"},
        silence=90,
        monotonic=lambda: now[0],
        gauges=lambda: None,
    )
    assert known.missing() == ["the custom resource definitions are not there yet"]
    assert known.problems() == [], "waiting for the definitions is no reason to be restarted"
    known.begun()
    heard.beat("/tasks")
    assert known.missing() == ["the watch of /jobs has not begun"]
    heard.beat("/jobs")
    assert known.missing() == []
    ticking = asyncio.create_task(known.tick())
    now[0] = 60.0
    heard.beat("/tasks")
    now[0] = 100.0
    assert any("loop" in problem for problem in known.problems())
    await asyncio.sleep(health.LAG_PERIOD * 1.5)
    assert known.problems() == ["the watch of /jobs last received data 100 s ago"]
    heard.beat("/jobs")
    assert known.problems() == []
    pulse.silent = 91.0
    assert known.problems() == ["the Kubernetes API has not answered about the lease for 91 s"]
    pulse.running = False
    assert known.problems() == ["the lease's thread has ended"]
    ticking.cancel()


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
