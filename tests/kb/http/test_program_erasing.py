"""Erasing on real stores, killed in the middle; attachments through the real Tika, and what is hostile among them."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import httpx
import pytest

from kb import api, client
from tests import waiting
from tests.kb import scopes, world
from tests.kb.files import making
from tests.kb.http import program

pytestmark = pytest.mark.services
DOCUMENTS = 60


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


async def test_an_erasure_goes_on_after_a_kill(run: program.Running, http: httpx.AsyncClient) -> None:
    everything = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote a file?", max_results=100)
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        for number in range(DOCUMENTS):
            await kb_client.learning.index(world.request(f"Petr Svoboda wrote file{number}.py.", urn=f"u:{number}"))
        await kb_client.learning.index(world.request("Petr Svoboda wrote kept.py.", urn="kept", owner=scopes.BLOG))
        kept = await kb_client.store(scopes.SHOP, b"a file")
        asked = await kb_client.erasing.ask(scopes.SHOP, "jana")

        async def begun() -> bool:
            found = (await http.get(f"{kb.url}/metrics")).text
            return "jervis_kb_erased_documents_total 0.0" not in found

        await waiting.eventually(begun, pause=0.005)
        await kb.end(signal.SIGKILL)
    async with run() as kb:
        kb_client = client.Client(kb.url, http)

        async def done() -> bool:
            [found] = await kb_client.erasing.listed(scopes.SHOP)
            assert found.id == asked.id
            return found.state == "Done"

        await waiting.eventually(done)
        assert (await kb_client.retrieve(everything)).items == []
        look = await kb_client.looking.consistency(scopes.SHOP)
        assert (look.documents, look.chunks, look.unfinished, look.findings) == (0, 0, 0, [])
        assert (await kb_client.queue.listed(scopes.SHOP)).total == 0
        with pytest.raises(client.Rejected, match="no"):
            await kb_client.fetch(scopes.SHOP, kept.key)
        [item] = (await kb_client.retrieve(everything.model_copy(update={"scope": scopes.BLOG}))).items
        assert item.provenance.source_urn == "kept"
        assert (await kb_client.learning.index(world.request(urn="u:1"))).replaced is False


async def test_attachments_through_tika(run: program.Running, http: httpx.AsyncClient) -> None:
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        await kb_client.learning.index(world.request())

        async def attach(raw: bytes, name: str) -> api.FileReply:
            kept = await kb_client.store(scopes.SHOP, raw, "application/octet-stream")
            urn = "email::<m1@acme.com>"
            draft = api.AttachmentDraft(scope=scopes.SHOP, attached_to=urn, name=name, content_ref=kept)
            return await kb_client.learning.attachment(draft)

        line = "The warranty ends in May 2031."
        made = await attach(making.docx(line), "terms.docx")
        question = api.RetrieveRequest(
            scope=scopes.SHOP,
            query="When does the warranty end?",
            sources=[api.attachment_sources("email::<m1@acme.com>")],
        )
        [item] = (await kb_client.retrieve(question)).items
        assert (item.content, item.provenance.source_urn) == (line, made.source_urn)
        for hostile in (making.zip_bomb(300), making.mails_within_mails(60), b"%PDF-1.7 torn"):
            with pytest.raises(client.Rejected) as caught:
                await attach(hostile, "hostile.bin")
            assert (caught.value.field, bool(caught.value.remedy)) == ("body", True)
        await kb_client.forget(scopes.SHOP, "email::<m1@acme.com>")
        assert (await kb_client.retrieve(question)).items == []
