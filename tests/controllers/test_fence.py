"""The fence is asked as a request goes onto the wire, not only when it is made: a process may be frozen in between."""

from __future__ import annotations

import os
from typing import Any

import pymongo
import pytest
from aiohttp import web
from kubernetes import client

import kube
from controllers.memory import mongo
from kube import lease


class Fence:
    """Falls after it was asked `holds` times."""

    def __init__(self, holds: int) -> None:
        self.left = holds

    def check(self) -> None:
        if self.left == 0:
            raise lease.Fenced("this replica does not hold the lease")
        self.left -= 1


async def served() -> tuple[web.AppRunner, str, list[str]]:
    """A server that notes what reaches it."""
    heard: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(f"{request.method} {request.path}")
        return web.json_response({"metadata": {}, "status": {"authenticated": False}})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}", heard


async def test_a_write_whose_fence_falls_on_the_way_is_not_sent() -> None:
    runner, url, heard = await served()
    loaded: Any = client.Configuration()
    loaded.host = url
    fence = Fence(holds=1)  # the check at the call passes, the one at the wire does not
    async with kube.session(loaded, fence=fence.check) as http:
        api = kube.Kube(loaded, http, fence=fence.check)
        with pytest.raises(kube.Unavailable):
            await api.create(kube.JOBS, "default", {"metadata": {"name": "one"}})
        assert heard == []
        await api.get(kube.JOBS, "default", "one")
        await api.review("token", "audience")
        fence.left = 2
        await api.create(kube.JOBS, "default", {"metadata": {"name": "two"}})
    await runner.cleanup()
    assert heard == [
        "GET /apis/batch/v1/namespaces/default/jobs/one",
        "POST /apis/authentication.k8s.io/v1/tokenreviews",
        "POST /apis/batch/v1/namespaces/default/jobs",
    ]


class Died(BaseException):
    """What ends the process where it cannot be refused."""


@pytest.mark.services
async def test_a_write_to_mongodb_is_not_sent_by_one_who_leads_no_more() -> None:
    uri = os.environ["JERVIS_TEST_MONGODB_URI"]
    looks: list[str] = []

    def look() -> None:
        looks.append("look")
        if len(looks) == 2:
            raise Died

    memory = mongo.Memory(uri, "test_fence", fence=lambda: None, at_wire=look)
    await memory.write("one", {"attempt": 1})
    with pytest.raises(Died):
        await memory.write("one", {"attempt": 2})
    assert await memory.result("one", 1) is None, "to read is everybody's right"
    memory.close()
    assert looks == ["look", "look"]
    with pymongo.MongoClient[dict[str, Any]](uri) as server:
        found = server["test_fence"]["task_memory"].find_one({"_id": "one"})
        server.drop_database("test_fence")
    assert found == {"_id": "one", "attempt": 1}
