"""A task that waits for the reading of another one: what becomes of that one, by the API, and when the wait is over.

The reading of a task that is gone, by the operator's reader and a knowledge base over HTTP; the models' part is
simulated at the wire, and so is the apiserver's.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import prometheus_client
import pymongo
import pytest
from aiohttp import web

import kube
from clients import mongo
from controllers import clients
from controllers.memory import mongo as memories
from controllers.pendingtask.decide import decide
from controllers.pendingtask.effects import ingest, readings, repeats
from controllers.pendingtask.observed import Ingested, Observation, ObservedState, Trouble
from crds import pendingtask
from crds.phases import Phase
from kb import api, metrics
from router import client as router_client
from tests import httpserver, waiting
from tests.controllers import build
from tests.controllers.build import present
from tests.controllers.test_fence import Leader
from tests.controllers.test_task_index import Place
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.service import serving
from tests.kube import apiserver

LATER = "2027-03-01T12:04:59Z"
READ = api.Repeat(task_uid="first", task="default/first", reading=True)
NAMED = api.Repeat(task_uid="first", task="default/first")


class Cluster:
    """An apiserver that has some tasks, by namespace/name; `refused` namespaces are forbidden."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.tasks: dict[str, dict[str, Any]] = {}
        self.refused: set[str] = set()
        self.asked: list[str] = []

    def application(self) -> web.Application:
        async def get(request: web.Request) -> web.Response:
            namespace, name = request.match_info["namespace"], request.match_info["name"]
            self.asked.append(f"{namespace}/{name}")
            found = self.tasks.get(f"{namespace}/{name}")
            code = 403 if namespace in self.refused else 404 if found is None else 200
            return web.json_response(found if code == 200 else {"kind": "Status", "code": code}, status=code)

        made = web.Application()
        made.router.add_get("/apis/jervis.dev/v1alpha1/namespaces/{namespace}/pendingtasks/{name}", get)
        return made


@asynccontextmanager
async def serving_tasks() -> AsyncIterator[tuple[Cluster, kube.Kube]]:
    """The cluster, and the operator's client of it."""
    async with aiohttp.ClientSession() as http:
        made = Cluster(http)
        async with httpserver.serving(made.application()) as url:
            yield made, kube.Kube(apiserver.configuration(url), http, fence=lambda: None)


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[Cluster, kube.Kube]]:
    async with serving_tasks() as made:
        yield made


def first(phase: Phase = Phase.QUALIFYING, status: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return build.task(phase, status=status, **{"uid": "first", "name": "first"} | meta).wire()


def second(tries: int = 0) -> pendingtask.PendingTask:
    retry = {"count": tries, "nextAt": LATER, "reason": "QualificationPostponed: x", "waitsFor": "first"}
    return build.task(Phase.READY_FOR_QUALIFICATION, status={"retry": retry}, uid="second", name="second")


async def nothing(uid: str) -> None:
    """Neither the archive nor the API has that task."""


@pytest.mark.parametrize(
    ("there", "of", "waits"),
    [
        (first(), READ, "the same document is being read for task first"),
        (first(Phase.READY_FOR_QUALIFICATION), NAMED, "task first has the same content and is not qualified yet"),
        (None, READ, None),
        (first(uid="another"), READ, None),
        (first(deletionTimestamp="2027-03-01T11:59:00Z"), READ, None),
        (first(Phase.ERROR), READ, None),
        (first(Phase.USER_TASK, {"userTask": {"kind": "Failure"}}), READ, None),
        ({**first(), "spec": {}}, READ, None),
    ],
    ids=["read", "not qualified", "gone", "of the same name", "being deleted", "failed", "given up", "unreadable"],
)
async def test_only_a_task_that_may_still_be_read_is_waited_for(
    cluster: tuple[Cluster, kube.Kube], there: dict[str, Any] | None, of: api.Repeat, waits: str | None
) -> None:
    place, reached = cluster
    if there is not None:
        place.tasks["default/first"] = there
    found = await repeats.settled(reached, nothing, second(), of)
    assert found == (None if waits is None else Trouble(waits, operational=True, waits_for="first"))


async def test_a_reading_is_waited_for_however_often_it_was_tried(cluster: tuple[Cluster, kube.Kube]) -> None:
    place, reached = cluster
    place.tasks["default/first"] = first()
    often = second(repeats.PATIENCE)
    assert isinstance(await repeats.settled(reached, nothing, often, READ), Trouble)
    assert await repeats.settled(reached, nothing, often, NAMED) is None


async def test_of_another_namespace_only_proof_ends_the_wait(cluster: tuple[Cluster, kube.Kube]) -> None:
    place, reached = cluster
    elsewhere = api.Repeat(task_uid="first", task="others/first", reading=True)
    place.tasks["others/first"] = first(namespace="others")
    place.refused = {"others"}
    for refused in ({"others"}, set[str]()):
        place.refused = refused
        found = await repeats.settled(reached, nothing, second(), elsewhere)
        assert isinstance(found, Trouble)
        assert ("others" in found.message, found.waits_for) == (False, "")
    del place.tasks["others/first"]
    assert await repeats.settled(reached, nothing, second(), elsewhere) is None
    # Of one that is stored nothing is asked.
    place.asked.clear()
    stored = elsewhere.model_copy(update={"reading": False})
    assert (await repeats.settled(reached, nothing, second(), stored), place.asked) == (None, [])


def test_the_end_of_the_first_one_ends_the_wait_and_not_the_clock() -> None:
    now, task = build.NOW, second(5)
    assert timedelta(0) < present(present(task.status.retry).next_at) - now < timedelta(minutes=5)
    held = decide(task, ObservedState(), now)
    assert (held.phase, held.requeue_after is not None) == (None, True)
    assert decide(task, ObservedState(first_over=True), now).phase is Phase.QUALIFYING


async def test_a_task_is_reconciled_when_the_one_that_it_waits_for_ends() -> None:
    async with aiohttp.ClientSession() as http:
        for end in ("deleted", "routed", "namespace"):
            place = Place(http)
            place.cache.take(first(resourceVersion="1"))
            place.cache.take(second().wire())
            assert await place.taken() == []
            place.cache.take(first(resourceVersion="2"))
            assert await place.taken() == [], "it is read still"
            if end == "deleted":
                place.cache.forget("first", 3)
            elif end == "namespace":
                place.cache.leave("first")
            else:
                routed = {"route": {"decision": "Execute"}}
                place.cache.take(first(Phase.READY_FOR_GPU, routed, resourceVersion="3"))
            assert await place.taken() == ["second"], end


EXTRACT = "kb.extract/v1"


@dataclass
class Site:
    """An operator's reader before a knowledge base."""

    fake: process.Fake
    kb: world.ObservedState
    cluster: Cluster
    reader: ingest.Qualifier
    running: readings.Readings
    found: dict[str, Observation | None] = field(default_factory=dict)

    def submit(self, name: str) -> None:
        """Begin to read a task with the same mail."""
        spec = {"content": world.MAIL, "sourceUrn": "email::<m1@acme.com>"}
        raw = build.task(Phase.QUALIFYING, spec=spec, uid=f"uid-{name}", name=name).wire()
        self.cluster.tasks[f"default/{name}"] = raw
        self.found.pop(f"uid-{name}", None)
        self.reader.start(f"uid-{name}", raw)

    def delete(self, name: str) -> None:
        """As the operator does after its event."""
        del self.cluster.tasks[f"default/{name}"]
        self.running.cancel(f"uid-{name}")

    async def of(self, name: str) -> Observation | None:
        """What became of its reading."""

        await waiting.eventually(lambda: f"uid-{name}" in self.found)
        return self.found[f"uid-{name}"]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Site]:
    uri, database = os.environ["JERVIS_TEST_MONGODB_URI"], f"test_{uuid.uuid4().hex[:8]}"
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    running, found = readings.Readings(time.monotonic), dict[str, Observation | None]()
    clock = clocks.Clock()
    with process.running(num_parallel=8) as fake, closing(mongo.client(uri)) as store:
        kept = memories.Memory(store[database], leads=Leader(1))
        async with httpx.AsyncClient(trust_env=False, verify=False) as http, serving_tasks() as (cluster, reached):
            router = router_client.Client(fake.url, http)
            async with (
                world.opened(folder, router, clock, meters, memory.Vectors(), memory.Content()) as kb,
                serving.over(kb, meters) as (kb_client, _),
            ):
                reader = ingest.Qualifier(
                    kb_client,
                    kept,
                    readings=running,
                    known=clients.Clients(),
                    archived=nothing,
                    find=lambda uid: None,
                    fetch=nothing,
                    done=found.__setitem__,
                    clock=clock,
                    cluster=reached,
                )
                yield Site(fake, kb, cluster, reader, running, found)
                await running.close()
    with pymongo.MongoClient[dict[str, Any]](uri) as server:
        server.drop_database(database)


@pytest.mark.services
async def test_the_reading_that_runs_is_taken_over(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        gate = f"reads-{uuid.uuid4()}"
        site.fake.set_faults([{"match": {"tag": EXTRACT}, "stall": {"afterBytes": 0, "gate": gate}}])
        site.submit("first")
        await waiting.eventually(lambda: asyncio.to_thread(site.fake.count, tag=EXTRACT))
        for name in ("second", "third"):
            site.submit(name)
            waits = await site.of(name)
            assert isinstance(waits, Trouble)
            assert (waits.message, waits.waits_for) == ("the same document is being read for task first", "uid-first")
        asked = site.fake.count(tag=EXTRACT)
        site.delete("first")
        site.submit("second")
        await waiting.eventually(lambda: site.kb.ledger.mentions("uid-second"))
        # The third one finds that the second reads now, and waits for that.
        site.submit("third")
        waits = await site.of("third")
        assert isinstance(waits, Trouble)
        assert waits.waits_for == "uid-second"
        assert "uid-second" in site.running
        site.fake.set_faults([])
        await asyncio.to_thread(site.fake.open_gate, gate)
        read = await site.of("second")
        assert isinstance(read, Ingested), read
        assert (read.repeats, read.superseded, read.chunk_ids != ()) == ("", "", True)
        assert site.fake.count(tag=EXTRACT) == asked


@pytest.mark.services
async def test_a_reading_that_broke_off_is_gone_on_with_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        site.fake.set_faults([{"match": {"tag": EXTRACT}, "status": {"code": 503}}])
        site.submit("first")
        assert isinstance(await site.of("first"), Trouble)
        site.submit("second")
        waits = await site.of("second")
        assert isinstance(waits, Trouble)
        assert waits.waits_for == "uid-first"
        site.fake.set_faults([])
        site.delete("first")
        # Another object of the same name is not that task.
        site.cluster.tasks["default/first"] = build.task(Phase.QUALIFYING, uid="uid-other", name="first").wire()
        site.submit("second")
        read = await site.of("second")
        assert isinstance(read, Ingested), read
        assert (read.repeats, read.chunk_ids != ()) == ("", True)
