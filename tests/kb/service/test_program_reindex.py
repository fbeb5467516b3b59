"""A new embedding model in the whole service: kill -9 in the middle of the copying, real stores, one process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator

import pytest

from cli.knowledge import __main__ as cli
from kb import api, client
from kb.vectors import weaviate
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import conftest, scopes, world
from tests.kb.reindex import rig as rigs
from tests.kb.service import program

pytestmark = pytest.mark.services
QUESTION = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote UserService?")


@pytest.fixture
async def index() -> AsyncIterator[str]:
    """An index of this test alone; the collections of all of its models go at the end."""
    name = f"test_kb_{uuid.uuid4().hex[:12]}"
    yield name
    url, port, _ = conftest.stores()
    store = weaviate.Store(url, port, rigs.MODEL, index=name)
    await store.ready()
    ours = [one for one in await store._client.collections.list_all() if one.startswith(store._prefix)]
    await store._client.collections.delete(ours)
    await store.close()


async def test_the_new_model_serves_after_a_kill_and_the_old_index_is_gone(
    run: program.Running, fake: process.Fake, index: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {"JERVIS_KB_INDEX": index}
    new = old | {"JERVIS_KB_EMBED_MODEL": rigs.MODEL, "JERVIS_KB_EMBED_MODEL_BEFORE": rigs.BEFORE}
    async with run(**old) as kb:
        await kb.client.ready()
        for number in range(3):
            await kb.client.ingest(world.request(world.LONG + f"\n\nPart {number} ends here.", urn=f"u:{number}"))
        reply = await kb.client.ingest(world.request())
        assert await kb.client.reindexing.status() is None
        [before, *_] = (await kb.client.retrieve(QUESTION)).items
        assert await kb.end(signal.SIGTERM) == 0
    asked = fake.count(tag="kb.extract/v1")
    # The new model answers the probe and one batch; the next one hangs until the process is gone.
    hold = {"match": {"model": rigs.MODEL}, "nth": 3, "stall": {"afterBytes": 0, "gate": "reindex"}}
    fake.set_faults([hold])
    async with run(**new) as kb:

        async def copying() -> bool:
            with contextlib.suppress(client.Unavailable):
                found = await kb.client.reindexing.status()
                return found is not None and found.state == "Copying" and fake.count(model=rigs.MODEL) >= 3
            return False

        await waiting.eventually(copying)
        # The old index serves, and is written to.
        assert (await kb.client.retrieve(QUESTION)).items[0].provenance == before.provenance
        await kb.end(signal.SIGKILL)
    fake.set_faults([])
    async with run(**new) as kb:

        async def done() -> bool:
            with contextlib.suppress(client.Unavailable):
                found = await kb.client.reindexing.status()
                return found is not None and found.state == "Done"
            return False

        await waiting.eventually(done)
        assert (await kb.client.retrieve(QUESTION)).items[0].provenance == before.provenance
        look = (await kb.http.get("/api/v1/health/consistency", params={"clientId": "acme"})).json()
        assert look["findings"] == []
        assert fake.count(tag="kb.extract/v1") == asked
        with pytest.raises(client.Rejected, match="no reindex"):
            await kb.client.reindexing.drop("Jana")
        with pytest.raises(SystemExit, match="0"):
            await asyncio.to_thread(cli.main, ["reindex", "status", "--url", kb.url])
        assert f"{rigs.BEFORE} -> {rigs.MODEL}: Done" in capsys.readouterr().out
        # What is known stays known to what comes after: the same text is stored, with nothing to copy.
        again = await kb.client.ingest(world.request())
        assert again.chunk_ids == reply.chunk_ids
        name = [line for line in (await kb.metrics()).splitlines() if "reindex_phase " in line]
        assert name[-1] == "jervis_kb_reindex_phase 4.0"
        assert await kb.end(signal.SIGTERM) == 0
    # Without the name of the old model in the settings all is as it was.
    async with run(**old, JERVIS_KB_EMBED_MODEL=rigs.MODEL) as kb:
        await kb.client.ready()
        assert (await kb.client.retrieve(QUESTION)).items[0].provenance == before.provenance
