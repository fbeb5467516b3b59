"""What a user adds while a run works is written into its task memory: once, and again where MongoDB did not take it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import kube
from controllers.memory import mongo
from controllers.pendingtask import decision
from controllers.pendingtask.effects import executor
from crds.phases import Phase
from tests import httpserver
from tests.controllers import build
from tests.controllers.test_fence import Leader, written
from tests.controllers.test_task_cache import Place
from tests.kube import apiserver

__all__ = ["written"]
pytestmark = pytest.mark.services


def performing(place: Place, api: kube.Kube, memory: mongo.Memory) -> executor.EffectExecutor:
    """With what this effect needs, and nothing else."""
    unused: Any = None
    effects = executor.ClusterEffects(
        api, memory, place.workloads, unused, tokens=unused, clock=lambda: build.NOW, created=unused, token=unused
    )
    return executor.EffectExecutor(effects, unused, place.cache, measured=unused, monotonic=unused)


async def test_messages_are_written_once_for_the_run_that_works(written: Any) -> None:
    said = [{"id": "m1", "text": "More."}]
    task = build.routed(Phase.ORCHESTRATING, spec={"messages": said})
    served: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        served.append(request.path)
        return web.json_response(task.wire())

    uri, own = os.environ["JERVIS_TEST_MONGODB_URI"], {"_id": build.UID}
    written.insert_one({**own, "content": "hello", "messages": []})
    async with aiohttp.ClientSession() as http, httpserver.serving(serve, method="GET") as url:
        place = Place(http, url)
        assert place.cache.take(task.wire())
        api = kube.Kube(apiserver.configuration(url), http, fence=lambda: None)
        away = mongo.Memory("mongodb://127.0.0.1:9", "none", leads=Leader(1), timeout=0.2)
        with closing(away), closing(mongo.Memory(uri, written.database.name, leads=Leader(1))) as memory:
            # The run is followed by one that reads them: nothing of the task has failed.
            assert not await performing(place, api, away).perform(task, decision.Remember(1), None)
            assert place.cache.observations == {}
            works = performing(place, api, memory)
            await works.perform(task, decision.Remember(2), None)
            assert written.find_one(own)["messages"] == [], "it is another attempt by now"
            served.clear()
            for _ in range(3):
                await works.perform(task, decision.Remember(1), None)
    found = written.find_one(own)
    assert ([one["id"] for one in found["messages"]], found["content"]) == (["m1"], "hello")
    assert len(served) == 1
