"""The archive keeps up with live work that never ends, and yields to it: a real apiserver, the test's clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import kube
from controllers import metrics, periodic
from controllers.archive import reconcile, sweep
from tests import waiting
from tests.operator.conftest import Space
from tests.operator.housekeeping import Open, ended, opened

__all__ = ["opened"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]

RATE = 45
SECONDS = 20
EVERY = 4.0
REQUEST_SECONDS = 0.002
"""What each request of the archivist takes by the test's clock."""


class Arrivals:
    """The test's clock: requests and pauses of the archivist move it on, and at each pause what has ended is made."""

    def __init__(self) -> None:
        self.now, self.made, self.requests = 0.0, 0, Counter[str]()
        self.over = asyncio.Event()
        self.most: list[int] = []

    def counted(self, verb: str, _: int) -> None:
        self.requests[verb] += 1
        self.now += REQUEST_SECONDS

    def due(self) -> range:
        """The numbers of the tasks that have ended meanwhile."""
        first, self.made = self.made, min(RATE * SECONDS, int(RATE * self.now))
        return range(first, self.made)


async def test_finished_tasks_do_not_pile_up_under_a_load_that_never_ends(
    opened: Open, space: Space, database: Any
) -> None:
    """45 a second for twenty seconds, all of one client that may keep 50; there is live work all the time."""
    arrivals = Arrivals()

    async def sleep(seconds: float) -> None:
        arrivals.now += seconds
        new = arrivals.due()
        for start in range(new.start, new.stop, 16):
            some = range(start, min(start + 16, new.stop))
            await asyncio.gather(
                *(ended(here, space, f"t{number:05}", datetime.now(UTC)) for number in some),
            )
        archived = int(here.metric("archived_total"))
        deleted = int(here.metric("deleted_total", why="Crowded"))
        arrivals.most.append(arrivals.made - deleted)
        if arrivals.made == RATE * SECONDS and archived >= arrivals.made and deleted >= arrivals.made - 50:
            arrivals.over.set()
            await asyncio.Event().wait()

    async with opened(
        terms=sweep.Terms(per_client=50),
        pace=reconcile.Pace(every=EVERY),
        busy=lambda: True,
        monotonic=lambda: arrivals.now,
        sleep=sleep,
        counted=arrivals.counted,
    ) as here:
        leading = asyncio.Event()
        leading.set()
        measured = metrics.Metrics(CollectorRegistry())
        loop = periodic.Periodic("archive", here.archivist.reconcile_once, EVERY, measured, sleep=sleep)
        working = asyncio.create_task(loop.run(leading))
        async with asyncio.timeout(waiting.PATIENCE):
            await arrivals.over.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    total = RATE * SECONDS
    assert database["task_archive"].count_documents({}) == total
    assert len(space.every()) == 50
    # Two rounds' arrivals at the most, and what may stay.
    assert max(arrivals.most) <= 50 + 3 * EVERY * RATE
    assert arrivals.now <= SECONDS + 4 * EVERY, "it ends with the load"
    assert arrivals.requests["PATCH"] + arrivals.requests["DELETE"] <= 2 * total
    assert arrivals.requests["GET"] <= 0.2 * total, "lists only: no object is read by itself"


async def test_a_finished_object_is_read_again_when_it_has_changed(opened: Open, space: Space, database: Any) -> None:
    sent: list[str] = []

    def asked() -> Counter[str]:
        found = Counter(sent)
        sent.clear()
        return found

    async with opened(counted=lambda verb, code: sent.append(verb)) as here:
        for number in range(12):
            await ended(here, space, f"t{number}", datetime.now(UTC), content=f"text {number}")
        await here.archivist.sweep_once()
        assert asked() == {"GET": 6, "PATCH": 12}, "heads of three phases, and what to archive of three phases"
        assert here.metric("finished_tasks", archived="true") == 12
        assert here.metric("finished_tasks", archived="false") == 0
        stored = {one["name"]: one["object"]["spec"]["content"] for one in database["task_archive"].find()}
        assert stored == {f"t{number}": f"text {number}" for number in range(12)}
        await here.archivist.sweep_once()
        assert asked() == {"GET": 3}, "nothing is new or left to archive: no object is read"
        await here.api.merge(kube.TASKS, space.name, "t3", {"spec": {"ttlSecondsAfterFinished": 0}})
        await here.archivist.sweep_once()
        assert asked() == {"GET": 5}, "the one that has changed, and once more to archive it as it is"
        await here.archivist.sweep_once()
        assert asked() == {"GET": 3, "DELETE": 1}
    assert {one["metadata"]["name"] for one in space.every()} == {f"t{number}" for number in range(12) if number != 3}


async def test_the_first_sweep_after_a_start_reads_what_is_marked_already(opened: Open, space: Space) -> None:
    async with opened() as here:
        for number in range(3):
            await ended(here, space, f"t{number}", datetime.now(UTC), ttlSecondsAfterFinished=60 + 3600 * number)
        await here.archivist.sweep_once()
    later = datetime.now(UTC) + timedelta(minutes=4)
    async with opened(wall=lambda: later) as here:
        await here.archivist.sweep_once()
        assert here.metric("finished_tasks", archived="true") == 2
    assert {one["metadata"]["name"] for one in space.every()} == {"t1", "t2"}


@pytest.mark.parametrize(("every", "pauses"), [(30.0, [0.6, 0.6, 0.6]), (0.4, [0.0, 0.0])])
async def test_a_sweep_pauses_after_each_step_unless_it_is_late(
    opened: Open, space: Space, database: Any, every: float, pauses: list[float]
) -> None:
    """Each look at the clock takes a tenth of a second; a step that has a schedule takes two looks.

    After a late step the rest of the page is one.
    """
    names = {f"t{number:02}" for number in range(2 * reconcile.STEP + 1)}
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    ticks = iter(range(1000))
    async with opened(
        pace=reconcile.Pace(every=every),
        busy=lambda: True,
        monotonic=lambda: next(ticks) / 10,
        sleep=pause,
    ) as here:
        for name in sorted(names):
            await ended(here, space, name, datetime.now(UTC))
        await here.archivist.sweep_once()
    assert {one["name"] for one in database["task_archive"].find()} == names
    assert paused[:3] == pytest.approx([min(0.3, every / 60)] * 3), "after the metadata of each phase"
    assert paused[3:] == pytest.approx(pauses)
