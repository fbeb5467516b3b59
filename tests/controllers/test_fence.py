"""The fence is asked as a request goes onto the wire, for a process may be frozen before; the token is the latest."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymongo
import pytest
from aiohttp import web

import kube
from clients import mongo
from controllers.memory import mongo as memories
from kube import client as wire
from kube import lease
from tests import httpserver
from tests.kube import apiserver


class Fence:
    """Falls after it was asked `holds` times."""

    def __init__(self, holds: int) -> None:
        self.left = holds

    def check(self) -> None:
        if self.left == 0:
            raise lease.Fenced("this replica does not hold the lease")
        self.left -= 1


async def test_a_write_whose_fence_falls_on_the_way_is_not_sent() -> None:
    server = httpserver.Recorder(httpserver.fixed({"metadata": {}, "status": {"authenticated": False}}))
    fence = Fence(holds=1)  # the check at the call passes, the one at the wire does not
    async with server.serving(), kube.session(apiserver.configuration(server.url), fence=fence.check) as http:
        api = kube.Kube(apiserver.configuration(server.url), http, fence=fence.check)
        with pytest.raises(kube.Unavailable):
            await api.create(kube.JOBS, "default", {"metadata": {"name": "one"}})
        assert server.requests == []
        await api.get(kube.JOBS, "default", "one")
        await api.review("token", "audience")
        fence.left = 2
        await api.create(kube.JOBS, "default", {"metadata": {"name": "two"}})
    assert server.calls() == [
        ("GET", "/apis/batch/v1/namespaces/default/jobs/one"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/apis/batch/v1/namespaces/default/jobs"),
    ]


CREATED = "2027-03-01T12:00:00Z"


class Leader:
    """The right to write is never in doubt here; `heard`: epochs that were seen elsewhere."""

    def __init__(self, epoch: int) -> None:
        self.token, self.heard = lease.FencingToken(epoch, CREATED), list[int]()

    def check(self) -> None:
        """It believes that it leads."""

    def heed(self, epoch: int) -> None:
        self.heard.append(epoch)


@contextmanager
def memory(database: str, leader: Leader, **more: Any) -> Iterator[memories.Memory]:
    """Task memories in that database, by that leader; `more` is of the client."""
    with closing(mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"], **more)) as store:
        yield memories.Memory(store[database], leads=leader)


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

    with memory("test_fence", Leader(1), listeners=[memories.AtWire(look)]) as leading:
        await leading.write("one", {"attempt": 1})
        with pytest.raises(Died):
            await leading.write("one", {"attempt": 2})
        assert await leading.result("one", 1) is None, "to read is everybody's right"
    assert looks == ["look", "look"]
    with pymongo.MongoClient[dict[str, Any]](uri) as server:
        found = server["test_fence"]["task_memory"].find_one({"_id": "one"})
        server.drop_database("test_fence")
    assert found == {"_id": "one", "attempt": 1, "leaderEpoch": 1, "leaseCreated": CREATED}


@pytest.fixture
def written() -> Iterator[Any]:
    """The collection that the operator writes into, past the operator."""
    with pymongo.MongoClient[dict[str, Any]](os.environ["JERVIS_TEST_MONGODB_URI"]) as server:
        name = f"test_leader_{uuid.uuid4().hex[:8]}"
        yield server[name]["task_memory"]
        server.drop_database(name)


@pytest.mark.services
async def test_a_leader_of_yesterday_does_not_overwrite_what_its_successor_wrote(written: Any) -> None:
    """Its machine stood still, and its monotonic clock with it: by that clock it still leads."""
    name = written.database.name
    yesterday, today = Leader(6), Leader(7)
    with memory(name, yesterday) as old, memory(name, today) as new:
        await old.write("one", {"attempt": 1})
        await new.write("one", {"attempt": 2})
        with pytest.raises(lease.Fenced, match="epoch 7"):
            await old.write("one", {"attempt": 1, "messages": []})
        assert written.find_one({"_id": "one"}) == stored("one", 7, attempt=2)
        assert (yesterday.heard, today.heard) == ([7], [])
        # The same leader goes on, and so does the next one.
        await new.write("one", {"contextSummary": "found"})
        yesterday.token = lease.FencingToken(8, CREATED)
        await old.write("one", {"attempt": 3})
        assert written.find_one({"_id": "one"}) == stored("one", 8, attempt=3, contextSummary="found")


@pytest.mark.services
async def test_two_first_writes_at_the_same_time_make_one_memory(written: Any) -> None:
    """The one that comes too late is told to come back, and then finds it."""
    with memory(written.database.name, Leader(1)) as leading:
        for number in range(20):
            found = await asyncio.gather(
                *(leading.write(f"t{number}", {field: 1}) for field in "abcd"), return_exceptions=True
            )
            assert all(error is None or isinstance(error, mongo.Unavailable) for error in found)
            for field, error in zip("abcd", found, strict=True):
                if error is not None:
                    await leading.write(f"t{number}", {field: 1})
            assert written.find_one({"_id": f"t{number}"}) == stored(f"t{number}", 1, a=1, b=1, c=1, d=1)


def stored(uid: str, epoch: int, **fields: object) -> dict[str, object]:
    return {"_id": uid, "leaderEpoch": epoch, "leaseCreated": CREATED, **fields}


async def test_a_rotated_token_is_taken_up() -> None:
    now, asked, said = [0.0], 0, "first"
    seen: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.headers["Authorization"], request.headers["Accept-Encoding"]))
        return web.json_response({"metadata": {}}, status=401 if said not in seen[-1][0] else 200)

    def refresh(loaded: Any) -> None:
        nonlocal asked
        asked += 1
        loaded.api_key["BearerToken"] = f"Bearer {said}"

    loaded = apiserver.configuration("")
    loaded.refresh_api_key_hook = refresh
    async with httpserver.serving(answer, method="GET") as loaded.host, kube.session(loaded) as http:
        api = kube.Kube(loaded, http, fence=lambda: None, monotonic=lambda: now[0])
        for _ in range(3):
            await api.get(kube.PODS, "here", "one")
        assert asked == 1
        said = "second"
        with pytest.raises(kube.Unavailable):
            await api.get(kube.PODS, "here", "one")
        await api.get(kube.PODS, "here", "one")
        assert asked == 2, "a 401 is enough"
        now[0] = wire.TOKEN_SECONDS
        await api.get(kube.PODS, "here", "one")
        assert asked == 3
    assert [token for token, _ in seen] == ["Bearer first"] * 4 + ["Bearer second"] * 2
    assert {encoding for _, encoding in seen} == {"identity"}, "nothing is compressed between neighbours"
