"""A person's words pass ten thousand bulk documents, on real stores: kept, found, extracted while the bulk goes on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from crds.priority import Priority
from kb import api, client
from kb.queue import job, sqlite
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.http import program

pytestmark = pytest.mark.services
BULK = 10_000
SAID = 10
WRITERS = 8


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=120, verify=False) as made:
        yield made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where the service will find its files."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


async def fill(path: Path) -> None:
    """The queue's file as ten thousand `POST /api/v1/ingest` of a process that was stopped have left it."""
    queue = sqlite.Queue(path / "queue.sqlite", lambda: datetime.now(UTC), limit=2 * BULK, per_client=2 * BULK)
    await queue.prepare()
    for number in range(BULK):
        urn = f"bulk:{number}"
        text = world.request(f"Bulk number {number}.", urn=urn).model_dump_json(by_alias=True)
        await queue.put(urn, scopes.SHOP, urn, "email", job.Action.EXTRACT, Priority.P3, text)
    await queue.close()


async def test_what_a_person_says_does_not_wait_for_the_bulk(
    run: program.Running, http: httpx.AsyncClient, fake: process.Fake, data: Path
) -> None:
    await fill(data)
    async with run() as kb, asyncio.TaskGroup() as group:
        kb_client = client.Client(kb.url, http)
        numbers = itertools.count(BULK)

        async def keep_writing() -> None:
            while True:
                urn = f"more:{next(numbers)}"
                with contextlib.suppress(client.Unavailable):
                    await kb_client.learning.index(
                        world.request(f"More of the bulk: {urn}.", urn=urn), urgency=Priority.P3
                    )

        writers = [group.create_task(keep_writing()) for _ in range(WRITERS)]
        kept: list[float] = []
        extracted: list[float] = []
        asked = dict[int, dict[str, Any]]()
        passed: list[int] = []
        for number in range(SAID):
            started = time.perf_counter()
            said = api.Knowledge(scope=scopes.SHOP, subject=f"S{number}", content=f"Jana Novak wrote a{number}.py.")
            reply = await kb_client.learning.store(said)
            assert reply.priority == 1
            kept.append(time.perf_counter() - started)
            question = api.RetrieveRequest(scope=scopes.SHOP, query=f"a{number}.py", sources=[reply.source_urn])
            assert (await kb_client.retrieve(question, urgency=Priority.P1)).items

            async def done() -> bool:
                head = (await kb_client.queue.listed(scopes.SHOP, limit=5)).jobs
                return all(one.id != reply.id for one in head)  # noqa: B023 -- used in this round

            await waiting.eventually(done)
            extracted.append(time.perf_counter() - started)
            urgent = await asyncio.to_thread(fake.requests, priority="1")
            mine = [one for one in urgent if f"a{number}.py" in json.dumps(one["body"])]
            extractions = [one for one in mine if one["tag"] == "kb.extract/v1"]
            asked |= {one["seq"]: one for one in extractions}
            # Its embedding is asked for while it is taken; the simulator counts what it does for all in between.
            passed.append(extractions[0]["granted"] - mine[0]["seq"])
        left = (await kb_client.queue.listed(scopes.SHOP, limit=1)).total
        for one in writers:
            one.cancel()
        again = await asyncio.to_thread(fake.requests, tag="kb.extract/v1", priority="1")
        assert len(asked | {one["seq"]: one for one in again}) == SAID, "each was extracted once, at its own priority"
        assert left > 0, "and the bulk was still waiting"
        assert max(passed) < BULK / 10, "hardly any of it was done first"
        figures = {
            "bulkWaiting": left,
            "passed": passed,
            "keptSeconds": seconds(kept),
            "extractedSeconds": seconds(extracted),
        }
        print(json.dumps(figures))


def seconds(taken: list[float]) -> dict[str, float]:
    """Printed, not asserted: the machine may be busy."""
    taken = sorted(taken)
    return {"p50": round(taken[len(taken) // 2], 3), "max": round(taken[-1], 3)}
