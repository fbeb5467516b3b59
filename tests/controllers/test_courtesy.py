"""Housekeeping pauses in proportion to what it took, while somebody works."""

from __future__ import annotations

import pytest

from controllers.courtesy import MOST_SECONDS, SHARE, Courtesy


@pytest.mark.parametrize(
    ("engaged", "took", "paused"),
    [(True, 0.02, [0.02 * SHARE]), (True, 60.0, [MOST_SECONDS]), (False, 0.02, []), (True, 0.0, [0.0])],
)
async def test_the_pause_follows_from_the_step(engaged: bool, took: float, paused: list[float]) -> None:
    now, slept = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    polite = Courtesy(lambda: engaged, monotonic=lambda: now, sleep=sleep)
    begun = polite.begin()
    now += took
    await polite.after(begun)
    assert slept == pytest.approx(paused)
