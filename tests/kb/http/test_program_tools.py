"""Atomic tools of the service as a process, on its real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kb import api, client
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.http import program, test_program_rules

pytestmark = pytest.mark.services
URN = "email::<m1@acme.com>"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


async def test_what_tools_store_is_found_and_goes_with_its_document(
    run: program.Running, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    async with run(JERVIS_KB_QUALIFY_TOOLS="true") as kb:
        kb_client = client.Client(kb.url, http)

        async def call(tool: str, **arguments: Any) -> httpx.Response:
            body = {"scope": scopes.SHOP.model_dump(by_alias=True), **arguments}
            return await http.post(f"{kb.url}/api/v1/tools/{tool}", json=body)

        chunk = (await kb_client.ingest(world.request())).chunk_ids[0]
        stored = await call("storeChunk", documentId=URN, content="Heron guards UserService.kt.", nodeKey="user:heron")
        assert stored.status_code == 200, stored.text
        found = (await call("searchHybrid", query="heron guards", maxResults=1)).json()["found"]
        assert [one["chunkId"] for one in found] == stored.json()["chunkIds"]
        ends = {"fromKey": "person:Petr Svoboda", "toKey": "file:UserService.kt", "ragChunkIds": [chunk]}
        related = await call("createRelationship", edgeType="maintains", **ends)
        assert related.status_code == 200, related.text
        shown = await kb_client.looking.relationships(scopes.SHOP, source=related.json()["fromKey"])
        assert "maintains" in {one.type for one in shown.relationships}

        rule = test_program_rules.rule("tools", "enforce: never-call storeChunk")
        await kb_client.rules.put(rule.model_copy(update={"rule_type": api.RuleType.SECURITY}))
        refused = await call("storeChunk", documentId=URN, content="Heron sleeps.", nodeKey="user:heron")
        assert (refused.status_code, refused.json()["error"]["field"]) == (403, "name")

        await kb_client.forget(scopes.SHOP, URN)
        assert (await call("searchHybrid", query="heron guards")).json() == {"found": []}
        gone = await kb_client.looking.relationships(scopes.SHOP, source=related.json()["fromKey"])
        assert gone.relationships == []

        issue = "JERV-77: The page is blank\n\nPlease fix PageView.kt by 2099-04-15.\n"
        reply = await kb_client.ingest(world.request(issue, urn="jira::JERV-77", kind="issue"))
        assert (reply.hints.has_actionable_content, reply.hints.has_future_deadline) == (True, True)
        assert fake.count(tag="kb.qualify.tools/v1") == 1
        assert fake.count(tag="kb.qualify.jira/v2") == 0
