"""The archive yields to the work, but not for ever."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from kubernetes import client
from prometheus_client import CollectorRegistry

from controllers import courtesy, kube
from controllers.archive import mongo, reconcile, sweep
from controllers.metrics import Metrics


@pytest.mark.parametrize(("busy", "looks"), [([], 0), ([True, True, True], 3), ([True] * 500, reconcile.MOST_LOOKS)])
async def test_a_sweep_waits_until_no_task_waits(busy: list[bool], looks: int) -> None:
    """Nothing of a sweep reaches the apiserver before; then its first request comes."""
    slept: list[float] = []
    asked = asyncio.Event()

    async def serve(_: web.Request) -> web.Response:
        asked.set()
        return web.json_response({"message": "away"}, status=503)

    async def sleep(seconds: float) -> None:
        assert not asked.is_set()
        slept.append(seconds)
        await asyncio.sleep(0)

    application = web.Application()
    application.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    loaded: Any = client.Configuration()
    loaded.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with kube.session(loaded) as http:
        archivist = reconcile.Archivist(
            kube.Kube(loaded, http, fence=lambda: None),
            mongo.Archive("mongodb://127.0.0.1:9", "none", fence=lambda: None),
            namespaces=["here"],
            terms=sweep.Terms(),
            pace=reconcile.Pace(),
            ran=lambda uid: False,
            measured=Metrics(CollectorRegistry()),
            wall=lambda: datetime.now(UTC),
            polite=courtesy.Courtesy(monotonic=time.monotonic),
            busy=lambda: bool(busy) and busy.pop(0),
            sleep=sleep,
        )
        archivist.may_act.set()
        working = asyncio.create_task(archivist.work())
        async with asyncio.timeout(90):
            await asked.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await runner.cleanup()
    assert slept == [reconcile.LOOK_SECONDS] * looks
