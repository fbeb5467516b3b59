"""The decision agent of the service as a process, on its real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from kb import api, client
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.agent import rig
from tests.kb.agent.test_orchestrator import MANUAL, SAID, SEARCH, WRITE
from tests.kb.http import program

pytestmark = pytest.mark.services


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


async def asked(kb_client: client.Client, **more: object) -> list[api.AgentEvent]:
    question = api.AgenticSearch.model_validate({"scope": scopes.SHOP, "query": "What is the voltage?", **more})
    async with kb_client.agent.ask(question) as events:
        return [one async for one in events]


async def test_a_question_is_answered_remembered_and_erased(
    run: program.Running, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    async with run(JERVIS_KB_DECISION_MODEL=rig.MODEL, JERVIS_KB_AGENT_HITS="3") as kb:
        kb_client = client.Client(kb.url, http)
        await kb_client.ingest(world.request(MANUAL, urn="manual::pump", kind="manual", title="Pump manual"))
        fake.forget()
        fake.set_script({rig.DECIDE: [SEARCH, WRITE] * 2, rig.ANSWER: [SAID] * 2})
        found = await asked(kb_client, conversation="talk-1", resume_seconds=30)
        assert (rig.text(found), found[-1].outcome) == (SAID, "answered")
        [cited] = found[-1].citations or []
        assert (cited.source_urn, cited.title) == ("manual::pump", "Pump manual")
        async with kb_client.agent.resume(scopes.SHOP, found[0].stream or "", after=found[-2].id) as events:
            assert [one.type async for one in events] == ["complete"]
        await asked(kb_client, conversation="talk-1")
        assert f"Answer: {SAID}" in fake.requests(tag=rig.DECIDE)[2]["body"]["messages"][1]["content"]
        figures = (await http.get(f"{kb.url}/metrics")).text
        assert 'jervis_kb_agent_questions_total{outcome="answered"} 2.0' in figures
        described = (await http.get(f"{kb.url}/api/v1/openapi.json")).json()
        assert {"/api/v1/agentic_search", "/api/v1/agentic_search/{stream}"} <= described["paths"].keys()


async def test_a_model_that_no_backend_has_is_said(
    run: program.Running, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    async with run() as kb:
        found = await asked(client.Client(kb.url, http))
    assert [one.type for one in found] == ["status", "error", "complete"]
    assert (found[1].recoverable, found[-1].outcome) == (True, "failed")
    assert "gpt-oss:120b" in (found[1].message or "")
