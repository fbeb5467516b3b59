"""Two writers and a new embedding model: a rolling update, kill -9 of the one that copies, and writes meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import api, client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import conftest, scopes, world
from tests.kb.reindex import rig as rigs
from tests.kb.writers import campaign

pytestmark = pytest.mark.services
NEW = {
    "JERVIS_KB_EMBED_MODEL": rigs.MODEL,
    "JERVIS_KB_EMBED_MODEL_BEFORE": rigs.BEFORE,
    "JERVIS_KB_REINDEX_DROP": "false",
}


@dataclass
class Services(campaign.Services):
    """Writers get the settings of today and `more`."""

    more: dict[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        return super().settings() | self.more


@pytest.fixture
async def services(fake: process.Fake) -> AsyncIterator[Services]:
    with campaign.graphs() as graph:
        made = Services(fake.url, *conftest.stores(), graph)
        yield made
        await campaign.clean(made)
        async with made.index(rigs.MODEL) as store:
            await store.destroy()


async def held(services: Services, model: str) -> dict[str, Any]:
    """What the index of a model holds of the client."""
    async with services.index(model) as store:
        chunks, _ = await store.audit("acme", limit=10_000)
        lines, _ = await store.audit_sentences("acme", limit=10_000)
    found: dict[str, Any] = {one.chunk_id: one for one in chunks}
    return found | {one.sentence_id: one for one in lines}


async def test_the_copying_goes_on_in_the_other_writer_and_waits_for_one_with_the_settings_of_before(
    services: Services, fake: process.Fake, tmp_path: Path
) -> None:
    async with (
        httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as http,
        campaign.writers(services, tmp_path, 2) as (first, second),
    ):
        clients = {one.url: client.Client(one.url, http) for one in (first, second)}
        for number in range(4):
            text = f"{world.LONG}\n\nPart {number} ends."
            await clients[first.url].ingest(world.request(text, urn=f"u:{number}"))
        await first.kill()
        first._settings |= NEW
        # The third call of the new model hangs, after the probe and a batch: the writer that makes it is killed.
        embeds = {"model": rigs.MODEL, "path": "/api/embed"}
        fake.set_faults([{"match": embeds, "nth": 3, "stall": {"afterBytes": 0, "gate": "writers"}}])
        await first.start()

        async def status(one: campaign.Writer) -> api.Reindex | None:
            with contextlib.suppress(client.Unavailable):
                return await clients[one.url].reindexing.status()
            return None

        def reached(one: campaign.Writer, wanted: Callable[[api.Reindex], bool]) -> Awaitable[bool]:
            async def look() -> bool:
                found = await status(one)
                return found is not None and wanted(found)

            return waiting.eventually(look, pause=0.1)

        async def forget(one: campaign.Writer, urn: str) -> None:
            again = False

            async def gone() -> bool:
                nonlocal again
                try:
                    await clients[one.url].forget(scopes.SHOP, urn)
                except client.Unavailable:
                    again = True
                    return False
                except client.Rejected as error:
                    # What seemed to fail may have been done.
                    if not again or error.code != "not_found":
                        raise
                return True

            await waiting.eventually(gone, pause=0.1)

        # Until the one with the settings of before is gone, nothing is copied. It may have had the duty.
        await second.kill()
        second._settings |= NEW
        await reached(first, lambda found: found.state == "Copying" and found.reason.startswith("waits for"))
        assert fake.count(**embeds) == 1
        await second.start()
        await reached(first, lambda found: found.passes >= 1 and fake.count(**embeds) >= 3)
        leader = first if await leads(first, http) else second
        other = second if leader is first else first
        await leader.kill()
        fake.set_faults([])
        # Writes and deletions while it is copied, or just after.
        await clients[other.url].ingest(world.request("Petr Svoboda wrote Late.java for Globex.", urn="u:late"))
        await forget(other, "u:3")
        await reached(other, lambda found: found.state == "Switched")
        after = await held(services, rigs.MODEL)
        assert after == await held(services, rigs.BEFORE)
        urns = {one.source_urn for one in after.values() if hasattr(one, "source_urn")}
        assert urns == {"u:0", "u:1", "u:2", "u:late"}
        assert (await clients[other.url].reindexing.drop("jana")).drop_asked
        await reached(other, lambda found: found.state == "Done")
        assert await held(services, rigs.BEFORE) == {}


async def leads(one: campaign.Writer, http: httpx.AsyncClient) -> bool:
    return "jervis_kb_leading 1.0" in (await http.get(f"{one.url}/metrics")).text
