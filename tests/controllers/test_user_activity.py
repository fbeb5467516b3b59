"""Users' activity at the router: asked only when needed; a silent router delays Background work for a limited time."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controllers.pendingtask.slots import router_use
from crds import errors
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
        self.changes = 0
        self.users = router_use.UserActivity(
            self.router,
            needed=lambda: True,
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
    await bench.users.once()
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
        await bench.users.once()
        bench.now += timedelta(seconds=3)
        bench.users.wanted()
    assert bench.users.in_doubt_since == NOW
    assert bench.heard == [False, False, False]
    bench.router.error = None
    await bench.users.once()
    assert bench.users.in_doubt_since is None


async def test_a_clock_ahead_of_ours_does_not_reach_into_the_future(bench: Bench) -> None:
    bench.router.last = NOW + timedelta(minutes=5)
    await bench.users.once()
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
        await bench.users.once()
        assert (bench.users.last, bench.users.unplaced) == (last, unplaced)
        assert bench.users.last_on == {name: min(at, NOW) for name, at in on.items()}
