"""Pages in the service as it runs: a served model, the choice, the upload, the search, the deletion, the erasure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crds import scope
from kb import api, client
from kb.agent import page_tools
from kb.visual.weaviate import store
from tests import ports
from tests.fakes import pooling
from tests.fakes.ollama import process
from tests.kb import calls, conftest, scopes
from tests.kb.agent import rig
from tests.kb.files import making as files
from tests.kb.service import program
from tests.kb.visual import place as places

pytestmark = pytest.mark.services
RAW = files.pages(places.lines("The lease of the office"), places.lines("The pressure valve opens at nine bar"))
AWAY = {"name": "weather", "url": "http://127.0.0.1:9/mcp", "clients": ["acme"], "tools": ["*"], "modes": {"*": "read"}}
QUESTION = api.PageSearch(scope=scopes.SHOP, query="pressure valve")


@pytest.fixture
async def serving() -> AsyncIterator[pooling.Fake]:
    async with pooling.serving() as made:
        yield made


@pytest.fixture
async def index(settings: dict[str, str], serving: pooling.Fake) -> AsyncIterator[store.Store]:
    """The service's own index, to look into and to take away."""
    settings |= {"JERVIS_KB_VISUAL_URL": serving.url, "JERVIS_KB_VISUAL_MODEL": "served"}
    settings |= {"JERVIS_KB_PDF_PAGES": "0"}
    url, port, _ = conftest.stores()
    made = store.Store(url, port, "served", index=settings["JERVIS_KB_INDEX"])
    yield made
    await made.destroy()
    await made.close()


async def asked_of_the_agent(kb: client.Client, fake: process.Fake) -> None:
    """The service's own agent finds the page, has it looked at, and goes on without a server that is away."""
    chosen = [rig.decided("colqwen_visual_search", query="pressure valve"), rig.decided("visual_interpretation")]
    fake.set_script(
        {
            rig.DECIDE: [*chosen, rig.decided("text_response")],
            page_tools.INTERPRET: ["A valve."],
            rig.ANSWER: ["It is a valve [1]."],
        }
    )
    async with kb.agent.ask(api.AgenticSearch(scope=scopes.SHOP, query="What is on the drawing?")) as events:
        found = [one async for one in events]
    assert "The server weather does not answer" in (found[1].message or "")
    assert [one.payload_type for one in found if one.type == "result"] == ["colqwen_pages", "interpretations"]
    [cited] = found[-1].citations or []
    assert (cited.source_urn, cited.page) == ("file::valve", 2)
    assert (await kb.pages.image(scopes.SHOP, cited.page_id, cited.place)).startswith(b"\x89PNG")


async def test_pages_come_with_a_file_and_go_with_its_document_and_its_scope(
    tmp_path: Path, settings: dict[str, str], serving: pooling.Fake, index: store.Store, fake: process.Fake
) -> None:
    settings |= {"JERVIS_KB_DECISION_MODEL": rig.MODEL, "JERVIS_KB_VISION_MODEL": rig.MODEL}
    settings |= {"JERVIS_KB_AGENT_INTERPRETED": "1", "JERVIS_KB_AGENT_SERVERS": json.dumps([AWAY])}
    async with program.running(tmp_path, ports.free(), settings) as running:
        kb = running.client
        await calls.choose_pages(kb, api.PageChoiceDraft(scope=scopes.ACME, pages="All", by="jana"))

        async def sent(owner: scope.Scope) -> None:
            reply = await kb.learning.file(owner, RAW, filename="valve.pdf", source_urn="file::valve")
            assert reply.page_images
            await running.until_drawn("file::valve", owner)

        await sent(scopes.SHOP)
        assert len([one for one in serving.asked if "messages" in one]) == 2
        reply = await kb.pages.search(QUESTION)
        assert (reply.model, reply.looked_at_images) == ("served", "Seen")
        assert [(one.source_urn, one.page_number) for one in reply.pages][:1] == [("file::valve", 2)]
        assert (await kb.fetch(scopes.SHOP, reply.pages[0].image.key)).startswith(b"\x89PNG")
        assert len((await index.audit("acme"))[0]) == 2
        await asked_of_the_agent(kb, fake)
        specification = (await running.http.get("/api/v1/openapi.json")).json()
        assert {"/api/v1/search/pages", "/api/v1/search/pages/{pageId}/image"} <= specification["paths"].keys()
        assert 'jervis_kb_pages_total{outcome="page"} 2.0' in await running.metrics()

        await kb.forget(scopes.SHOP, "file::valve")
        assert (await kb.pages.search(QUESTION)).pages == []
        assert (await index.audit("acme"))[0] == []
        with pytest.raises(client.Rejected):
            await kb.fetch(scopes.SHOP, reply.pages[0].image.key)

        await sent(scopes.SHOP)
        key = (await kb.pages.search(QUESTION)).pages[0].image.key
        await running.until_erased(scopes.ACME, (await kb.erasing.ask(scopes.ACME, "jana")).id)
        assert (await index.audit("acme"))[0] == []
        assert await calls.page_choices(kb, scopes.SHOP) == []
        with pytest.raises(client.Rejected):
            await kb.fetch(scopes.SHOP, key)
