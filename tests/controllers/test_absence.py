"""When runs are stopped because their backend is gone: after the router confirms it, or after a long silence."""

from __future__ import annotations

import pytest

from controllers.gpubackend import absence
from crds import errors


class Bench:
    """Backend gpu-0 is missing for the operator; the router serves what stands in `router`; None: no answer."""

    def __init__(self) -> None:
        self.now, self.missing, self.changes = 100.0, True, 0
        self.router: frozenset[str] | None = None
        self.served = absence.ServedBackends(
            lambda name: self.missing,
            self.ask,
            booked=lambda: frozenset({"gpu-0"}),
            changed=self.changed,
            patience=60.0,
            monotonic=lambda: self.now,
        )

    async def ask(self) -> frozenset[str] | None:
        if self.router is None:
            raise errors.Operational("no answer")
        return self.router

    def changed(self) -> None:
        self.changes += 1

    async def gone_in(self, seconds: float) -> float | None:
        """The answer so many seconds later, the router having just been asked."""
        self.now += seconds
        await self.served.once()
        return self.served.gone_in("gpu-0")


async def test_a_backend_that_the_router_serves_is_not_gone() -> None:
    bench = Bench()
    bench.router = frozenset({"gpu-0"})
    assert [await bench.gone_in(step) for step in (0, 60, 600)] == [None, None, None]


async def test_one_that_the_router_misses_too_is_gone_after_the_patience() -> None:
    bench = Bench()
    bench.router = frozenset({"gpu-1"})
    assert [await bench.gone_in(step) for step in (0, 12, 47, 1)] == [60, 48, 1, 0]


async def test_without_the_router_s_word_the_patience_is_three_times_as_long() -> None:
    bench = Bench()
    assert [await bench.gone_in(step) for step in (0, 60, 119, 1)] == [180, 120, 1, 0]


async def test_an_old_word_of_the_router_counts_as_none() -> None:
    bench = Bench()
    bench.router = frozenset({"gpu-0"})
    assert await bench.gone_in(0) is None
    bench.now += 100
    assert bench.served.gone_in("gpu-0") == 80


async def test_a_restart_of_the_backend_begins_anew() -> None:
    bench = Bench()
    bench.router = frozenset()
    assert await bench.gone_in(0) == 60
    bench.missing = False
    assert await bench.gone_in(50) is None
    bench.missing = True
    assert await bench.gone_in(50) == 60


async def test_a_change_of_the_router_s_word_is_told_once() -> None:
    bench = Bench()
    bench.router = frozenset({"gpu-0"})
    for _ in range(3):
        await bench.gone_in(1)
    assert bench.changes == 1
    bench.router = None
    await bench.gone_in(1)
    assert bench.changes == 2


@pytest.mark.parametrize("name", ["", "gpu-0"])
def test_what_is_not_missing_is_not_gone(name: str) -> None:
    bench = Bench()
    bench.missing = name == ""
    assert bench.served.gone_in(name) is None
