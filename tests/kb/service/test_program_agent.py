"""The decision agent and the atomic tools of the service as a process, on its real stores."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kb import api, client
from tests.fakes.ollama import process
from tests.kb import calls, scopes, world
from tests.kb.agent import rig
from tests.kb.agent.rig import MANUAL, SAID, SEARCH, WRITE
from tests.kb.rules import test_enforce
from tests.kb.service import callers, program

pytestmark = pytest.mark.services


async def asked(kb_client: client.Client, **more: object) -> list[api.AgentEvent]:
    question = api.AgenticSearch.model_validate({"scope": scopes.SHOP, "query": "What is the voltage?", **more})
    async with kb_client.agent.ask(question) as events:
        return [one async for one in events]


async def test_a_question_is_answered_remembered_and_erased(run: program.Running, fake: process.Fake) -> None:
    async with run(JERVIS_KB_DECISION_MODEL=rig.MODEL, JERVIS_KB_AGENT_HITS="3") as kb:
        await kb.client.ingest(world.request(MANUAL, urn="manual::pump", kind="manual", title="Pump manual"))
        fake.forget()
        fake.set_script({rig.DECIDE: [SEARCH, WRITE] * 2, rig.ANSWER: [SAID] * 2})
        found = await asked(kb.client, conversation="talk-1", resume_seconds=30)
        assert (rig.text(found), found[-1].outcome) == (SAID, "answered")
        [cited] = found[-1].citations or []
        assert (cited.source_urn, cited.title) == ("manual::pump", "Pump manual")
        async with kb.client.agent.resume(scopes.SHOP, found[0].stream or "", after=found[-2].id) as events:
            assert [one.type async for one in events] == ["complete"]
        await asked(kb.client, conversation="talk-1")
        assert f"Answer: {SAID}" in fake.requests(tag=rig.DECIDE)[2]["body"]["messages"][1]["content"]
        figures = await kb.metrics()
        assert 'jervis_kb_agent_questions_total{outcome="answered"} 2.0' in figures
        described = (await kb.http.get("/api/v1/openapi.json")).json()
        assert {"/api/v1/agentic_search", "/api/v1/agentic_search/{stream}"} <= described["paths"].keys()


async def test_a_model_that_no_backend_has_is_said(run: program.Running, fake: process.Fake) -> None:
    async with run() as kb:
        found = await asked(kb.client)
    assert [one.type for one in found] == ["status", "error", "complete"]
    assert (found[1].recoverable, found[-1].outcome) == (True, "failed")
    assert "gpt-oss:120b" in (found[1].message or "")


URN = "email::<m1@acme.com>"


async def test_what_tools_store_is_found_and_goes_with_its_document(run: program.Running, fake: process.Fake) -> None:
    async with run(JERVIS_KB_QUALIFY_TOOLS="true") as kb:

        async def call(tool: str, **arguments: Any) -> httpx.Response:
            return await kb.http.post(f"/api/v1/tools/{tool}", json={"scope": callers.SHOP, **arguments})

        chunk = (await kb.client.ingest(world.request())).chunk_ids[0]
        stored = await call("storeChunk", documentId=URN, content="Heron guards UserService.kt.", nodeKey="user:heron")
        assert stored.status_code == 200, stored.text
        found = (await call("searchHybrid", query="heron guards", maxResults=1)).json()["found"]
        assert [one["chunkId"] for one in found] == stored.json()["chunkIds"]
        ends = {"fromKey": "person:Petr Svoboda", "toKey": "file:UserService.kt", "ragChunkIds": [chunk]}
        related = await call("createRelationship", edgeType="maintains", **ends)
        assert related.status_code == 200, related.text
        shown = await calls.relationships(kb.client, scopes.SHOP, source=related.json()["fromKey"])
        assert "maintains" in {one.type for one in shown.relationships}

        rule = test_enforce.draft("enforce: never-call storeChunk", "tools", rule_type=api.RuleType.SECURITY)
        await kb.client.rules.put(rule)
        refused = await call("storeChunk", documentId=URN, content="Heron sleeps.", nodeKey="user:heron")
        assert (refused.status_code, refused.json()["error"]["field"]) == (403, "name")

        await kb.client.forget(scopes.SHOP, URN)
        assert (await call("searchHybrid", query="heron guards")).json() == {"found": []}
        gone = await calls.relationships(kb.client, scopes.SHOP, source=related.json()["fromKey"])
        assert gone.relationships == []

        issue = "JERV-77: The page is blank\n\nPlease fix PageView.kt by 2099-04-15.\n"
        reply = await kb.client.ingest(world.request(issue, urn="jira::JERV-77", kind="issue"))
        assert (reply.hints.has_actionable_content, reply.hints.has_future_deadline) == (True, True)
        assert fake.count(tag="kb.qualify.tools/v1") == 1
        assert fake.count(tag="kb.qualify.jira/v2") == 0
