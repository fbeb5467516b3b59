"""A new embedding model in the whole service: kill -9 in the middle of the copying, real stores, one process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from cli.knowledge import __main__ as cli
from kb import api, client
from kb.vectors import weaviate
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import conftest, scopes, world
from tests.kb.http import program
from tests.kb.reindex import rig as rigs

pytestmark = pytest.mark.services
QUESTION = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote UserService?")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


@pytest.fixture
async def index() -> AsyncIterator[str]:
    """An index of this test alone; the collections of all of its models go at the end."""
    name = f"test_kb_{uuid.uuid4().hex[:12]}"
    yield name
    url, port = conftest.required("JERVIS_TEST_WEAVIATE_URL"), conftest.required("JERVIS_TEST_WEAVIATE_GRPC_PORT")
    store = weaviate.Store(url, int(port), rigs.MODEL, index=name)
    await store.ready()
    ours = [one for one in await store._client.collections.list_all() if one.startswith(store._prefix)]
    await store._client.collections.delete(ours)
    await store.close()


async def test_the_new_model_serves_after_a_kill_and_the_old_index_is_gone(
    run: program.Running, http: httpx.AsyncClient, fake: process.Fake, index: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {"JERVIS_KB_INDEX": index}
    new = old | {"JERVIS_KB_EMBED_MODEL": rigs.MODEL, "JERVIS_KB_EMBED_MODEL_BEFORE": rigs.BEFORE}
    async with run(**old) as kb:
        kb_client = client.Client(kb.url, http)
        await kb_client.ready()
        for number in range(3):
            await kb_client.ingest(world.request(world.LONG + f"\n\nPart {number} ends here.", urn=f"u:{number}"))
        reply = await kb_client.ingest(world.request())
        assert await kb_client.reindexing.status() is None
        [before, *_] = (await kb_client.retrieve(QUESTION)).items
        assert await kb.end(signal.SIGTERM) == 0
    asked = fake.count(tag="kb.extract/v1")
    # The new model answers the probe and one batch; the next one hangs until the process is gone.
    hold = {"match": {"model": rigs.MODEL}, "nth": 3, "stall": {"afterBytes": 0, "gate": "reindex"}}
    fake.set_faults([hold])
    async with run(**new) as kb:
        kb_client = client.Client(kb.url, http)

        async def copying() -> bool:
            with contextlib.suppress(client.Unavailable):
                found = await kb_client.reindexing.status()
                return found is not None and found.state == "Copying" and fake.count(model=rigs.MODEL) >= 3
            return False

        await waiting.eventually(copying)
        # The old index serves, and is written to.
        assert (await kb_client.retrieve(QUESTION)).items[0].provenance == before.provenance
        await kb.end(signal.SIGKILL)
    fake.set_faults([])
    async with run(**new) as kb:
        kb_client = client.Client(kb.url, http)

        async def done() -> bool:
            with contextlib.suppress(client.Unavailable):
                found = await kb_client.reindexing.status()
                return found is not None and found.state == "Done"
            return False

        await waiting.eventually(done)
        assert (await kb_client.retrieve(QUESTION)).items[0].provenance == before.provenance
        look = (await http.get(f"{kb.url}/api/v1/health/consistency", params={"clientId": "acme"})).json()
        assert look["findings"] == []
        assert fake.count(tag="kb.extract/v1") == asked
        with pytest.raises(client.Rejected, match="no reindex"):
            await kb_client.reindexing.drop("Jana")
        with pytest.raises(SystemExit, match="0"):
            await asyncio.to_thread(cli.main, ["reindex", "status", "--url", kb.url])
        assert f"{rigs.BEFORE} -> {rigs.MODEL}: Done" in capsys.readouterr().out
        # What is known stays known to what comes after: the same text is stored, with nothing to copy.
        again = await kb_client.ingest(world.request())
        assert again.chunk_ids == reply.chunk_ids
        name = [line for line in (await http.get(f"{kb.url}/metrics")).text.splitlines() if "reindex_phase " in line]
        assert name[-1] == "jervis_kb_reindex_phase 4.0"
        assert await kb.end(signal.SIGTERM) == 0
    # Without the name of the old model in the settings all is as it was.
    async with run(**old, JERVIS_KB_EMBED_MODEL=rigs.MODEL) as kb:
        kb_client = client.Client(kb.url, http)
        await kb_client.ready()
        assert (await kb_client.retrieve(QUESTION)).items[0].provenance == before.provenance
