"""The whole service: a process, real stores that are cut off or replaced by other programs, simulated models."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crds import scope
from crds.priority import Priority
from hack import drawing
from kb import api, client
from tests import httpserver, needs, ports, waiting
from tests.fakes.ollama import process
from tests.kb import forwarder, imposters, scopes, world
from tests.kb.agent import rig
from tests.kb.extract.qualifier import test_scenarios
from tests.kb.service import program

Running = program.Running
QUESTION = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote UserService?")


@pytest.mark.services
async def test_a_document_and_its_content_go_through_real_stores(run: Running) -> None:
    async with run() as kb:
        await kb.client.ready()
        inline = await kb.client.ingest(world.request(), urgency=Priority.P1)
        reference = await kb.client.store(scopes.SHOP, world.MAIL.encode(), "message/rfc822")
        again = await kb.client.ingest(world.request(content=None, content_ref=reference))
        assert (inline.replaced, again.replaced, again.chunk_ids) == (False, True, inline.chunk_ids)
        [item] = (await kb.client.retrieve(QUESTION)).items
        assert item.provenance.chunk_id in inline.chunk_ids
        assert item.provenance.sentence == "Petr Svoboda wrote UserService.kt last year."
        assert (await kb.client.retrieve(QUESTION.model_copy(update={"scope": scopes.BLOG}))).items == []
        assert await kb.end(signal.SIGTERM) == 0
    async with run() as kb:
        [after] = (await kb.client.retrieve(QUESTION)).items
        assert after == item


@pytest.mark.services
async def test_everything_absent_at_the_start_and_there_later(
    run: Running, links: dict[str, forwarder.Forwarder]
) -> None:
    for link in links.values():
        await link.down()
    async with run() as kb:
        state = (await kb.http.get("/readyz")).json()
        assert state["down"] == ["mongodb", "weaviate"]
        # Before a model is asked it has to be known which entity types the owner has.
        with pytest.raises(client.Unavailable, match="mongodb"):
            await kb.once.ingest(world.request())
        with pytest.raises(client.Unavailable, match="mongodb"):
            await kb.once.store(scopes.SHOP, b"body")
        for link in links.values():
            await link.up()
        await _until_ready(kb)
        # The call is not repeated: the open intent is finished by the service itself.
        found = await waiting.eventually(lambda: _items(kb, QUESTION))
        assert found[0].provenance.source_urn == world.request().source_urn
        for link in links.values():
            await link.down()
        with pytest.raises(client.Unavailable, match="weaviate"):
            await kb.once.retrieve(QUESTION)
        for link in links.values():
            await link.up()
        await _until_ready(kb)
        assert (await kb.client.retrieve(QUESTION)).items == found


@pytest.mark.services
async def test_a_request_that_got_503_and_is_repeated_does_not_come_over_a_newer_version(
    run: Running, links: dict[str, forwarder.Forwarder]
) -> None:
    def versions(way: str) -> tuple[api.IngestRequest, api.IngestRequest]:
        first, second = (datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2))
        older = world.request(urn=way, observed_at=first)
        return older, world.request("Jana Novak wrote UserService.kt.", urn=way, observed_at=second)

    async def shown(kb: program.Program, way: str) -> list[str]:
        return [item.content for item in await _items(kb, QUESTION.model_copy(update={"sources": [way]}))]

    async with run() as kb:
        calls: dict[str, Callable[[api.IngestRequest], Awaitable[api.IndexReply | api.IngestReply]]]
        calls = {"/ingest": kb.once.learning.index, "/ingest/full": kb.once.ingest}
        await _until_ready(kb)
        for name in ("weaviate", "grpc"):
            await links[name].down()
        for way, call in calls.items():
            with pytest.raises(client.Unavailable):
                await call(versions(way)[0])
        for name in ("weaviate", "grpc"):
            await links[name].up()
        await _until_ready(kb)
        for way, call in calls.items():
            older, newer = versions(way)
            await kb.client.ingest(newer)
            late = await call(older)
            assert (late.superseded_by, late.chunk_ids) == ("Version", [])
            assert await shown(kb, way) == [newer.content]
        assert await kb.end(signal.SIGTERM) == 0
    # The process that starts again knows it too.
    async with run() as kb:
        await _until_ready(kb)
        for way in calls:
            older, newer = versions(way)
            reply = await kb.client.ingest(older)
            assert (reply.superseded_by, reply.hints.failure) == ("Version", "")
            assert await shown(kb, way) == [newer.content]


@pytest.mark.services
async def test_killed_while_models_answer_and_resumed_without_asking_twice(run: Running, fake: process.Fake) -> None:
    fake.set_faults([program.stalled("kb.extract/v1", nth=3)])
    async with run() as kb:
        calling = asyncio.create_task(kb.client.ingest(world.request(world.LONG)))

        await kb.until_counted('jervis_kb_model_answers_total{origin="model",prompt="kb.extract/v1"} 5.0')
        await kb.end(signal.SIGKILL)
        with pytest.raises(client.Unavailable):
            await calling
    fake.set_faults([])
    answered = _finished(fake)
    async with run() as kb:
        question = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote module3.py?", max_results=50)
        found = await waiting.eventually(lambda: _items(kb, question))
        assert _finished(fake) - answered == 1
        reply = await kb.client.ingest(world.request(world.LONG))
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
async def test_killed_in_a_phase_and_resumed_to_the_same_end(run: Running, fake: process.Fake, phase: str) -> None:
    needs.ocr()
    tag = PHASES[phase][0]
    fast = {"JERVIS_KB_FAST_MODEL": "qwen3-coder:30b"} if phase.startswith("fast") else {}
    picture = drawing.picture("JERV-77: The page is blank\nStatus: In Progress\nAssignee: Petr Svoboda")

    async def sent(kb: program.Program, owner: scope.Scope) -> api.IngestRequest:
        file = api.File(name="shot.png", content_ref=await kb.client.store(owner, picture, "image/png"))
        about = {"kind": "note", "title": "A title", "files": [file]}
        return world.request(test_scenarios.ISSUE, owner=owner, urn="note::77", **about)

    fake.set_faults([program.stalled(tag, nth=1)])
    async with run(**fast) as kb:
        request = await sent(kb, scopes.SHOP)
        calling = asyncio.create_task(kb.client.ingest(request))
        await waiting.eventually(lambda: fake.count(tag=tag) > 0)
        await kb.end(signal.SIGKILL)
        with pytest.raises(client.Unavailable):
            await calling
    fake.set_faults([])
    async with run(**fast) as kb:
        question = api.RetrieveRequest(scope=scopes.SHOP, query="Which page is blank?", max_results=50)
        await waiting.eventually(lambda: _items(kb, question))
        # Asked once more is what was not answered, and nothing else.
        assert fake.count(tag=tag) == 2
        asked = _finished(fake)
        resumed = await kb.client.ingest(request)
        assert _finished(fake) == asked
        whole = await kb.client.ingest(await sent(kb, scopes.OTHER))
    assert _end(resumed) == _end(whole)
    assert resumed.qualification is not None
    assert (resumed.qualification.content_type, resumed.problems) == (api.ContentType.JIRA, [])


def _end(reply: api.IngestReply) -> dict[str, object]:
    """What the reply says, without what belongs to its scope and its costs."""
    said = world.costless(reply).model_dump(exclude={"chunk_ids", "replaced", "node_keys"})
    said["qualification"].get("extraction", {}).pop("chunks", None)
    return said | {"chunks": len(reply.chunk_ids), "nodes": len(reply.node_keys)}


async def test_settings_that_cannot_work_are_named(tmp_path: Path) -> None:
    log = tmp_path / "kb.log"
    data = {"JERVIS_KB_DATA_DIR": str(tmp_path), "JERVIS_KB_HOST": "127.0.0.1"}
    for wrong in (
        {"JERVIS_KB_PORT": "many", "JERVIS_KB_WEAVIATE_URL": "nowhere"},
        {"JERVIS_KB_MODE": "read"},
        {"JERVIS_KB_WEAVIATE_URL": "http://127.0.0.1:8080", "JERVIS_KB_WEAVIATE_GRPC_PORT": "8080"},
        {"JERVIS_KB_PORT": "0", "JERVIS_KB_TOKENS_FILE": str(tmp_path / "none")},
    ):
        process = program.launch(log, data | wrong)
        assert await asyncio.to_thread(process.wait, waiting.PATIENCE) == 2, wrong
    said = log.read_text()
    for named in (
        "none cannot be read",
        "JERVIS_KB_PORT: ",
        "JERVIS_KB_WEAVIATE_URL: ",
        "JERVIS_KB_ARANGO_URL",
        "JERVIS_KB_WEAVIATE_GRPC_PORT=8080 is the port of JERVIS_KB_WEAVIATE_URL",
    ):
        assert named in said
    assert "Traceback" not in said


def _finished(fake: process.Fake) -> int:
    return fake.count(path="/api/chat", tag="kb.extract/v1", outcome="finished")


async def _items(kb: program.Program, question: api.RetrieveRequest) -> list[api.EvidenceItem]:
    return (await kb.client.retrieve(question)).items


async def _until_ready(kb: program.Program) -> None:
    async def ready() -> bool:
        with contextlib.suppress(client.Unavailable):
            await kb.client.ready()
            return True
        return False

    await waiting.eventually(ready)


@pytest.mark.services
async def test_roles_that_share_a_model_ask_for_one_window(run: Running, fake: process.Fake) -> None:
    roles = {"EXTRACT": 8192, "FAST": 4096, "DECISION": 16_384}
    models = {f"JERVIS_KB_{role}_MODEL": rig.MODEL for role in roles}
    windows = {f"JERVIS_KB_{role}_NUM_CTX": str(tokens) for role, tokens in roles.items()}
    async with run(**models, **windows) as kb:
        await kb.client.ingest(world.request())
        asked = len(fake.requests(path="/api/chat"))
        question = api.AgenticSearch(scope=scopes.SHOP, query="Who wrote UserService?")
        async with kb.client.agent.ask(question) as events:
            assert [event.type async for event in events][-1] == "complete"
    chats = fake.requests(path="/api/chat")
    assert 0 < asked < len(chats)
    assert {chat["body"]["options"]["num_ctx"] for chat in chats} == {16_384}


@pytest.mark.services
async def test_vectors_of_another_length_are_said_where_readiness_is_asked(run: Running) -> None:
    async with run() as kb:
        await kb.client.ingest(world.request())

    async def embed(request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        return web.json_response({"embeddings": [[1.0, 0.0, 0.0]] * len(texts)})

    other = web.Application()
    other.router.add_post("/api/embed", embed)
    async with httpserver.serving(other) as router, run(JERVIS_KB_ROUTER_URL=router) as kb:

        async def down() -> bool:
            return "embedding" in (await kb.http.get("/readyz")).json().get("down", [])

        await waiting.eventually(down)
        with pytest.raises(client.Unavailable, match="another dimension"):
            await kb.once.retrieve(QUESTION)


SWEEPS = {
    "JERVIS_KB_RECOVERY_INTERVAL": "0.1",
    "JERVIS_KB_RECOVERY_PATIENCE": "0",
    "JERVIS_KB_ERASURE_INTERVAL": "0.1",
    "JERVIS_KB_EMBED_MODEL": "qwen3-embedding:8b",
}


@pytest.mark.services
async def test_another_server_in_weaviate_s_place_is_an_outage(tmp_path: Path, settings: dict[str, str]) -> None:
    with imposters.http("404 Not Found", b"no", "text/plain").listening() as web:
        own = {"JERVIS_KB_WEAVIATE_URL": f"http://127.0.0.1:{web.port}", "JERVIS_KB_WEAVIATE_GRPC_PORT": "1"}
        async with program.running(tmp_path, ports.free(), settings | SWEEPS | own) as kb:
            with pytest.raises(client.Unavailable, match="weaviate is away"):
                await kb.once.ingest(world.request())
            # The request is open: what resumes it asks Weaviate again and again.
            before = web.asked

            await waiting.eventually(lambda: web.asked >= before + 5)
            assert "Traceback" not in kb.log.read_text()


@asynccontextmanager
async def over_mongodb(folder: Path, fake: process.Fake, refusal: dict[str, Any]) -> AsyncIterator[program.Program]:
    """A service whose MongoDB refuses every command, and whose Weaviate is away."""
    with imposters.mongodb(refusal).listening() as mongo:
        settings = SWEEPS | {
            "JERVIS_KB_ROUTER_URL": fake.url,
            "JERVIS_KB_WEAVIATE_URL": "http://127.0.0.1:1",
            "JERVIS_KB_MONGODB_URI": f"mongodb://127.0.0.1:{mongo.port}",
        }
        async with program.running(folder, ports.free(), settings) as kb:
            yield kb


async def test_a_mongodb_with_a_full_disk_is_an_outage(tmp_path: Path, fake: process.Fake) -> None:
    full = {"code": 14031, "codeName": "OutOfDiskSpace", "errmsg": "no space left"}
    async with over_mongodb(tmp_path, fake, full) as kb:
        for call in (kb.once.ingest(world.request()), kb.once.store(scopes.SHOP, b"body")):
            with pytest.raises(client.Unavailable, match="mongodb is away"):
                await call
        assert "Traceback" not in kb.log.read_text()


async def test_an_error_that_is_not_foreseen_ends_no_loop(tmp_path: Path, fake: process.Fake) -> None:
    refusal = {"code": 2, "codeName": "BadValue", "errmsg": "unknown operator: $nonsense"}
    async with over_mongodb(tmp_path, fake, refusal) as kb:

        async def counted() -> bool:
            found = dict(re.findall(r'jervis_kb_loop_errors_total\{loop="(\w+)"\} (\d+)', await kb.metrics()))
            return all(int(found.get(loop, 0)) >= 2 for loop in ("erasures", "aliases", "erasing"))

        await waiting.eventually(counted)
        assert (await kb.http.get("/healthz")).status_code == 200
        assert "nonsense" in kb.log.read_text()
