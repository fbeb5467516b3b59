"""The router as the slots use it: users' activity, asked only when needed, and the GPU reserved for users' runs."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from controllers import periodic
from controllers.pendingtask.slots import router_use
from crds import errors
from router import client
from tests.controllers.build import NOW


class Router:
    """Answers, or does not."""

    def __init__(self) -> None:
        self.last: datetime | None = None
        self.on: dict[str, datetime] = {}
        self.error: Exception | None = None

    async def __call__(self) -> router_use.Seen:
        if self.error is not None:
            raise self.error
        return router_use.Seen(self.last, self.on)


class Bench:
    def __init__(self) -> None:
        self.now, self.router, self.heard = NOW, Router(), list[bool]()
        self.changes, self.needed = 0, True
        self.users = router_use.UserActivity(
            self.router,
            needed=lambda: self.needed,
            changed=self.changed,
            answered=self.heard.append,
            wall=lambda: self.now,
            monotonic=lambda: self.now.timestamp(),
        )

    def changed(self) -> None:
        self.changes += 1


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_until_it_has_answered_it_is_in_doubt(bench: Bench) -> None:
    assert bench.users.in_doubt_since is None, "no task asks"
    bench.users.wanted()
    assert bench.users.in_doubt_since == NOW
    bench.now += timedelta(seconds=1)
    bench.users.wanted()
    assert bench.users.in_doubt_since == NOW, "the doubt is not renewed by others who wait"
    bench.router.last = NOW - timedelta(seconds=5)
    await bench.users.ask_router()
    assert (bench.users.in_doubt_since, bench.users.last) == (None, NOW - timedelta(seconds=5))
    assert (bench.heard, bench.changes) == ([True], 1)
    bench.users.wanted()
    assert bench.users.in_doubt_since is None, "that was a moment ago"
    bench.now += timedelta(minutes=1)
    bench.users.wanted()
    assert bench.users.in_doubt_since == bench.now, "that was a minute ago"


@pytest.mark.parametrize("error", [errors.Operational("away"), TimeoutError()])
async def test_silence_counts_from_its_beginning(bench: Bench, error: Exception) -> None:
    bench.router.error = error
    bench.users.wanted()
    for _ in range(3):
        await bench.users.ask_router()
        bench.now += timedelta(seconds=3)
        bench.users.wanted()
    assert bench.users.in_doubt_since == NOW
    assert bench.heard == [False, False, False]
    bench.router.error = None
    await bench.users.ask_router()
    assert bench.users.in_doubt_since is None


async def test_its_loop_asks_once_each_few_seconds_from_when_it_is_wanted_until_it_is_not_needed(bench: Bench) -> None:
    every, woken = router_use.ASK_EVERY_SECONDS, periodic.WHEN_WOKEN
    assert await bench.users.reconcile_once() == woken
    assert bench.heard == [], "Background work waits, and no task has asked"
    bench.users.wanted()
    assert bench.users.asked_for.is_set()
    assert await bench.users.reconcile_once() == (every,)
    bench.now += timedelta(seconds=1)
    bench.users.wanted()
    assert await bench.users.reconcile_once() == (every - 1,), "it was asked a second ago"
    assert len(bench.heard) == 1
    bench.now += timedelta(seconds=every - 1)
    assert await bench.users.reconcile_once() == (every,), "it is needed still"
    bench.needed = False
    bench.now += timedelta(seconds=every)
    assert await bench.users.reconcile_once() == woken
    bench.needed = True
    assert await bench.users.reconcile_once() == woken, "no task has asked since"
    assert len(bench.heard) == 2


async def test_a_clock_ahead_of_ours_does_not_reach_into_the_future(bench: Bench) -> None:
    bench.router.last = NOW + timedelta(minutes=5)
    await bench.users.ask_router()
    assert bench.users.last == NOW


async def test_no_request_is_made_without_a_router() -> None:
    def ignore(*_: object) -> None:
        raise AssertionError("nothing to tell")

    users = router_use.UserActivity(
        None, needed=lambda: True, changed=ignore, answered=ignore, wall=lambda: NOW, monotonic=lambda: 0.0
    )
    users.wanted()
    assert users.in_doubt_since is None


async def test_a_request_that_no_backend_is_known_to_serve_is_told_apart(bench: Bench) -> None:
    early, late = NOW - timedelta(seconds=9), NOW - timedelta(seconds=5)
    for last, on, unplaced in (
        (late, {}, late),
        (late, {"gpu-0": early}, late),
        (late, {"gpu-0": early, "gpu-1": late}, None),
        (None, {}, None),
        (late, {"gpu-0": NOW + timedelta(seconds=5)}, None),
    ):
        bench.router.last, bench.router.on = last, on
        await bench.users.ask_router()
        assert (bench.users.last, bench.users.unplaced) == (last, unplaced)
        assert bench.users.last_on == {name: min(at, NOW) for name, at in on.items()}


_READY = {"status": "ready", "leaseId": "l", "backend": "gpu-0", "modelSet": "a", "until": "2026-01-01T00:00:00Z"}


class Reservations:
    """Plays the router's two paths."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answer: tuple[int, Any] = (200, _READY)
        self.loading: asyncio.Event | None = None

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.rpartition("/")[2]
        self.asked.append((path, json.loads(request.content)))
        if self.loading is not None:
            await self.loading.wait()
        if path == "release" and self.answer[0] == 200:
            return httpx.Response(200, json={"status": "released", "released": True})
        return httpx.Response(self.answer[0], json=self.answer[1])


class Scene:
    """A keeper, its router and its clock."""

    def __init__(self) -> None:
        self.router, self.now, self.wanted = Reservations(), 1000.0, False
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.router))
        self.keeper = router_use.GpuReservation(
            client.Client("http://router", http),
            owner="operator of jervis",
            model="big",
            wanted=lambda: self.wanted,
            monotonic=lambda: self.now,
        )

    async def pass_time(self, seconds: float) -> list[str]:
        """Second by second; the paths that were asked for."""
        before = len(self.router.asked)
        for _ in range(int(seconds)):
            self.now += 1
            await self.keeper.reconcile_once()
        return [path for path, _ in self.router.asked[before:]]


@pytest.fixture(name="scene")
async def _scene() -> Scene:
    return Scene()


async def test_one_announcement_renewed_once_a_minute_and_given_back_after_a_while(scene: Scene) -> None:
    assert await scene.pass_time(100) == []
    scene.wanted = True
    assert await scene.pass_time(1) == ["announce"]
    assert scene.router.asked == [("announce", {"owner": "operator of jervis", "model": "big", "leaseId": ""})]
    assert await scene.pass_time(120) == ["announce"] * 2
    scene.wanted = False
    assert await scene.pass_time(router_use.LINGER_SECONDS - 1) == []
    scene.wanted = True  # the person asks again: nothing was given back
    assert await scene.pass_time(10) == []
    scene.wanted = False
    assert await scene.pass_time(200) == ["release"]
    assert scene.router.asked[-1] == ("release", {"owner": "operator of jervis", "leaseId": "l"})
    assert scene.keeper.held is False


async def test_it_is_renewed_as_often_as_the_router_says(scene: Scene) -> None:
    scene.router.answer = (200, {**_READY, "renewSeconds": 10.0, "addedLater": 1})
    scene.wanted = True
    assert len(await scene.pass_time(61)) == 7


async def test_somebody_else_s_gpu_is_asked_for_now_and_then_and_never_given_back(scene: Scene) -> None:
    scene.router.answer = (409, {"error": "every GPU that may be reserved is"})
    scene.wanted = True
    assert await scene.pass_time(61) == ["announce"] * 5
    scene.wanted = False
    assert await scene.pass_time(100) == []


@pytest.mark.parametrize("status", [503, 404, 401])
async def test_a_router_that_cannot_is_asked_now_and_then(scene: Scene, status: int) -> None:
    scene.router.answer = (status, {"error": "no"})
    scene.wanted = True
    assert len(await scene.pass_time(61)) == 5
    scene.router.answer = (200, _READY)
    assert await scene.pass_time(15) == ["announce"]


async def test_models_that_take_long_are_not_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_use, "READY_SECONDS", 0.01)
    scene.wanted, scene.router.loading = True, asyncio.Event()
    assert await scene.pass_time(2) == ["announce", "announce"]
    assert scene.keeper.held
    scene.router.loading.set()
    assert await scene.pass_time(60) == ["announce"]


async def test_an_announcement_that_got_no_answer_is_repeated_before_the_release(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_use, "READY_SECONDS", 0.01)
    scene.wanted, scene.router.loading = True, asyncio.Event()
    assert await scene.pass_time(1) == ["announce"]
    scene.wanted = False
    scene.router.loading.set()
    assert await scene.pass_time(router_use.LINGER_SECONDS) == ["announce", "release"]
    assert scene.router.asked[-1] == ("release", {"owner": "operator of jervis", "leaseId": "l"})


async def test_a_release_that_fails_is_tried_again(scene: Scene) -> None:
    scene.wanted = True
    await scene.pass_time(1)
    scene.wanted, scene.router.answer = False, (503, {"error": "busy"})
    assert await scene.pass_time(router_use.LINGER_SECONDS + 16) == ["release"] * 2
    scene.router.answer = (200, _READY)
    assert await scene.pass_time(100) == ["release"]
