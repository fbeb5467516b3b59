"""The order of the queue is the operator's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cli import order
from controllers.pendingtask import order as operators
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
    ]
    tasks = [pendingtask.PendingTask.model_validate(objects.task(n, spec=spec, age=age)) for n, spec, age in told]
    names = [one.metadata.name for one in order.queue(tasks)]
    assert names == ["urgent", "foreground", "chat", "placed-1", "placed-2", "older", "old"]


@st.composite
def tasks(draw: st.DrawFn) -> pendingtask.PendingTask:
    """Any task, as far as the order cares."""
    name = draw(st.sampled_from(["a", "b", "c"]))
    raw: dict[str, Any] = objects.task(name, namespace=draw(st.sampled_from(["x", "y"])))
    raw["spec"]["type"] = draw(st.sampled_from(sorted(pendingtask.Type)))
    raw["spec"]["mode"] = draw(st.sampled_from(sorted(pendingtask.Mode)))
    raw["spec"]["queuePosition"] = draw(st.none() | st.integers(1, 5))
    seconds = draw(st.none() | st.integers(-3, 3))
    created = None if seconds is None else (objects.NOW + timedelta(seconds=seconds)).isoformat()
    raw["metadata"]["creationTimestamp"] = created
    return pendingtask.PendingTask.model_validate(raw)


@given(st.lists(tasks(), max_size=8))
def test_the_operator_would_say_the_same(some: list[pendingtask.PendingTask]) -> None:
    assert [order.place(one) for one in some] == [tuple(operators.of(one)) for one in some]


def test_waiting_is_neither_running_nor_ended() -> None:
    assert not order.WAITING & (phases.TERMINAL | phases.HOLDS_SLOT | {Phase.QUALIFYING, Phase.USER_TASK})
    assert order.phase(pendingtask.PendingTask.model_validate(objects.task())) is Phase.NEW
