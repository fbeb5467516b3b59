"""The whole service: a process, real stores behind links that can be cut, simulated models."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from crds import scope
from crds.priority import Priority
from hack import drawing
from kb import api, client
from tests import httpserver, needs, waiting
from tests.fakes.ollama import process
from tests.kb import forwarder, scopes, world
from tests.kb.agent import rig
from tests.kb.http import program
from tests.kb.qualify import test_scenarios

Running = program.Running
QUESTION = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote UserService?")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


@pytest.mark.services
async def test_a_document_and_its_content_go_through_real_stores(run: Running, http: httpx.AsyncClient) -> None:
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        await kb_client.ready()
        inline = await kb_client.ingest(world.request(), urgency=Priority.P1)
        reference = await kb_client.store(scopes.SHOP, world.MAIL.encode(), "message/rfc822")
        again = await kb_client.ingest(world.request(content=None, content_ref=reference))
        assert (inline.replaced, again.replaced, again.chunk_ids) == (False, True, inline.chunk_ids)
        [item] = (await kb_client.retrieve(QUESTION)).items
        assert item.provenance.chunk_id in inline.chunk_ids
        assert item.provenance.sentence == "Petr Svoboda wrote UserService.kt last year."
        assert (await kb_client.retrieve(QUESTION.model_copy(update={"scope": scopes.BLOG}))).items == []
        assert await kb.end(signal.SIGTERM) == 0
    async with run() as kb:
        [after] = (await client.Client(kb.url, http).retrieve(QUESTION)).items
        assert after == item


@pytest.mark.services
async def test_everything_absent_at_the_start_and_there_later(
    run: Running, http: httpx.AsyncClient, links: dict[str, forwarder.Forwarder]
) -> None:
    for link in links.values():
        await link.down()
    async with run() as kb:
        kb_client, once = client.Client(kb.url, http), client.Client(kb.url, http, attempts=1)
        state = (await http.get(f"{kb.url}/readyz")).json()
        assert state["down"] == ["mongodb", "weaviate"]
        # Before a model is asked it has to be known which entity types the owner has.
        with pytest.raises(client.Unavailable, match="mongodb"):
            await once.ingest(world.request())
        with pytest.raises(client.Unavailable, match="mongodb"):
            await once.store(scopes.SHOP, b"body")
        for link in links.values():
            await link.up()
        await _until_ready(kb_client)
        # The call is not repeated: the open intent is finished by the service itself.
        found = await waiting.eventually(lambda: _items(kb_client, QUESTION))
        assert found[0].provenance.source_urn == world.request().source_urn
        for link in links.values():
            await link.down()
        with pytest.raises(client.Unavailable, match="weaviate"):
            await once.retrieve(QUESTION)
        for link in links.values():
            await link.up()
        await _until_ready(kb_client)
        assert (await kb_client.retrieve(QUESTION)).items == found


@pytest.mark.services
async def test_a_request_that_got_503_and_is_repeated_does_not_come_over_a_newer_version(
    run: Running, http: httpx.AsyncClient, links: dict[str, forwarder.Forwarder]
) -> None:
    def versions(way: str) -> tuple[api.IngestRequest, api.IngestRequest]:
        first, second = (datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2))
        older = world.request(urn=way, observed_at=first)
        return older, world.request("Jana Novak wrote UserService.kt.", urn=way, observed_at=second)

    async def shown(kb_client: client.Client, way: str) -> list[str]:
        return [item.content for item in await _items(kb_client, QUESTION.model_copy(update={"sources": [way]}))]

    async with run() as kb:
        kb_client, once = client.Client(kb.url, http), client.Client(kb.url, http, attempts=1)
        calls: dict[str, Callable[[api.IngestRequest], Awaitable[api.IndexReply | api.IngestReply]]]
        calls = {"/ingest": once.learning.index, "/ingest/full": once.ingest}
        await _until_ready(kb_client)
        for name in ("weaviate", "grpc"):
            await links[name].down()
        for way, call in calls.items():
            with pytest.raises(client.Unavailable):
                await call(versions(way)[0])
        for name in ("weaviate", "grpc"):
            await links[name].up()
        await _until_ready(kb_client)
        for way, call in calls.items():
            older, newer = versions(way)
            await kb_client.ingest(newer)
            late = await call(older)
            assert (late.superseded_by, late.chunk_ids) == ("Version", [])
            assert await shown(kb_client, way) == [newer.content]
        assert await kb.end(signal.SIGTERM) == 0
    # The process that starts again knows it too.
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        await _until_ready(kb_client)
        for way in calls:
            older, newer = versions(way)
            reply = await kb_client.ingest(older)
            assert (reply.superseded_by, reply.hints.failure) == ("Version", "")
            assert await shown(kb_client, way) == [newer.content]


@pytest.mark.services
async def test_killed_while_models_answer_and_resumed_without_asking_twice(
    run: Running, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    hold = {"match": {"tag": "kb.extract/v1"}, "nth": 3, "stall": {"afterBytes": 0, "gate": f"kill-{uuid.uuid4()}"}}
    fake.set_faults([hold])
    async with run() as kb:
        calling = asyncio.create_task(client.Client(kb.url, http).ingest(world.request(world.LONG)))

        async def five() -> bool:
            text = (await http.get(f"{kb.url}/metrics")).text
            return 'jervis_kb_model_answers_total{origin="model",prompt="kb.extract/v1"} 5.0' in text

        await waiting.eventually(five)
        await kb.end(signal.SIGKILL)
        with pytest.raises(client.Unavailable):
            await calling
    fake.set_faults([])
    answered = _finished(fake)
    async with run() as kb:
        kb_client = client.Client(kb.url, http)
        question = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote module3.py?", max_results=50)
        found = await waiting.eventually(lambda: _items(kb_client, question))
        assert _finished(fake) - answered == 1
        reply = await kb_client.ingest(world.request(world.LONG))
        assert {item.provenance.chunk_id for item in found} <= set(reply.chunk_ids)
        assert _finished(fake) - answered == 1


PHASES = {
    "vision": ("kb.describe/v1", "VISION_GENERAL"),
    "detection": ("kb.qualify.detect/v2", "CONTENT_TYPE"),
    "fast detection": ("kb.qualify.type/v1", "CONTENT_TYPE"),
    "the second look": ("kb.qualify.vision-jira/v1", "VISION_DETAILS"),
    "extraction": ("kb.qualify.jira/v2", "EXTRACTION"),
}
"""By the phase of the qualifier: the prompt during which the process is killed."""


@pytest.mark.services
@pytest.mark.parametrize("phase", list(PHASES))
async def test_killed_in_a_phase_and_resumed_to_the_same_end(
    run: Running, http: httpx.AsyncClient, fake: process.Fake, phase: str
) -> None:
    needs.ocr()
    tag = PHASES[phase][0]
    fast = {"JERVIS_KB_FAST_MODEL": "qwen3-coder:30b"} if phase.startswith("fast") else {}
    picture = drawing.picture("JERV-77: The page is blank\nStatus: In Progress\nAssignee: Petr Svoboda")

    async def sent(kb_client: client.Client, owner: scope.Scope) -> api.IngestRequest:
        file = api.File(name="shot.png", content_ref=await kb_client.store(owner, picture, "image/png"))
        about = {"kind": "note", "title": "A title", "files": [file]}
        return world.request(test_scenarios.ISSUE, owner=owner, urn="note::77", **about)

    hold = {"match": {"tag": tag}, "nth": 1, "stall": {"afterBytes": 0, "gate": f"kill-{uuid.uuid4()}"}}
    fake.set_faults([hold])
    async with run(**fast) as kb:
        kb_client = client.Client(kb.url, http)
        request = await sent(kb_client, scopes.SHOP)
        calling = asyncio.create_task(kb_client.ingest(request))
        await waiting.eventually(lambda: _asked(fake, tag))
        await kb.end(signal.SIGKILL)
        with pytest.raises(client.Unavailable):
            await calling
    fake.set_faults([])
    async with run(**fast) as kb:
        kb_client = client.Client(kb.url, http)
        question = api.RetrieveRequest(scope=scopes.SHOP, query="Which page is blank?", max_results=50)
        await waiting.eventually(lambda: _items(kb_client, question))
        # Asked once more is what was not answered, and nothing else.
        assert fake.count(tag=tag) == 2
        asked = _finished(fake)
        resumed = await kb_client.ingest(request)
        assert _finished(fake) == asked
        whole = await kb_client.ingest(await sent(kb_client, scopes.OTHER))
    assert _end(resumed) == _end(whole)
    assert resumed.qualification is not None
    assert (resumed.qualification.content_type, resumed.problems) == (api.ContentType.JIRA, [])


def _asked(fake: process.Fake, tag: str) -> bool:
    return fake.count(tag=tag) > 0


def _end(reply: api.IngestReply) -> dict[str, object]:
    """What the reply says, without what belongs to its scope and its costs."""
    said = world.costless(reply).model_dump(exclude={"chunk_ids", "replaced", "node_keys"})
    said["qualification"].get("extraction", {}).pop("chunks", None)
    return said | {"chunks": len(reply.chunk_ids), "nodes": len(reply.node_keys)}


async def test_settings_that_cannot_work_are_named(tmp_path: Path) -> None:
    log = tmp_path / "kb.log"
    data = {"JERVIS_KB_DATA_DIR": str(tmp_path), "JERVIS_KB_HOST": "127.0.0.1"}
    wrong = program.launch(log, data | {"JERVIS_KB_PORT": "many", "JERVIS_KB_WEAVIATE_URL": "nowhere"})
    assert await asyncio.to_thread(wrong.wait, 300) == 2
    split = program.launch(log, data | {"JERVIS_KB_MODE": "read"})
    assert await asyncio.to_thread(split.wait, 300) == 2
    same = {"JERVIS_KB_WEAVIATE_URL": "http://127.0.0.1:8080", "JERVIS_KB_WEAVIATE_GRPC_PORT": "8080"}
    collided = program.launch(log, data | same)
    assert await asyncio.to_thread(collided.wait, 300) == 2
    locked = program.launch(log, data | {"JERVIS_KB_PORT": "0", "JERVIS_KB_TOKENS_FILE": str(tmp_path / "none")})
    assert await asyncio.to_thread(locked.wait, 300) == 2
    said = log.read_text()
    assert "none cannot be read" in said
    assert "JERVIS_KB_PORT: " in said
    assert "JERVIS_KB_WEAVIATE_URL: " in said
    assert "JERVIS_KB_ARANGO_URL" in said
    assert "JERVIS_KB_WEAVIATE_GRPC_PORT=8080 is the port of JERVIS_KB_WEAVIATE_URL" in said
    assert "Traceback" not in said


def _finished(fake: process.Fake) -> int:
    asked = fake.requests(path="/api/chat", tag="kb.extract/v1")
    return sum(one["outcome"] == "finished" for one in asked)


async def _items(kb_client: client.Client, question: api.RetrieveRequest) -> list[api.EvidenceItem]:
    return (await kb_client.retrieve(question)).items


async def _until_ready(kb_client: client.Client) -> None:
    async def ready() -> bool:
        with contextlib.suppress(client.Unavailable):
            await kb_client.ready()
            return True
        return False

    await waiting.eventually(ready)


@pytest.mark.services
async def test_roles_that_share_a_model_ask_for_one_window(
    run: Running, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    roles = {"EXTRACT": 8192, "FAST": 4096, "DECISION": 16_384}
    models = {f"JERVIS_KB_{role}_MODEL": rig.MODEL for role in roles}
    windows = {f"JERVIS_KB_{role}_NUM_CTX": str(tokens) for role, tokens in roles.items()}
    async with run(**models, **windows) as kb:
        kb_client = client.Client(kb.url, http)
        await kb_client.ingest(world.request())
        asked = len(fake.requests(path="/api/chat"))
        question = api.AgenticSearch(scope=scopes.SHOP, query="Who wrote UserService?")
        async with kb_client.agent.ask(question) as events:
            assert [event.type async for event in events][-1] == "complete"
    chats = fake.requests(path="/api/chat")
    assert 0 < asked < len(chats)
    assert {chat["body"]["options"]["num_ctx"] for chat in chats} == {16_384}


@pytest.mark.services
async def test_vectors_of_another_length_are_said_where_readiness_is_asked(
    run: Running, http: httpx.AsyncClient
) -> None:
    async with run() as kb:
        await client.Client(kb.url, http).ingest(world.request())

    async def embed(request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        return web.json_response({"embeddings": [[1.0, 0.0, 0.0]] * len(texts)})

    other = web.Application()
    other.router.add_post("/api/embed", embed)
    async with httpserver.serving(other) as router, run(JERVIS_KB_ROUTER_URL=router) as kb:

        async def down() -> bool:
            return "embedding" in (await http.get(f"{kb.url}/readyz")).json().get("down", [])

        await waiting.eventually(down)
        with pytest.raises(client.Unavailable, match="another dimension"):
            await client.Client(kb.url, http, attempts=1).retrieve(QUESTION)
