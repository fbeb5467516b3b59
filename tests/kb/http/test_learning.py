"""Documents by way of the queue, what people and tasks taught, images, and the queue itself, through the typed door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import client, metrics, writing
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.files import making
from tests.kb.http import whole


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[world.ObservedState]:
    held = (memory.Vectors(), memory.Content())
    async with world.opened(tmp_path, router, clock, meters, *held, aliases=aliases_memory.Registry(clock)) as made:
        yield made


@pytest.fixture
async def served(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    async with whole.over(kb, meters, clock) as pair:
        yield pair


@pytest.fixture
def door(served: tuple[client.Client, httpx.AsyncClient]) -> client.Client:
    return served[0]


@pytest.fixture
def http(served: tuple[client.Client, httpx.AsyncClient]) -> httpx.AsyncClient:
    return served[1]


async def test_the_queue_as_its_owner_sees_it(kb: world.ObservedState, door: client.Client, fake: process.Fake) -> None:
    for number in range(3):
        await door.learning.index(world.request(urn=f"u:{number}"))
    await door.learning.index(world.request(urn="u:other", owner=scopes.OTHER))
    held = await door.queue.listed(scopes.SHOP)
    assert [(one.source_urn, one.place, one.state) for one in held.jobs] == [
        (f"u:{n}", n + 1, "Waiting") for n in range(3)
    ]
    assert (held.total, held.failed) == (3, [])
    moved = await door.queue.reorder(scopes.SHOP, held.jobs[2].id, 1)
    assert (moved.place, moved.queue_position) == (1, 1)
    assert (await door.queue.prioritize(scopes.SHOP, held.jobs[1].id)).place == 1
    order = [one.source_urn for one in (await door.queue.listed(scopes.SHOP)).jobs]
    assert order == ["u:1", "u:2", "u:0"]
    for viewer in (scopes.OTHER, scopes.BLOG):
        with pytest.raises(client.Rejected) as caught:
            await door.queue.prioritize(viewer, held.jobs[0].id)
        assert caught.value.code == "not_found"
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 404, "message": "model not found"}}])
    await kb.workers.step()
    after = await door.queue.listed(scopes.SHOP)
    assert (after.total, after.failed[0].source_urn) == (2, "u:1")
    assert (await door.queue.listed(scopes.OTHER)).failed == []


async def test_what_a_person_says_is_there_at_once(
    kb: world.ObservedState, door: client.Client, clock: clocks.Clock, fake: process.Fake
) -> None:
    def said(subject: str, content: str, category: writing.Category) -> writing.Knowledge:
        return writing.Knowledge(scope=scopes.SHOP, subject=subject, content=content, category=category)

    domain = said("BMS", "Brokerage Management System", writing.Category.DOMAIN)
    first = await door.learning.store(domain)
    assert first.source_urn.startswith("user-knowledge:domain:BMS:")
    assert {one["priority"] for one in fake.requests()} == {"1"}
    clock.advance(hours=1)
    await door.learning.store(said("Editor", "Prefers\nvim.", writing.Category.PREFERENCE))
    assert (await door.learning.store(domain)).replaced  # said twice, known once
    clock.advance(hours=1)
    await door.learning.store(said("KYC", "Know your customer.", writing.Category.DOMAIN))
    await kb.ingest(world.request())  # a mail is no user knowledge
    context = await door.memory.user(scopes.SHOP)
    assert context.markdown == (
        "### Preferences\n- **Editor**: Prefers vim.\n\n"
        "### Domain Context\n- **KYC**: Know your customer.\n- **BMS**: Brokerage Management System"
    )
    assert set(context.categories) == {"preference", "domain"}
    assert (await door.memory.user(scopes.BLOG)).markdown == ""
    assert (await door.memory.user(scopes.TILL)).markdown == context.markdown  # of the same group


async def test_the_users_context_asks_no_model(door: client.Client, fake: process.Fake) -> None:
    before = fake.count()
    await door.memory.user(scopes.SHOP)
    assert fake.count() == before


def outcome(**more: Any) -> writing.Outcome:
    filled: dict[str, Any] = {
        "scope": scopes.SHOP,
        "task_id": "t1",
        "task_category": "single_task",
        "task_action": "code",
        "final_result": "Petr Svoboda fixed retry.py with exponential backoff. Lesson: cap the backoff.",
    }
    return writing.Outcome(**(filled | more))


STEP = [writing.StepResult(action="search", result="found retry.py")]


@pytest.mark.parametrize(
    ("change", "remembered"),
    [
        ({"task_action": "code"}, True),
        ({"task_action": "tracker_ops"}, True),
        ({"task_action": "mixed"}, True),
        ({"task_action": "respond", "step_results": STEP}, True),
        ({"task_action": "respond"}, False),
        ({"task_category": "epic", "task_action": "respond"}, True),
        ({"task_category": "generative", "task_action": "respond"}, True),
        ({"task_category": "advice", "task_action": "code"}, False),
        ({"task_category": "epic", "error": "it broke"}, False),
        ({"task_category": "epic", "final_result": " \n"}, False),
    ],
)
async def test_the_table_decides_what_is_remembered(
    door: client.Client, fake: process.Fake, change: dict[str, Any], remembered: bool
) -> None:
    reply = await door.learning.outcome(outcome(**change))
    assert (reply.remembered, bool(reply.reason)) == (remembered, True)
    assert (fake.count(tag="kb.outcome/v1") > 0) is remembered
    assert (reply.source_urn == "task-outcome:t1") is remembered


async def test_an_outcome_is_found_and_overwritten(
    kb: world.ObservedState, door: client.Client, fake: process.Fake
) -> None:
    first = await door.learning.outcome(outcome(title="Retry of the poller"))
    [item] = (await kb.ask("retry backoff", kinds=["task_outcome"])).items
    assert item.provenance.source_urn == "task-outcome:t1"
    assert item.content.startswith("## Summary")
    assert {one["priority"] for one in fake.requests()} == {"3"}
    again = await door.learning.outcome(outcome(title="Retry of the poller"))
    assert again.chunk_ids == first.chunk_ids
    assert fake.count(tag="kb.outcome/v1") == 1


async def test_an_image_is_what_the_model_sees_in_it(
    door: client.Client, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    body = making.png(20, 10)
    reply = await door.learning.image(scopes.SHOP, body, filename="login flow.png")
    assert (reply.media_type, reply.size) == ("image/png", len(body))
    [asked] = fake.requests(tag="kb.describe/v1")
    assert asked["priority"] == "2"
    assert asked["body"]["messages"][1]["images"]
    assert reply.characters > 0
    await door.learning.image(scopes.SHOP, body, filename="login flow.png")
    assert fake.count(tag="kb.describe/v1") == 1
    with pytest.raises(client.Rejected) as caught:
        await door.learning.image(scopes.SHOP, making.pdf("hello"))
    assert (caught.value.code, caught.value.field) == ("invalid", "body")
    text = (await http.get("/metrics")).text
    assert 'jervis_kb_uploads_total{outcome="taken",type="image/png"} 2.0' in text
    assert 'jervis_kb_uploads_total{outcome="refused",type="unknown"} 1.0' in text


async def test_text_needs_no_tika_and_everything_else_says_so(door: client.Client) -> None:
    reply = await door.learning.file(scopes.SHOP, b"Petr Svoboda wrote a.py.\n", filename="note.txt")
    assert (reply.media_type, reply.queued) == ("text/plain", True)
    assert reply.source_urn.startswith("file::name:note.txt,sha256:")
    with pytest.raises(client.Rejected) as caught:
        await door.learning.file(scopes.SHOP, making.pdf("hello"))
    assert (caught.value.code, caught.value.field) == ("misconfigured", "tikaUrl")


async def test_two_gigabytes_are_refused_before_they_are_sent(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/v1/ingest/file", params={"clientId": "acme"}, content=b"x" * 600_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    reading, writing_ = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    claim = f"POST /api/v1/ingest/file?clientId=acme HTTP/1.1\r\nHost: kb\r\nContent-Length: {2 << 30}\r\n\r\n"
    writing_.write(claim.encode())  # and not one byte of the body
    assert b" 413 " in await reading.readline()
    writing_.close()
    await writing_.wait_closed()


async def test_mistakes_name_their_field(http: httpx.AsyncClient) -> None:
    for path, params, field in (
        ("/api/v1/queue", {"clientId": "acme", "limit": "many"}, "limit"),
        ("/api/v1/queue", {}, "clientId"),
        ("/api/v1/aliases", {"clientId": "a b"}, "clientId"),
    ):
        answer = await http.get(path, params=params)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
        assert answer.json()["error"]["remedy"]
    wrong = await http.post("/api/v1/ingest/file?clientId=acme&observedAt=yesterday", content=b"Hello there.")
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "observedAt")
    unknown = await http.post(
        "/api/v1/store", json={"scope": {"clientId": "acme"}, "subject": "s", "content": "c", "x": 1}
    )
    assert (unknown.status_code, unknown.json()["error"]["field"]) == (422, "x")


async def test_merges_through_the_door(kb: world.ObservedState, door: client.Client) -> None:
    await kb.ingest(world.request("user:john|OWNS|file:a.py", urn="n:1"))
    await kb.ingest(world.request("user:john.doe@x.com|OWNS|file:b.py", urn="n:2"))
    await kb.ingest(world.request("user:john.roe@x.com|OWNS|file:b.py", urn="n:3", owner=scopes.OTHER))
    offered = await door.aliases.candidates(scopes.SHOP, "user:john")
    assert [one.other for one in offered] == ["user:john.doe@x.com"]
    made = await door.aliases.merge(writing.Merge(scope=scopes.ACME, alias="User:John", canonical="user:jd", by="jana"))
    assert (made.alias, made.canonical, made.documents) == ("user:john", "user:jd", 1)
    await kb.workers.step()
    [alias] = await door.aliases.listed(scopes.SHOP, key="user:jd")
    assert (alias.state, alias.created_by, alias.scope) == ("Merged", "jana", scopes.ACME)
    assert await door.aliases.listed(scopes.OTHER) == []
    assert (await door.aliases.unmerge(scopes.ACME, "user:john")).documents == 1
    with pytest.raises(client.Rejected) as caught:
        await door.aliases.unmerge(scopes.ACME, "user:john")
    assert caught.value.code == "not_found"


async def test_every_route_is_described(http: httpx.AsyncClient) -> None:
    document = (await http.get("/api/v1/openapi.json")).json()
    operations = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert operations >= {
        "POST /api/v1/ingest",
        "POST /api/v1/ingest/file",
        "POST /api/v1/ingest/image",
        "POST /api/v1/crawl",
        "POST /api/v1/store",
        "POST /api/v1/outcomes",
        "GET /api/v1/user-context",
        "GET /api/v1/aliases",
        "PUT /api/v1/aliases",
        "DELETE /api/v1/aliases",
        "GET /api/v1/queue",
        "POST /api/v1/queue/reorder",
        "POST /api/v1/queue/prioritize",
    }
    uploading = document["paths"]["/api/v1/ingest/file"]["post"]
    assert {one["name"] for one in uploading["parameters"]} >= {"clientId", "filename", "sourceUrn"}
    assert "requestBody" in uploading
