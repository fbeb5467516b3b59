"""A router that begins to decide, or goes on to: it takes over reservations, then hears of backends, then offers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crds import gpubackend
from router import dispatch, scheduler
from router.backends import book, environment
from router.reservation import Verdict
from router.takeover import Takeover
from tests.router import apiserver, process, wire
from tests.router.plans import ask

_NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
_SPECS = {"gpu": environment.parse({"url": "http://127.0.0.1:9", "kind": "GPU"}, "gpu")}
_RESERVED = gpubackend.Status(
    reservation=gpubackend.Holder(holder="job", until=_NOON + timedelta(minutes=5), lease_id="kept")
)


class Router:
    """The parts that a Takeover stands between. Its clock stands at 100 seconds, the time of day at noon."""

    def __init__(self, *, active: bool = True) -> None:
        self.active = active
        self.statuses: dict[str, gpubackend.Status] = {}
        self.book = book.Book(now=lambda: 100.0)
        self.plan = scheduler.Scheduler()
        self.dispatcher = dispatch.Dispatcher(self.plan, now=lambda: 100.0, deciding=lambda: self.active)
        self.takeover = Takeover(
            self.book,
            self.dispatcher,
            decides=active,
            active=lambda: self.active,
            statuses=lambda: self.statuses,
            now=lambda: 100.0,
            wall=lambda: _NOON,
        )
        self.book.listen(self.takeover.changed)

    def probed(self) -> None:
        """The backend answers and has the model."""
        seen = book.Observation(reachable=True, tags=({"name": "m:latest"},), ps=())
        for entry in self.book.entries():
            self.book.observed(entry, seen)

    def turn(self, active: bool) -> None:
        self.active = active
        self.takeover.turned(active)

    def holder(self) -> tuple[str, float] | None:
        """Who has the GPU, and until when."""
        (host,) = self.plan.hosts()
        return None if host.reservation is None else (host.reservation.owner, host.reservation.until)


def test_a_first_list_of_backends_brings_their_reservations() -> None:
    router = Router()
    router.statuses = {"gpu": _RESERVED}
    router.takeover.listed(_SPECS)
    router.probed()
    assert router.holder() == ("job", 400.0)
    assert router.plan.announced("stranger", "", "", "other", 101.0)[0].verdict is Verdict.TAKEN


def test_a_later_list_gives_nothing_back_to_a_holder_that_released_it() -> None:
    router = Router()
    router.statuses = {"gpu": _RESERVED}
    router.takeover.listed(_SPECS)
    router.probed()
    router.dispatcher.unreserve("job", "kept")
    router.takeover.listed({})
    router.takeover.listed(_SPECS)
    router.probed()
    assert router.holder() is None


def test_a_standby_has_no_backends_until_it_decides_and_takes_over_what_was_reserved_meanwhile() -> None:
    router = Router(active=False)
    router.takeover.listed(_SPECS)
    router.probed()
    assert list(router.plan.hosts()) == []
    router.statuses = {"gpu": _RESERVED}
    router.turn(True)
    assert router.holder() == ("job", 400.0)


async def test_a_router_that_stops_deciding_refuses_what_waits_and_forgets_the_backends() -> None:
    router = Router()
    router.takeover.listed(_SPECS)
    router.probed()
    assert router.dispatcher.offer(ask(1)) == "gpu"
    waiter = ask(2)
    assert router.dispatcher.offer(waiter) is None
    router.turn(False)
    with pytest.raises(dispatch.Turned):
        await router.dispatcher.granted(waiter)
    assert list(router.plan.waiting()) == []
    assert list(router.plan.hosts()) == []


def test_backends_that_change_in_a_moment_without_the_lease_are_kept_when_it_was_never_lost() -> None:
    """A renewal that was sent in time and is answered late: no listener is called for the moment in between."""
    router = Router()
    router.takeover.turned(True)
    router.active = False
    router.takeover.listed(_SPECS)
    router.probed()
    router.active = True
    assert [host.backend.name for host in router.plan.hosts()] == ["gpu"]
    assert router.dispatcher.offer(ask(1)) == "gpu"


def test_statuses_are_written_by_a_router_that_decides_and_has_read_them() -> None:
    router = Router()
    assert not router.takeover.may_write()
    router.takeover.listed(_SPECS)
    assert router.takeover.may_write()
    router.turn(False)
    assert not router.takeover.may_write()


_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


class Leases:
    """An apiserver that keeps one Lease. While it is `away` it answers nothing."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] | None = None
        self.version = 0
        self.away = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if self.away:
            return web.json_response({"message": "away"}, status=503)
        if request.method == "GET":
            return web.json_response(self.kept or {"message": "none"}, status=200 if self.kept else 404)
        body = await request.json()
        if self.kept is not None and body["metadata"].get("resourceVersion") != str(self.version):
            return web.json_response({"message": "conflict"}, status=409)
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version), "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.kept = body
        return web.json_response(body)


async def test_requests_are_offered_again_when_the_router_goes_on_to_decide(tmp_path: Path) -> None:
    gate, api = asyncio.Event(), Leases()
    lease, one_slot = {"lease": "router", "namespace": "here"}, {"numParallel": 1}
    async with (
        apiserver.serving(api.serve, tmp_path) as kubeconfig,
        process.before(tmp_path, wire.gated(gate), spec=one_slot, kubeconfig=kubeconfig, **lease) as (router, _),
    ):
        await router.until(lambda s: s["active"])
        asks = [asyncio.create_task(router.post("/api/chat", _CHAT)) for _ in range(3)]
        await router.until(lambda s: (s["backends"][0]["inFlight"], s["queue"]["waiting"]) == (1, 2))
        api.away = True
        await router.until(lambda s: not s["active"])
        api.away = False
        await router.until(lambda s: s["active"])
        gate.set()
        assert [(await ask).status for ask in asks] == [200] * 3
