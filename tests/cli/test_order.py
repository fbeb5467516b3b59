"""The order of the queue."""

from __future__ import annotations

from typing import Any

from cli import order
from crds import pendingtask, phases
from crds.phases import Phase
from tests.cli import objects


def test_foreground_then_position_then_age() -> None:
    told = [
        ("old", {}, 90),
        ("placed-2", {"queuePosition": 2}, 10),
        ("placed-1", {"queuePosition": 1}, 5),
        ("chat", {"type": "UserInputProcessing"}, 1),
        ("foreground", {"mode": "Foreground"}, 2),
        ("urgent", {"mode": "Foreground", "queuePosition": 9}, 0),
        ("older", {}, 95),
        ("ours", {}, 3),
    ]
    high: dict[str, Any] = {"route": {"decision": "ExecuteHigh"}}
    raws = [objects.task(n, spec=spec, age=age, status=high if n == "ours" else None) for n, spec, age in told]
    tasks = [pendingtask.PendingTask.model_validate(raw) for raw in raws]
    names = [one.metadata.name for one in sorted(tasks, key=order.of)]
    assert names == ["urgent", "foreground", "chat", "placed-1", "placed-2", "ours", "older", "old"]


def test_waiting_is_neither_running_nor_ended() -> None:
    assert not order.WAITING & (phases.TERMINAL | phases.HOLDS_SLOT | {Phase.QUALIFYING, Phase.USER_TASK})
    assert order.phase(pendingtask.PendingTask.model_validate(objects.task())) is Phase.NEW
