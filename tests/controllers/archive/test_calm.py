"""A sweep waits for a calm moment, but not for ever."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from controllers import backpressure
from controllers.archive import mongo, reconcile, retention, sweep
from controllers.metrics import Metrics
from tests import waiting
from tests.kube import apiserver

EVERY = 30.0


class Time:
    """It passes by sleeping, and in no other way."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("busy_until", "earliest", "latest"),
    [(0.0, 0.0, 0.0), (3.5, 3.5, EVERY / 2), (math.inf, EVERY * 0.9, EVERY)],
    ids=["calm", "busy for a while", "always busy"],
)
async def test_a_sweep_begins_once_no_task_waits_and_after_its_period_in_any_case(
    busy_until: float, earliest: float, latest: float
) -> None:
    """Its first request to the apiserver is its beginning."""
    time, asked = Time(), asyncio.Event()
    begun: list[float] = []

    async def serve(_: web.Request) -> web.Response:
        begun.append(time.now)
        asked.set()
        return web.json_response({"message": "away"}, status=503)

    async with apiserver.serving(serve) as api:
        archive = mongo.Archive("mongodb://127.0.0.1:9", "none", fence=lambda: None)
        measured = Metrics(CollectorRegistry())
        kept = retention.Retention(
            api, archive, retention.Periods(), live=lambda uid: False, lease=lambda: "", measured=measured
        )
        archivist = reconcile.Archivist(
            api,
            archive,
            namespaces=["here"],
            runs="here",
            terms=sweep.Terms(),
            pace=reconcile.Pace(every=EVERY),
            kept=kept,
            ran=lambda uid: False,
            measured=measured,
            wall=lambda: datetime.now(UTC),
            throttle=backpressure.Backpressure(monotonic=lambda: time.now, sleep=time.sleep),
            busy=lambda: time.now < busy_until,
            monotonic=lambda: time.now,
            sleep=time.sleep,
        )
        archivist.may_act.set()
        working = asyncio.create_task(archivist.work())
        async with asyncio.timeout(waiting.PATIENCE):
            await asked.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert earliest <= begun[0] <= latest
