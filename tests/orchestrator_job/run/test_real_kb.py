"""The Job against the real knowledge base: a mail is ingested, a question is answered from it, with evidence."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import httpx
import pytest

from crds import scope
from kb import api
from kb import client as kb_client
from tests import ports
from tests.fakes.ollama import process
from tests.kb.service import program
from tests.orchestrator_job import job

pytestmark = pytest.mark.services

_MAIL = """From: Ann Novak <ann@acme.example>
To: Team Router <router@acme.example>
Subject: Release of the router

The release of the router is planned for Friday the 13th of March 2026.
Bob Svoboda tests the failover on Wednesday.
The canteen serves soup.
"""


def settings(mongodb_uri: str, database: str, router_url: str) -> dict[str, str]:
    """Of a knowledge base with the real stores."""
    return {
        "JERVIS_KB_ROUTER_URL": router_url,
        "JERVIS_KB_WEAVIATE_URL": os.environ["JERVIS_TEST_WEAVIATE_URL"],
        "JERVIS_KB_WEAVIATE_GRPC_PORT": os.environ["JERVIS_TEST_WEAVIATE_GRPC_PORT"],
        "JERVIS_KB_MONGODB_URI": mongodb_uri,
        "JERVIS_KB_MONGODB_DATABASE": database,
    }


async def test_a_question_is_answered_from_an_ingested_mail(
    tmp_path: Path, mongodb_uri: str, store: job.Store, fake: process.Fake
) -> None:
    owner = scope.Scope(client_id=f"test{uuid.uuid4().hex[:12]}", project_id="router")
    urn = "email::<release@acme.example>"
    async with (
        program.running(tmp_path, ports.free(), settings(mongodb_uri, store.name, fake.url)) as serving,
        httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as http,
    ):
        url, kb = serving.url, kb_client.Client(serving.url, http)
        known = await kb.ingest(
            api.IngestRequest(scope=owner, source_urn=urn, kind="email", title="Release", content=_MAIL)
        )
        task = job.Job(tmp_path, mongodb_uri, store.name, url, fake.url)
        store.remember(task.memory(scope=owner.model_dump(by_alias=True), content="When is the router released?"))
        ended = await task.run()
        planned = job.Job(tmp_path, mongodb_uri, store.name, url, fake.url)
        mail = {"type": "EmailProcessing", "mode": "Background", "content": _MAIL, "sourceUrn": urn}
        keys = known.node_keys
        store.remember(planned.memory(scope=owner.model_dump(by_alias=True), graphNodeKeys=keys, **mail))
        followed = await planned.run(JERVIS_MODE="Background", JERVIS_PLANNER_MODEL="qwen2.5:7b")
        gone = await http.delete(
            f"{url}/api/v1/documents", params={**owner.model_dump(by_alias=True), "sourceUrn": urn}
        )
        assert gone.is_success, gone.text
    assert ended.message["exitReason"] == "Answered", ended
    assert "13th of March 2026" in ended.message["summary"]
    [result] = store.all("task_results", _id=task.uid)
    cited = [item for item in result["evidence"] if item["id"] in result["citations"]]
    assert {item["source"] for item in cited} == {urn}
    assert (fake.count(tag=job.TAG), fake.count(tag="job.plan/v1")) == (2, 1)
    # The plan was made with what the graph says around the mail, and each step searched.
    assert followed.message["plan"] in ("Made", "Amended"), followed
    [asked] = [one for one in fake.requests(path="/api/chat") if one["tag"] == "job.plan/v1"]
    told = asked["body"]["messages"][1]["content"]
    assert "email::release@acme.example mentions " in told.partition("<project>")[2].partition("</project>")[0]
    [result] = store.all("task_results", _id=planned.uid)
    assert 3 <= len(result["plan"]["steps"]) <= 7
