"""A watch is alive when bytes arrive, and only then."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry

from controllers import health, watches
from controllers.metrics import Metrics


async def test_chunks_of_a_watch_are_heard_and_other_requests_are_not() -> None:
    now = [0.0]
    beats = watches.Beats(lambda: now[0])
    more = asyncio.Event()

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED"}\n')
        await more.wait()
        await response.write(b'{"type": "BOOKMARK"}\n')
        return response

    app = web.Application()
    app.router.add_get("/apis/tasks", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession(response_class=watches.response_class(beats)) as session:
        async with session.get(f"http://{host}:{port}/apis/tasks", params={"watch": "true"}) as response:
            assert beats.ages() == {"/apis/tasks": 0.0}
            lines = response.content.iter_chunked(1024)
            now[0] = 10.0
            assert b"ADDED" in await anext(lines)
            assert beats.ages() == {"/apis/tasks": 0.0}
            now[0] = 70.0
            assert beats.ages() == {"/apis/tasks": 60.0}, "silence is not life"
            more.set()
            assert b"BOOKMARK" in await anext(lines)
            assert beats.ages() == {"/apis/tasks": 0.0}
        now[0] = 80.0
        async with session.get(f"http://{host}:{port}/apis/tasks") as response:
            await response.read()
        assert beats.ages() == {"/apis/tasks": 10.0}
    await runner.cleanup()


class Pulse:
    def __init__(self) -> None:
        self.silent, self.running = 0.0, True

    def alive(self) -> bool:
        return self.running

    def silent_for(self) -> float:
        return self.silent


async def test_liveness_names_what_is_wrong() -> None:
    now, pulse = [0.0], Pulse()
    beats = watches.Beats(lambda: now[0])
    known = health.Health(
        beats,
        pulse,
        Metrics(CollectorRegistry()),
        expected=["/tasks", "/jobs"],
        silence=90,
        monotonic=lambda: now[0],
        gauges=lambda: None,
    )
    assert known.missing() == ["the custom resource definitions are not there yet"]
    assert known.problems() == [], "waiting for the definitions is no reason to be restarted"
    known.begun()
    beats.beat("/tasks")
    assert known.missing() == ["the watch of /jobs has not begun"]
    beats.beat("/jobs")
    assert known.missing() == []
    ticking = asyncio.create_task(known.tick())
    now[0] = 60.0
    beats.beat("/tasks")
    now[0] = 100.0
    assert any("loop" in problem for problem in known.problems())
    await asyncio.sleep(health.LAG_PERIOD * 1.5)
    assert known.problems() == ["the watch of /jobs was last heard 100 s ago"]
    beats.beat("/jobs")
    assert known.problems() == []
    pulse.silent = 91.0
    assert known.problems() == ["the Kubernetes API has not answered about the lease for 91 s"]
    pulse.running = False
    assert known.problems() == ["the lease's thread has ended"]
    ticking.cancel()
