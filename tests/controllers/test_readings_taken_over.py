"""The reading of a task that is gone, by the operator's reader and a knowledge base over HTTP; the models' part is
simulated at the wire, and so is the apiserver's."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pymongo
import pytest

from controllers import clients
from controllers.memory import mongo
from controllers.pendingtask.effects import ingest, readings
from controllers.pendingtask.observed import Ingested, Observation, Trouble
from crds.phases import Phase
from kb import metrics
from router import client as router_client
from tests import waiting
from tests.controllers import build
from tests.controllers.test_fence import Leader
from tests.controllers.test_repeats import Cluster, nothing, serving_tasks
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.http import serving

pytestmark = pytest.mark.services
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
    with process.running(num_parallel=8) as fake, closing(mongo.Memory(uri, database, leads=Leader(1))) as kept:
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
