"""GpuBackends: which of them offer slots, and when runs of those that stop serving are stopped."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from controllers import periodic
from controllers.gpubackend import absence, decide
from crds import errors, gpubackend
from tests import waiting


class Clock:
    """Seconds, in hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_backend_that_stops_serving_is_expected_back_for_a_while_with_the_slots_that_it_had() -> None:
    clock = Clock()
    missing = absence.Absence(clock, 60)
    assert not missing.offered({"gpu-0": 2, "gpu-1": 1})
    assert missing.expected() == {}
    assert missing.offered({"gpu-1": 1}), "one has left"
    assert missing.expected() == {"gpu-0": 2}
    clock.now += 59
    assert not missing.offered({"gpu-1": 1}), "it left once"
    assert missing.expected() == {"gpu-0": 2}
    clock.now += 1
    assert missing.expected() == {}


def test_a_backend_that_serves_again_is_not_expected_and_has_its_whole_patience_the_next_time() -> None:
    clock = Clock()
    missing = absence.Absence(clock, 60)
    missing.offered({"gpu-0": 2})
    missing.offered({})
    clock.now += 50
    missing.offered({"gpu-0": 3})
    assert missing.expected() == {}
    missing.offered({})
    clock.now += 50
    assert missing.expected() == {"gpu-0": 3}


async def test_who_waits_is_told_when_the_patience_has_ended_also_if_the_timer_was_early() -> None:
    clock, told = Clock(), asyncio.Event()
    missing = absence.Absence(clock, 0.01)
    missing.offered({"gpu-0": 2})
    missing.offered({})
    missing.call_at_end(told.set)
    await asyncio.sleep(0.05)
    assert not told.is_set(), "by the clock the patience has not ended"
    clock.now += 0.01
    async with asyncio.timeout(waiting.PATIENCE):
        await told.wait()
    assert missing.expected() == {}


@pytest.mark.parametrize("reading", range(1, 8))
async def test_an_end_between_any_two_readings_of_the_clock_is_told(reading: int) -> None:
    """uvloop's timers are early by up to a millisecond, so the patience may end while the timer's callback runs."""
    told, readings = asyncio.Event(), itertools.count()
    missing = absence.Absence(lambda: 101.0 if over and next(readings) >= reading else 100.0, 0.01)
    over = False
    missing.offered({"gpu-0": 2})
    missing.offered({})
    missing.call_at_end(told.set)
    over = True
    async with asyncio.timeout(waiting.PATIENCE):
        await told.wait()


async def test_each_end_is_told_once() -> None:
    clock, calls, told = Clock(), [0], asyncio.Event()

    def changed() -> None:
        calls[0] += 1
        told.set()

    missing = absence.Absence(clock, 0.02)
    missing.offered({"gpu-0": 2, "gpu-1": 1})
    missing.offered({"gpu-1": 1})
    missing.call_at_end(changed)
    clock.now += 0.01
    missing.offered({})
    missing.call_at_end(changed)
    for _ in range(2):
        clock.now += 0.01
        told.clear()
        async with asyncio.timeout(waiting.PATIENCE):
            await told.wait()
    await asyncio.sleep(0.05)
    assert calls == [2]


@pytest.mark.parametrize(
    ("entries", "model", "installed", "meant"),
    [
        (["qwen3"], "qwen3:latest", ["qwen3:latest"], True),
        (["qwen3"], "qwen3", None, True),
        (["Qwen3"], "qwen3", None, True),
        (["qwen2.5:*"], "qwen2.5:7b", ["qwen2.5:7b"], True),
        (["qwen2.5:*"], "qwen2.5:7b", ["qwen2.5:14b"], False),
        (["qwen2.5:*"], "qwen2.5:7b", None, False),
        (["qwen2.5:*"], "qwen3:7b", ["qwen3:7b"], False),
        ([], "qwen3", ["qwen3:latest"], False),
    ],
)
def test_which_model_the_sets_of_a_backend_mean(
    entries: list[str], model: str, installed: Iterable[str] | None, meant: bool
) -> None:
    sets: list[dict[str, Any]] = [{"name": "a", "models": [{"name": name} for name in entries]}] if entries else []
    known = gpubackend.GpuBackend.model_validate(
        {"metadata": {"name": "g"}, "spec": {"url": "http://gpu:11434", "modelSets": sets}}
    )
    assert decide.has(known, model, None if installed is None else frozenset(installed)) is meant


@pytest.mark.parametrize(("engine", "offered"), [("Ollama", True), ("OpenAI", False)])
def test_runs_are_booked_on_servers_that_speak_their_api(engine: str, offered: bool) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Serving", "lastTransitionTime": "2026-11-24T00:00:00Z"}
    known = gpubackend.GpuBackend.model_validate(
        {
            "metadata": {"name": "g"},
            "spec": {"url": "http://gpu:8000", "engine": engine},
            "status": {"conditions": [ready]},
        }
    )
    assert (decide.offers(known), decide.serves(known), decide.ready(known)) == (offered, offered, True)


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
        await self.served.ask_router()
        return self.served.gone_in("gpu-0")


async def test_the_router_is_asked_while_a_booked_backend_is_missing(bench: Bench) -> None:
    every, woken = absence.EVERY_SECONDS, periodic.WHEN_WOKEN
    assert await bench.served.reconcile_once() == woken
    assert bench.served.gone_in("gpu-0") is not None
    assert bench.served.asked_for.is_set()
    bench.router = frozenset({"gpu-0"})
    assert await bench.served.reconcile_once() == (every,)
    assert bench.changes == 1
    bench.now += 2
    assert await bench.served.reconcile_once() == (every - 2,), "it was asked two seconds ago"
    bench.missing = False
    bench.now += every
    assert await bench.served.reconcile_once() == woken
    bench.missing = True
    assert await bench.served.reconcile_once() == woken, "no run has asked since"


async def test_a_backend_that_the_router_serves_is_not_gone(bench: Bench) -> None:
    bench.router = frozenset({"gpu-0"})
    assert [await bench.gone_in(step) for step in (0, 60, 600)] == [None, None, None]


async def test_one_that_the_router_misses_too_is_gone_after_the_patience(bench: Bench) -> None:
    bench.router = frozenset({"gpu-1"})
    assert [await bench.gone_in(step) for step in (0, 12, 47, 1)] == [60, 48, 1, 0]


async def test_without_the_router_s_word_the_patience_is_three_times_as_long(bench: Bench) -> None:
    assert [await bench.gone_in(step) for step in (0, 60, 119, 1)] == [180, 120, 1, 0]


async def test_an_old_word_of_the_router_counts_as_none(bench: Bench) -> None:
    bench.router = frozenset({"gpu-0"})
    assert await bench.gone_in(0) is None
    bench.now += 100
    assert bench.served.gone_in("gpu-0") == 80


async def test_a_restart_of_the_backend_begins_anew(bench: Bench) -> None:
    bench.router = frozenset()
    assert await bench.gone_in(0) == 60
    bench.missing = False
    assert await bench.gone_in(50) is None
    bench.missing = True
    assert await bench.gone_in(50) == 60


async def test_a_change_of_the_router_s_word_is_told_once(bench: Bench) -> None:
    bench.router = frozenset({"gpu-0"})
    for _ in range(3):
        await bench.gone_in(1)
    assert bench.changes == 1
    bench.router = None
    await bench.gone_in(1)
    assert bench.changes == 2


@pytest.mark.parametrize("name", ["", "gpu-0"])
def test_what_is_not_missing_is_not_gone(bench: Bench, name: str) -> None:
    bench.missing = name == ""
    assert bench.served.gone_in(name) is None
