"""Tasks with one sourceUrn that are read at the same time, by a knowledge base and its simulated models."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pytest

from crds import scope
from kb import metrics
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.http import serving
from tests.operator import unwatched
from tests.operator.conftest import Space

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
URN = "jira::JERV-1"
ACME = scope.Scope(client_id="acme")
NEWER = "Jana Novak wrote Newthing.java for Initech."
FILE = {
    "name": "plan.txt",
    "mediaType": "text/plain",
    "contentRef": {"store": "gridfs", "key": "k1", "sha256": "0" * 64, "bytes": 5},
}


@dataclass
class Site:
    """A knowledge base, its service, and an operator that uses it."""

    fake: process.Fake
    kb: world.ObservedState
    served: httpx.AsyncClient
    here: unwatched.Unwatched


@asynccontextmanager
async def site(space: Space, local: dict[str, Any], folder: Path) -> AsyncIterator[Site]:
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    with process.running(num_parallel=8) as fake:
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            router = router_client.Client(fake.url, http)
            stores = (memory.Vectors(), memory.Content())
            async with (
                world.opened(folder, router, clocks.Clock(), meters, *stores) as kb,
                serving.over(kb, meters) as (_, served),
                unwatched.working(space, **local | {"kb_url": str(served.base_url).rstrip("/")}) as here,
            ):
                yield Site(fake, kb, served, here)


def submit(space: Space, here: unwatched.Unwatched, name: str, content: str, **spec: Any) -> None:
    space.submit(name, content, type="BugTrackerProcessing", sourceUrn=URN, **spec)
    here.hear(space.get(name))


@pytest.mark.parametrize("deleted", [False, True])
async def test_the_older_one_is_decided_by_its_own_hints(
    space: Space, local: dict[str, Any], tmp_path: Path, deleted: bool
) -> None:
    async with site(space, local, tmp_path) as at:
        gate = f"reads-{uuid.uuid4()}"
        at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
        submit(space, at.here, "older", world.MAIL, attachments=[FILE])
        await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 1, "models read it")
        at.fake.set_faults([])
        if deleted:
            await at.kb.pipeline.forget(ACME, URN)
        else:
            submit(space, at.here, "newer", NEWER)
            await at.here.until(lambda: space.phase("newer") == "Done", "the newer one does not wait for it")
        assert "route" not in space.status("older")
        before = await at.kb.state(ACME)
        await asyncio.to_thread(at.fake.open_gate, gate)
        await at.here.until(lambda: space.phase("older") == "ReadyForGpu", "its hints ask for something")
        assert await at.kb.state(ACME) == before
        assert (await at.kb.vectors.counts(ACME))[0] == (0 if deleted else 1)
        status = space.status("older")
        conditions = {one["type"]: one for one in status["conditions"]}
        assert conditions["Qualified"]["status"] == "True"
        assert ("deleted" if deleted else "newer version") in conditions["Qualified"]["message"]
        assert (conditions["AttachmentsIngested"]["status"], conditions["AttachmentsIngested"]["reason"]) == (
            "False",
            "Superseded",
        )
        assert "retry" not in status
        # This service takes no files: none was sent.
        assert 'status="404"' not in (await at.served.get("/metrics")).text
