"""A sweep waits for a calm moment, but not for ever."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from kubernetes import client
from prometheus_client import CollectorRegistry

import kube
from controllers import backpressure
from controllers.archive import mongo, reconcile, retention, sweep
from controllers.metrics import Metrics


@pytest.mark.parametrize(("busy", "looks"), [([], 0), ([True, True, True], 3), ([True] * 500, 30)])
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
        api = kube.Kube(loaded, http, fence=lambda: None)
        archive = mongo.Archive("mongodb://127.0.0.1:9", "none", fence=lambda: None)
        measured = Metrics(CollectorRegistry())
        archivist = reconcile.Archivist(
            api,
            archive,
            namespaces=["here"],
            runs="here",
            terms=sweep.Terms(),
            pace=reconcile.Pace(every=30.0),
            kept=retention.Retention(
                api, archive, retention.Periods(), live=lambda uid: False, lease=str, measured=measured
            ),
            ran=lambda uid: False,
            measured=measured,
            wall=lambda: datetime.now(UTC),
            polite=backpressure.Backpressure(monotonic=time.monotonic),
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
