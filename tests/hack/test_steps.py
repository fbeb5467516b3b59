"""Steps run beside each other, in the order of the longest path, each after what it needs."""

from __future__ import annotations

import threading

import pytest

from hack.cluster import steps
from hack.cluster.steps import Step
from tests import waiting


def test_a_step_starts_after_what_it_needs_and_beside_what_it_does_not() -> None:
    """The first two meet at a barrier, which they can only pass together."""
    met, ended = threading.Barrier(2, timeout=waiting.PATIENCE), list[str]()

    def meet(name: str) -> None:
        met.wait()
        ended.append(name)

    made = [
        Step("start", lambda: ended.append("start"), 1, ("build", "fetch")),
        Step("build", lambda: meet("build"), 100),
        Step("fetch", lambda: meet("fetch"), 5),
    ]
    steps.run(made)
    assert sorted(ended[:2]) == ["build", "fetch"]
    assert ended[2:] == ["start"]


def test_the_longest_path_goes_first() -> None:
    def nothing() -> None: ...

    made = [
        Step("helm", nothing, 70),
        Step("base", nothing, 10),
        Step("image", nothing, 80, ("base",)),
        Step("kubernetes", nothing, 290),
    ]
    assert [step.name for step in steps.in_order(made)] == ["kubernetes", "base", "image", "helm"]
    assert steps.total(made) == 0.75 * 450
    assert steps.total(made[3:]) == 290, "no sooner than its longest path"
    one_at_a_time: list[str] = []
    again = [Step(one.name, lambda name=one.name: one_at_a_time.append(name), one.seconds, one.needs) for one in made]  # type: ignore[misc]
    steps.run(again, workers=1)
    assert one_at_a_time == ["kubernetes", "base", "image", "helm"]


def test_after_a_failure_nothing_is_started() -> None:
    ended: list[str] = []

    def fail() -> None:
        raise ValueError("no space left")

    made = [Step("build", fail, 10), Step("start", lambda: ended.append("start"), 1, ("build",))]
    with pytest.raises(ValueError, match="no space left"):
        steps.run(made)
    assert ended == []
