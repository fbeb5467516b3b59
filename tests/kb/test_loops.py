"""A loop goes on after an error that was not foreseen, and ends when its task does."""

from __future__ import annotations

import asyncio

import prometheus_client
import pytest

from kb import loops, metrics


class Loop:
    """Fails as often as it has errors, then runs until it is cancelled, or returns."""

    def __init__(self, *errors: BaseException, ends: bool = True) -> None:
        self.errors = list(errors)
        self.ends = ends
        self.begun = 0
        self.runs = asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        if self.errors:
            raise self.errors.pop(0)
        self.runs.set()
        if not self.ends:
            await asyncio.Event().wait()


@pytest.fixture
def meters() -> metrics.Metrics:
    return metrics.Metrics(prometheus_client.CollectorRegistry())


def counted(meters: metrics.Metrics) -> float | None:
    return meters.registry.get_sample_value("jervis_kb_loop_errors_total", {"loop": "sweeps"})


async def test_begins_again_after_each_error_and_counts_them(meters: metrics.Metrics) -> None:
    # A driver cancels the calls on a channel that it closes; a group reports several errors as one.
    loop = Loop(KeyError("version"), asyncio.CancelledError(), ExceptionGroup("two", [ValueError(), KeyError()]))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await loops.keep("sweeps", loop.run, meters, pause=7.0, sleep=sleep)
    assert (loop.begun, slept, counted(meters)) == (4, [7.0, 7.0, 7.0], 3)


async def test_ends_with_its_task(meters: metrics.Metrics) -> None:
    loop = Loop(ends=False)
    task = asyncio.create_task(loops.keep("sweeps", loop.run, meters, pause=0))
    await loop.runs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (loop.begun, counted(meters)) == (1, None)
