"""The loop type: what it does after a pass, after each kind of error, and when it is woken; and the list of loops."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest

import controllers
from clients import backoff
from controllers import metrics, periodic
from controllers.gpubackend import absence
from controllers.pendingtask.slots import router_use
from controllers.runtime import app, loops
from crds import errors
from kube import lease
from tests import waiting
from tests.controllers.test_settings_arrive import runtime

__all__ = ["runtime"]

ROOT = Path(controllers.__file__).parent
ENDLESS = {
    "connection/reconcile.py:work",
    "events.py:run",
    "gpubackend/reconcile.py:work",
    "health.py:tick",
    "pendingtask/reconcile.py:work",
    "periodic.py:run",
    "resync.py:run",
}
"""Coroutines that never return: workers of queues, the tick of the probe, the comparison of what is watched, and the
loop type itself."""


class Ended(Exception):  # noqa: N818 - no error: the end of a test
    """All passes are done."""


class Passes:
    """A controller whose passes end as listed: with an error, or with when the next one is due. Its clock moves by what
    its loop sleeps, and by a second in each pass."""

    def __init__(self, *ends: Exception | periodic.RequeueAfter | None) -> None:
        self.ends, self.slept, self.now, self.passes = list(ends), list[float](), 0.0, 0
        self.registry = prometheus_client.CollectorRegistry()
        self.measured = metrics.Metrics(self.registry)

    async def reconcile_once(self) -> periodic.RequeueAfter | None:
        self.passes += 1
        self.now += 1
        if not self.ends:
            raise AssertionError("no more passes")
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if not self.ends:
            raise Ended

    def loop(self, *, leads: bool = True, retry: backoff.Doubling | None = None) -> periodic.Periodic:
        return periodic.Periodic(
            "tried",
            self.reconcile_once,
            10.0,
            self.measured,
            leads=leads,
            retry=retry,
            monotonic=lambda: self.now,
            sleep=self.sleep,
        )

    def count(self, retry: str) -> float | None:
        return self.registry.get_sample_value("jervis_operator_loop_errors_total", {"loop": "tried", "retry": retry})

    def ours(self) -> float | None:
        return self.registry.get_sample_value("jervis_operator_reconcile_failures_total")


def set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def ran(passes: Passes, retry: backoff.Doubling | None = None) -> list[float]:
    """What the loop slept between its passes."""
    with pytest.raises(Ended):
        await passes.loop(retry=retry).run(set_event())
    return passes.slept


async def test_it_waits_for_its_interval_or_for_what_a_pass_says() -> None:
    passes = Passes(None, periodic.RequeueAfter(0.5), None)
    assert await ran(passes) == [10.0, 0.5, 10.0]
    labels = {"loop": "tried"}
    assert passes.registry.get_sample_value("jervis_operator_loop_seconds_count", labels) == 3
    assert passes.registry.get_sample_value("jervis_operator_loop_seconds_sum", labels) == 3


@pytest.mark.parametrize(
    ("error", "retry", "ours"),
    [
        (errors.Operational("away"), "operational", 0),
        (lease.Fenced("no lease"), "operational", 0),
        (errors.Permanent("never"), "permanent", 0),
        (KeyError("ours"), "failed", 1),
        (ExceptionGroup("two", [ValueError(), KeyError()]), "failed", 1),
    ],
)
async def test_it_goes_on_after_an_error_which_is_counted_by_its_retry_meaning(
    error: Exception, retry: str, ours: int
) -> None:
    passes = Passes(error, None)
    assert await ran(passes) == [10.0, 10.0]
    counted = {name: passes.count(name) for name in ("operational", "permanent", "failed")}
    assert counted == {**dict.fromkeys(counted), retry: 1}
    assert passes.ours() == ours
    assert passes.registry.get_sample_value("jervis_operator_loop_seconds_count", {"loop": "tried"}) == 2


async def test_errors_in_a_row_make_it_slower_and_a_pass_without_one_ends_that() -> None:
    away = [errors.Operational("away"), KeyError("ours"), errors.Permanent("never")]
    passes = Passes(*away, *away[:3], None, away[0], None)
    assert await ran(passes, periodic.growing(10.0)) == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 10.0, 10.0, 10.0]


def test_an_interval_above_the_longest_delay_is_kept() -> None:
    assert [periodic.growing(900.0).delay(count) for count in (1, 2, 9)] == [900.0] * 3


async def test_a_loop_that_leads_waits_for_the_lease_and_another_does_not() -> None:
    leading, stands_by, leads = asyncio.Event(), Passes(None), Passes(None)
    with pytest.raises(Ended):
        await stands_by.loop(leads=False).run(leading)
    waits = asyncio.create_task(leads.loop().run(leading))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert leads.passes == 0
    leading.set()
    with pytest.raises(Ended):
        await waits


async def test_it_is_cancelled_at_once() -> None:
    started = asyncio.Event()

    async def hangs() -> None:
        started.set()
        await asyncio.Event().wait()

    loop = periodic.Periodic("tried", hangs, 10.0, metrics.Metrics(prometheus_client.CollectorRegistry()))
    running = asyncio.create_task(loop.run(set_event()))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_wakes_it_begins_the_next_pass_at_once_also_if_it_came_during_the_last_one() -> None:
    wake, passes = asyncio.Event(), asyncio.Queue[int]()
    number = 0

    async def reconcile_once() -> periodic.RequeueAfter:
        nonlocal number
        number += 1
        if number == 1:
            wake.set()
        passes.put_nowait(number)
        return periodic.WHEN_WOKEN

    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    loop = periodic.Periodic("tried", reconcile_once, math.inf, measured, wake=wake)
    running = asyncio.create_task(loop.run(set_event()))
    async with asyncio.timeout(waiting.PATIENCE):
        assert [await passes.get(), await passes.get()] == [1, 2]
        await asyncio.sleep(0.01)
        assert passes.empty(), "nothing wakes it"
        wake.set()
        assert await passes.get() == 3
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# -- the list ----------------------------------------------------------------------------------------------------------


def controllers_with_a_pass() -> Iterator[type]:
    """Every class of the operator that has a pass."""
    for module in pkgutil.walk_packages(controllers.__path__, "controllers."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and callable(vars(cls).get("reconcile_once")):
                yield cls


def listed(runtime: app.Runtime, **switches: bool) -> list[periodic.Periodic]:
    """The loops of an operator that has everything switched on, or of one with those switches."""
    ctx = runtime._wiring
    ctx.config = ctx.config.model_copy(update={"outcomes": True, "notices": True, "reserve_gpu": True, **switches})
    return list(loops.loops(ctx))


async def test_every_controller_with_a_pass_is_in_the_list(runtime: app.Runtime) -> None:
    names = {type(loop.reconcile_once.__self__) for loop in listed(runtime)}  # type: ignore[attr-defined]
    assert names == set(controllers_with_a_pass()), "a new loop is a row of controllers.runtime.loops"


async def test_a_loop_is_left_out_where_a_setting_says_so(runtime: app.Runtime) -> None:
    every = [loop.name for loop in listed(runtime)]
    assert len(every) == len(set(every)) == 16
    for switch, name in (("outcomes", "outcomes"), ("notices", "notices"), ("reserve_gpu", "reservation")):
        assert [name] == [one for one in every if one not in {loop.name for loop in listed(runtime, **{switch: False})}]


async def test_only_questions_to_the_router_are_asked_without_the_lease(runtime: app.Runtime) -> None:
    standing_by = {type(loop.reconcile_once.__self__) for loop in listed(runtime) if not loop.leads}  # type: ignore[attr-defined]
    assert standing_by == {router_use.UserActivity, router_use.GpuReservation, absence.ServedBackends}


def endless(path: Path) -> Iterator[str]:
    """The coroutines of a module that never return by themselves."""
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for loop in ast.walk(function):
            unending = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant)
            if unending and not any(isinstance(node, ast.Return | ast.Break) for node in ast.walk(loop)):
                yield f"{path.relative_to(ROOT)}:{function.name}"


def test_no_other_loop_is_written_by_hand() -> None:
    assert {name for path in sorted(ROOT.rglob("*.py")) for name in endless(path)} == ENDLESS
