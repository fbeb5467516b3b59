"""A model whose cosines lie in another range gives the same ranking."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.priority import Priority
from kb import metrics
from kb.retrieve import calibration
from kb.vectors import embedding
from router import client as router_client
from tests.fakes.ollama import process

_AXES = [[1.0 if at == axis else 0.0 for at in range(6)] for axis in range(6)]


def shifted(vector: list[float], by: float) -> list[float]:
    """The vector of a model whose cosines are all larger: it has a part that all texts have in common."""
    return [*vector, by * math.hypot(*vector)]


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@given(st.floats(0, 3), st.lists(st.floats(0.1, 1), min_size=6, max_size=6))
def test_what_all_texts_have_in_common_does_not_count(by: float, text: list[float]) -> None:
    floor = calibration.floor_of([shifted(axis, by) for axis in _AXES])
    raised = cosine(shifted(text, by), shifted(_AXES[0], by))
    assert calibration.scaled(raised, floor) == pytest.approx(cosine(text, _AXES[0]), abs=1e-6)


def test_a_floor_is_never_below_nothing_and_one_stays_one() -> None:
    assert calibration.floor_of([[1.0, 0.0], [-1.0, 0.0]]) == 0.0
    assert calibration.scaled(1.0, 0.4) == 1.0
    assert calibration.scaled(0.4, 0.4) == 0.0


async def test_a_model_is_measured_once(
    router: router_client.Client, fake: process.Fake, meters: metrics.Metrics
) -> None:
    measured = calibration.Calibration(embedding.Embedder(router, "qwen3-embedding:8b", meters))
    floors = await asyncio.gather(*(measured.floor(Priority.P0) for _ in range(3)))
    assert len(set(floors)) == 1
    assert 0.0 <= floors[0] < 0.15
    embedded = meters.embedded._value.get()
    await measured.floor(Priority.P0)
    assert meters.embedded._value.get() == embedded == 10
