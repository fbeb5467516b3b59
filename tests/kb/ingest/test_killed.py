"""kill -9 of the writing process before each of its calls: the next process ends where an undisturbed one would.

`make test` kills before each ninth call, `make test-thorough` before each.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from kb.ingest import request_record
from kb.vectors import weaviate
from tests import thorough
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.ingest import victim

pytestmark = pytest.mark.services

OLD = "Zdenek Veverka wrote Oldthing.java for Initech."
NEW = world.LONG[:1500]


async def test_killed_before_each_call_and_resumed_by_the_next_process(
    open_world: world.Opening,
    clock: clocks.Clock,
    fake: process.Fake,
    weaviate_store: weaviate.Store,
    weaviate_server: tuple[str, int],
    weaviate_index: str,
) -> None:
    url, port = weaviate_server
    place = {"weaviate": url, "grpc": port, "index": weaviate_index, "ollama": fake.url}
    stores = (weaviate_store, memory.Content())

    # What an undisturbed replacement leaves, how many calls it makes, and how many of them ask about passages.
    async with open_world(*stores, within="before", chunk_chars=900) as kb:
        await kb.ingest(world.request(OLD))
    before = open_world.path / "before"
    reference = Path(shutil.copytree(before, open_world.path / "reference"))
    asked = fake.count(tag="kb.extract/v1")
    calls = victim.run(place, reference, "ingest", NEW)
    passages = fake.count(tag="kb.extract/v1") - asked
    async with open_world(*stores, within="reference", chunk_chars=900) as kb:
        expected = await kb.state()
    assert len(calls) > 12

    repeated = []
    # An ingest counts from the call that records it. What is lost with an answer is seen before each that is kept.
    points = range(calls.index("open") + 2, len(calls) + 1)
    answered = (number for number in points if calls[number - 1] == "keep_answer")
    for deadly in sorted({*thorough.part(points, thorough.KILLS), *answered}):
        path = Path(shutil.copytree(before, open_world.path / f"killed{deadly}"))
        # Back to the old document in Weaviate, which all of these processes share.
        async with open_world(*stores, within=path.name, chunk_chars=900) as kb:
            await kb.ingest(world.request(OLD))
        asked = fake.count(tag="kb.extract/v1")
        victim.run(place, path, "ingest", NEW, deadly)
        async with open_world(*stores, within=path.name, chunk_chars=900) as kb:
            assert await kb.recovery.sweep(before=clock() + timedelta(seconds=1)) == 1
            assert await kb.state() == expected
            assert await kb.ledger.count() == {request_record.State.FINISHED: 1}
            repeated.append(fake.count(tag="kb.extract/v1") - asked - passages)
            assert await kb.pipeline.forget(scopes.SHOP, world.request().source_urn)
            assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
    # Asked about again is at most the one passage whose answer was not kept yet.
    assert passages > 1
    assert set(repeated) == {0, 1}
