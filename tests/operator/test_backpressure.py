"""A sweep against the real apiserver and MongoDB pauses between its steps, unless it is late."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controllers.archive import reconcile
from tests.operator.conftest import Space
from tests.operator.housekeeping import ended, house

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


@pytest.mark.parametrize(("every", "pauses"), [(30.0, [0.6, 0.6, 0.6]), (0.4, [0.0, 0.0])])
async def test_a_sweep_pauses_after_each_step_unless_it_is_late(
    space: Space,
    database: Any,
    kubeconfig: Path,
    mongodb_uri: str,
    every: float,
    pauses: list[float],
) -> None:
    """Each look at the clock takes a tenth of a second; a step that has a schedule takes two looks.

    After a late step the rest of the page is one.
    """
    names = {f"t{number:02}" for number in range(2 * reconcile.STEP + 1)}
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    ticks = iter(range(1000))
    async with house(
        space,
        kubeconfig,
        mongodb_uri,
        pace=reconcile.Pace(every=every),
        busy=lambda: True,
        monotonic=lambda: next(ticks) / 10,
        sleep=pause,
    ) as here:
        for name in sorted(names):
            await ended(here, space, name, datetime.now(UTC))
        await here.archivist.once()
    assert {one["name"] for one in database["task_archive"].find()} == names
    assert paused[:4] == pytest.approx([min(0.3, every / 60)] * 4), "after the metadata of each phase, and what is new"
    assert paused[4:] == pytest.approx(pauses)
