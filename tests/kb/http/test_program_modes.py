"""One process reads and one writes, over the same stores (`kb.profile=distributed`); the graph is in a stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from crds.priority import Priority
from kb import api, client
from tests import ports
from tests.fakes.arango import server
from tests.kb import scopes, world
from tests.kb.http import program

pytestmark = pytest.mark.services
QUESTION = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote UserService?")


@pytest.fixture
def graph() -> Iterator[server.Server]:
    with server.Server() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


async def test_what_one_writes_the_other_one_reads_and_neither_does_both(
    tmp_path: Path, settings: dict[str, str], graph: server.Server, http: httpx.AsyncClient
) -> None:
    shared = {"JERVIS_KB_ARANGO_URL": graph.url, "JERVIS_KB_ARANGO_DATABASE": "modes"}
    folders = {mode: tmp_path / mode for mode in ("read", "write")}
    for folder in folders.values():
        folder.mkdir()
    mode = {name: settings | shared | {"JERVIS_KB_MODE": name} for name in folders}
    async with (
        program.running(folders["write"], ports.free(), mode["write"]) as writer,
        program.running(folders["read"], ports.free(), mode["read"]) as reader,
    ):
        for one in (writer, reader):
            assert (await http.get(f"{one.url}/servez")).status_code == 200
        writing, reading = client.Client(writer.url, http), client.Client(reader.url, http)
        reply = await writing.ingest(world.request(), urgency=Priority.P1)
        [item] = (await reading.retrieve(QUESTION)).items
        assert item.provenance.chunk_id in reply.chunk_ids
        with pytest.raises(client.Rejected) as refused:
            await reading.ingest(world.request())
        assert refused.value.status == 404
        with pytest.raises(client.Rejected) as refused:
            await writing.retrieve(QUESTION)
        assert refused.value.status == 404
        reference = await writing.store(scopes.SHOP, b"body")
        assert await reading.fetch(scopes.SHOP, reference.key) == b"body"
        await writing.forget(scopes.SHOP, world.request().source_urn)
        assert (await reading.retrieve(QUESTION)).items == []
