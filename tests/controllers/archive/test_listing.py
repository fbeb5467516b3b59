"""How often a finished object is read whole: an apiserver that counts them, and lists that break."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from controllers import backpressure
from controllers.archive import finished, listing
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


async def test_a_list_that_breaks_costs_no_second_reading() -> None:
    api = Apiserver()
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


async def test_what_has_no_mark_is_read_once_to_be_archived() -> None:
    api = Apiserver()
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
async def test_what_could_not_be_archived_is_read_once_all_the_same(new: int, whole: int) -> None:
    api = Apiserver()
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
