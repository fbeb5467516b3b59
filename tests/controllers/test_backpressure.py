"""Housekeeping pauses in proportion to what it took, while somebody works."""

from __future__ import annotations

import pytest

from controllers.backpressure import MOST_SECONDS, SHARE, Backpressure, Schedule


@pytest.mark.parametrize(
    ("engaged", "took", "paused"),
    [(True, 0.02, [0.02 * SHARE]), (True, 60.0, [MOST_SECONDS]), (False, 0.02, []), (True, 0.0, [0.0])],
)
async def test_the_pause_follows_from_the_step(engaged: bool, took: float, paused: list[float]) -> None:
    now, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    throttle = Backpressure(lambda: engaged, monotonic=lambda: now, sleep=sleep)
    begun = throttle.begin()
    now += took
    await throttle.after(begun)
    assert slept == pytest.approx(paused)


@pytest.mark.parametrize(("spare", "paused"), [(10.0, 0.06), (0.05, 0.05), (0.0, 0.0)])
async def test_the_pause_is_no_longer_than_the_schedule_has_to_spare(spare: float, paused: float) -> None:
    now, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    throttle = Backpressure(lambda: True, monotonic=lambda: now, sleep=sleep)
    begun = throttle.begin()
    now += 0.02
    await throttle.after(begun, spare)
    assert slept == pytest.approx([paused])


def test_a_schedule_spares_what_its_share_of_the_time_leaves() -> None:
    now = 100.0
    schedule = Schedule(200, 10.0, monotonic=lambda: now)
    assert schedule.spare(50) == pytest.approx(2.5)
    now += 2.0
    assert schedule.spare(50) == pytest.approx(0.5)
    assert schedule.spare(20) == 0.0, "late: no pause"
    assert schedule.spare(500) == pytest.approx(8.0), "more than there was counts as all of it"
