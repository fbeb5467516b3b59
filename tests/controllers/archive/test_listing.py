"""How often a finished object is read whole, and when a sweep begins: an apiserver that counts; lists that break."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from clients import mongo
from controllers import backpressure, periodic
from controllers.archive import finished, listing, reconcile, retention, sweep
from controllers.archive import mongo as archives
from controllers.metrics import Metrics
from tests import waiting
from tests.controllers.archive import build
from tests.kube import apiserver


class Apiserver:
    """Completed tasks of `objects`, {namespace: {name: object}}. A list of a namespace in `away` ends with 503."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.away: set[str] = set()
        self.whole: Counter[str] = Counter()

    def add(self, namespace: str, number: int, *, marked: bool = False) -> None:
        """`number` more tasks."""
        there = self.objects.setdefault(namespace, {})
        labels = {finished.ARCHIVED_LABEL: finished.ARCHIVED} if marked else {}
        for name in [f"t{len(there) + one}" for one in range(number)]:
            metadata = {"name": name, "uid": f"{namespace}-{name}", "namespace": namespace}
            there[name] = build.raw("Completed", **metadata, labels=labels)

    def read(self) -> Counter[str]:
        """How many whole objects were sent since the last call, by namespace."""
        found, self.whole = self.whole, Counter()
        return found

    async def serve(self, request: web.Request) -> web.Response:
        _, _, place = request.path.partition("/namespaces/")
        namespace, _, name = place.replace("/pendingtasks", "").partition("/")
        if name:
            self.whole[namespace] += 1
            return web.json_response(self.objects[namespace][name])
        if namespace in self.away:
            return web.json_response({"message": "away"}, status=503)
        completed = request.query["fieldSelector"] == "status.phase=Completed"
        found = [one for one in self.objects[namespace].values() if completed]
        if "labelSelector" in request.query:
            wanted = request.query["labelSelector"] == finished.ARCHIVED_SELECTOR
            found = [one for one in found if finished.marked(one["metadata"]) is wanted]
        if "PartialObjectMetadata" in request.headers["Accept"]:
            found = [{"metadata": one["metadata"]} for one in found]
        else:
            self.whole[namespace] += len(found)
        return web.json_response({"items": found, "metadata": {"resourceVersion": "50"}})


@asynccontextmanager
async def listed(api: Apiserver, *namespaces: str) -> AsyncIterator[listing.Listing]:
    throttle = backpressure.Backpressure(monotonic=lambda: 0.0)
    async with apiserver.serving(api.serve) as reached:
        yield listing.Listing(reached, namespaces, throttle, 0.0)


@pytest.fixture
def api() -> Apiserver:
    return Apiserver()


async def test_a_list_that_breaks_costs_no_second_reading(api: Apiserver) -> None:
    api.add("here", 30, marked=True)
    api.add("there", 20, marked=True)
    async with listed(api, "here", "there") as tasks:
        assert len((await tasks.all()).tasks) == 50
        assert api.read() == {"here": 30, "there": 20}
        api.away = {"here"}
        for _ in range(2):
            found = await tasks.all()
            assert (len(found.tasks), found.complete) == (20, {"there"})
        api.away = set()
        api.objects["here"]["t0"]["metadata"]["resourceVersion"] = "42"
        found = await tasks.all()
        assert (len(found.tasks), found.complete) == (50, {"here", "there"})
        assert api.read() == {"here": 1}, "the one that has changed meanwhile"


async def test_what_has_no_mark_is_read_once_to_be_archived(api: Apiserver) -> None:
    api.add("here", 30, marked=True)
    async with listed(api, "here") as tasks:
        await tasks.all()
        api.read()
        api.add("here", 20)
        found = await tasks.all()
        assert (len(found.tasks), found.left) == (30, 20)
        async for raws in tasks.unmarked():
            found.put(raws)
        assert (len(found.tasks), found.left) == (50, 0)
        assert api.read() == {"here": 20}
        found = await tasks.all()
        assert (len(found.tasks), found.left) == (50, 0)
        assert not api.read(), "what the caller has put there is remembered"


@pytest.mark.parametrize(("new", "whole"), [(2, 2), (20, 50)], ids=["by name", "all of them"])
async def test_what_could_not_be_archived_is_read_once_all_the_same(api: Apiserver, new: int, whole: int) -> None:
    api.add("here", 30)
    async with listed(api, "here") as tasks:
        await tasks.read(await tasks.all())
        assert api.read() == {"here": 30}
        api.add("here", new)
        found = await tasks.all()
        assert (len(found.tasks), found.left) == (30, new)
        await tasks.read(found)
        assert (len(found.tasks), found.left) == (30 + new, 0)
        assert api.read() == {"here": whole}
        assert (await tasks.all()).left == 0
        assert not api.read()


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
        archive = archives.Archive(mongo.client("mongodb://127.0.0.1:9")["none"], fence=lambda: None)
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
        leading = asyncio.Event()
        leading.set()
        loop = periodic.Periodic("archive", archivist.reconcile_once, EVERY, measured, sleep=time.sleep)
        working = asyncio.create_task(loop.run(leading))
        async with asyncio.timeout(waiting.PATIENCE):
            await asked.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert earliest <= begun[0] <= latest
