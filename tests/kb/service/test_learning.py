"""Documents by way of the queue, what people and tasks taught, images, and the queue itself, by the typed client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from hack import drawing
from kb import api, client, errors
from tests import needs
from tests.fakes.ollama import process
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.aliases import memory as aliases_memory
from tests.kb.files import making
from tests.kb.service import callers
from tests.kb.service.callers import refused, rejected


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=aliases_memory.Registry(clock)) as opened:
        yield opened


async def test_the_queue_as_its_owner_sees_it(
    kb: world.ObservedState, kb_client: client.Client, fake: process.Fake
) -> None:
    for number in range(3):
        await kb_client.learning.index(world.request(urn=f"u:{number}"))
    await kb_client.learning.index(world.request(urn="u:other", owner=scopes.OTHER))
    held = await kb_client.queue.listed(scopes.SHOP)
    in_order = [(f"u:{number}", number + 1, "Waiting") for number in range(3)]
    assert [(one.source_urn, one.place, one.state) for one in held.jobs] == in_order
    assert (held.total, held.failed) == (3, [])
    moved = await kb_client.queue.reorder(scopes.SHOP, held.jobs[2].id, 1)
    assert (moved.place, moved.queue_position) == (1, 1)
    assert (await calls.prioritize(kb_client, scopes.SHOP, held.jobs[1].id)).place == 1
    order = [one.source_urn for one in (await kb_client.queue.listed(scopes.SHOP)).jobs]
    assert order == ["u:1", "u:2", "u:0"]
    for viewer in (scopes.OTHER, scopes.BLOG):
        assert (await rejected(calls.prioritize(kb_client, viewer, held.jobs[0].id))).code == "not_found"
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 404, "message": "model not found"}}])
    await kb.workers.step()
    after = await kb_client.queue.listed(scopes.SHOP)
    assert (after.total, after.failed) == (3, []), "a model that is not there is the operator's to fix"
    waits = next(one for one in after.jobs if one.source_urn == "u:1")
    assert (waits.state, "qwen2.5:7b" in waits.reason) == ("Postponed", True)


async def test_what_failed_is_listed_and_tried_again(
    kb: world.ObservedState, kb_client: client.Client, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 400, "message": "context too small"}}])
    for number in range(3):
        await kb_client.learning.index(world.request(urn=f"u:{number}"))
        await kb.workers.step()
    with pytest.raises(client.Rejected):
        await kb_client.learning.index(world.request(" ", urn="u:empty"))
    held = await kb_client.queue.listed(scopes.SHOP)
    assert held.total == 0
    assert {one.source_urn: one.retryable for one in held.failed} == {
        **{f"u:{number}": True for number in range(3)},
        "u:empty": False,
    }
    assert (await kb_client.queue.listed(scopes.OTHER)).failed == []
    first = next(one for one in held.failed if one.source_urn == "u:1")
    for viewer in (scopes.OTHER, scopes.BLOG):
        caught = await rejected(kb_client.queue.retry(viewer, first.id))
        assert (caught.code, caught.field) == ("not_found", "id")
        assert (await kb_client.queue.retry(viewer)).retried == []
    fake.set_faults([])
    assert (await kb_client.queue.retry(scopes.SHOP, first.id)).retried == ["u:1"]
    rest = await kb_client.queue.retry(scopes.SHOP)
    assert sorted(rest.retried) == ["u:0", "u:2"]
    assert [(one.source_urn, "send it again" in one.reason) for one in rest.left] == [("u:empty", True)]
    for _ in range(3):
        assert await kb.workers.step() is not None
    after = await kb_client.queue.listed(scopes.SHOP)
    assert (after.total, [one.source_urn for one in after.failed]) == (0, ["u:empty"])
    wrong = await http.post("/api/v1/queue/retry", json={"scope": {"clientId": "acme"}, "ids": ["x"]})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "ids")


async def test_documents_are_listed_with_their_states(
    kb: world.ObservedState, kb_client: client.Client, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    await kb.ingest(world.request(urn="u:extracted", observed_at=datetime(2026, 3, 1, 12, tzinfo=UTC)))
    await kb_client.learning.index(world.request(world.LONG, urn="u:indexed", kind="wiki", owner=scopes.ACME))
    with pytest.raises(client.Rejected):
        await kb_client.learning.index(world.request(" ", urn="u:never"))
    await kb.ingest(world.request(urn="u:worse"))
    with pytest.raises(client.Rejected):
        await kb_client.learning.index(world.request(" ", urn="u:worse"))
    kb.switch.away = True
    with pytest.raises(errors.Away):
        await kb.ingest(world.request(urn="u:open"))
    kb.switch.away = False
    await kb.ingest(world.request(urn="u:theirs", owner=scopes.OTHER))
    page = await kb_client.documents.listed(scopes.SHOP, limit=2)
    found = page.documents
    while page.next is not None:
        page = await kb_client.documents.listed(scopes.SHOP, after=page.next, limit=2)
        found += page.documents
    assert len(found) == len({one.id for one in found})
    assert sorted((one.source_urn, one.state, one.chunks > 0, one.kind) for one in found) == [
        ("u:extracted", "Extracted", True, "email"),
        ("u:indexed", "Indexed", True, "wiki"),
        ("u:never", "Failed", False, ""),
        ("u:open", "Unfinished", False, ""),
        ("u:worse", "Failed", True, "email"),
    ]
    by_urn = {one.source_urn: one for one in found}
    assert by_urn["u:extracted"].observed_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (by_urn["u:indexed"].scope, by_urn["u:open"].scope) == (scopes.ACME, scopes.SHOP)
    assert ("empty" in by_urn["u:worse"].reason, "away" in by_urn["u:open"].reason) == (True, True)
    [wiki] = (await kb_client.documents.listed(scopes.SHOP, kind="wiki")).documents
    assert wiki.source_urn == "u:indexed"
    begun = (await kb_client.documents.listed(scopes.SHOP, source="u:ne")).documents
    assert [one.source_urn for one in begun] == ["u:never"]
    await kb.workers.step()
    assert (await kb_client.documents.listed(scopes.SHOP, kind="wiki")).documents[0].state == "Extracted"
    assert refused(await http.get("/api/v1/documents", params={"clientId": "acme", "limit": "0"})) == (422, "limit")


async def test_documents_are_listed_with_the_versions_that_are_kept_of_them(
    kb: world.ObservedState, kb_client: client.Client
) -> None:
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 5, 7)]
    for number, day in enumerate(days):
        await kb.ingest(world.request(f"Version {number}.", urn="u:1", title=f"Title {number}", observed_at=day))
    await kb.ingest(world.request("Once.", urn="u:2"))
    listed = {one.source_urn: one for one in (await kb_client.documents.listed(scopes.SHOP)).documents}
    assert [(one.title, one.valid_from, one.valid_until) for one in listed["u:1"].versions] == [
        ("Title 1", days[1], days[2]),
        ("Title 0", days[0], days[1]),
    ]
    assert (listed["u:1"].valid_from, listed["u:1"].title) == (days[2], "Title 2")
    assert listed["u:2"].versions == []
    assert (await kb_client.documents.listed(scopes.BLOG)).documents == []


async def test_what_a_person_says_is_there_at_once(
    kb: world.ObservedState, kb_client: client.Client, clock: clocks.Clock, fake: process.Fake
) -> None:
    def said(subject: str, content: str, category: api.Category) -> api.Knowledge:
        return api.Knowledge(scope=scopes.SHOP, subject=subject, content=content, category=category)

    domain = said("BMS", "Brokerage Management System", api.Category.DOMAIN)
    first = await kb_client.learning.store(domain)
    assert first.source_urn.startswith("user-knowledge:domain:")
    assert "BMS" not in first.source_urn
    assert {one["priority"] for one in fake.requests()} == {"1"}
    clock.advance(hours=1)
    await kb_client.learning.store(said("Editor", "Prefers\nvim.", api.Category.PREFERENCE))
    assert (await kb_client.learning.store(domain)).replaced  # said twice, known once
    clock.advance(hours=1)
    await kb_client.learning.store(said("KYC", "Know your customer.", api.Category.DOMAIN))
    await kb.ingest(world.request())  # a mail is no user knowledge
    context = await kb_client.memory.user(scopes.SHOP)
    assert context.markdown == (
        "### Preferences\n- **Editor**: Prefers vim.\n\n"
        "### Domain Context\n- **KYC**: Know your customer.\n- **BMS**: Brokerage Management System"
    )
    assert set(context.categories) == {"preference", "domain"}
    assert (await kb_client.memory.user(scopes.BLOG)).markdown == ""
    assert (await kb_client.memory.user(scopes.TILL)).markdown == context.markdown  # of the same group


async def test_the_users_context_asks_no_model(kb_client: client.Client, fake: process.Fake) -> None:
    before = fake.count()
    await kb_client.memory.user(scopes.SHOP)
    assert fake.count() == before


def outcome(**more: Any) -> api.Outcome:
    said = "Petr Svoboda fixed retry.py with exponential backoff. Lesson: cap the backoff."
    filled: dict[str, Any] = {"task_category": "single_task", "task_action": "code", "final_result": said}
    return api.Outcome(scope=scopes.SHOP, task_id="t1", **(filled | more))


STEP = [api.StepResult(action="search", result="found retry.py")]


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
    kb_client: client.Client, fake: process.Fake, change: dict[str, Any], remembered: bool
) -> None:
    reply = await kb_client.learning.outcome(outcome(**change))
    assert (reply.remembered, bool(reply.reason)) == (remembered, True)
    assert (fake.count(tag="kb.outcome/v1") > 0) is remembered
    assert (reply.source_urn == "task-outcome:t1") is remembered


async def test_an_outcome_is_found_and_overwritten(
    kb: world.ObservedState, kb_client: client.Client, fake: process.Fake
) -> None:
    first = await kb_client.learning.outcome(outcome(title="Retry of the poller"))
    [item] = (await kb.ask("retry backoff", kinds=["task_outcome"])).items
    assert item.provenance.source_urn == "task-outcome:t1"
    assert item.content.startswith("## Summary")
    assert {one["priority"] for one in fake.requests()} == {"3"}
    again = await kb_client.learning.outcome(outcome(title="Retry of the poller"))
    assert again.chunk_ids == first.chunk_ids
    assert fake.count(tag="kb.outcome/v1") == 1


async def test_an_image_is_what_the_model_sees_in_it(
    kb: world.ObservedState, kb_client: client.Client, http: httpx.AsyncClient, fake: process.Fake
) -> None:
    needs.ocr()
    body = drawing.picture("Login flow\n\nAn unknown device gets a code by mail.")
    reply = await kb_client.learning.image(scopes.SHOP, body, filename="login flow.png")
    assert (reply.media_type, reply.size) == ("image/png", len(body))
    [asked] = fake.requests(tag="kb.describe/v1")
    assert asked["priority"] == "2"
    assert asked["body"]["messages"][1]["images"]
    [item] = (await kb.ask("code for an unknown device", kinds=["image"])).items
    assert item.content.endswith("Text in the image:\n\nLogin flow\n\nAn unknown device gets a code by mail.")
    await kb_client.learning.image(scopes.SHOP, body, filename="login flow.png")
    assert fake.count(tag="kb.describe/v1") == 1
    caught = await rejected(kb_client.learning.image(scopes.SHOP, making.pdf("hello")))
    assert (caught.code, caught.field) == ("invalid", "body")
    text = (await http.get("/metrics")).text
    assert 'jervis_kb_uploads_total{outcome="taken",type="image/png"} 2.0' in text
    assert 'jervis_kb_uploads_total{outcome="refused",type="unknown"} 1.0' in text


async def test_an_image_among_files_is_recognised(kb_client: client.Client, fake: process.Fake) -> None:
    needs.ocr()
    reply = await kb_client.learning.file(scopes.SHOP, making.png(20, 10), filename="login flow.txt")
    assert (reply.media_type, reply.queued) == ("image/png", True)
    assert reply.source_urn.startswith("image::name:login flow.txt,sha256:")
    assert fake.count(tag="kb.describe/v1") == 1


async def test_text_needs_no_tika_and_everything_else_says_so(kb_client: client.Client) -> None:
    reply = await kb_client.learning.file(scopes.SHOP, b"Petr Svoboda wrote a.py.\n", filename="note.txt")
    assert (reply.media_type, reply.queued) == ("text/plain", True)
    assert reply.source_urn.startswith("file::name:note.txt,sha256:")
    caught = await rejected(kb_client.learning.file(scopes.SHOP, making.pdf("hello")))
    assert (caught.code, caught.field) == ("misconfigured", "tikaUrl")


async def test_a_file_keeps_its_senders_metadata(
    kb: world.ObservedState, kb_client: client.Client, http: httpx.AsyncClient
) -> None:
    await kb_client.learning.file(scopes.SHOP, b"Petr Svoboda wrote a.py.\n", metadata={"team": "core"})
    await kb_client.learning.index(world.request("Petr Svoboda wrote b.py.", urn="u:other"))
    [item] = (await kb.ask("Who wrote a.py?", metadata={"team": "core"})).items
    assert (item.provenance.metadata, "a.py" in item.content) == ({"team": "core"}, True)
    large = world.request().model_dump(mode="json", by_alias=True) | {"metadata": {"key": "x" * 17_000}}
    refused = await http.post("/api/v1/ingest", json=large)
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "metadata")
    assert "16384" in refused.json()["error"]["message"]


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
    unknown = {"scope": {"clientId": "acme"}, "subject": "s", "content": "c", "x": 1}
    assert refused(await http.post("/api/v1/store", json=unknown)) == (422, "x")


async def test_merges_over_http(kb: world.ObservedState, kb_client: client.Client) -> None:
    await kb.ingest(world.request("user:john|OWNS|file:a.py", urn="n:1"))
    await kb.ingest(world.request("user:john.doe@x.com|OWNS|file:b.py", urn="n:2"))
    await kb.ingest(world.request("user:john.roe@x.com|OWNS|file:b.py", urn="n:3", owner=scopes.OTHER))
    offered = await kb_client.aliases.candidates(scopes.SHOP, "user:john")
    assert [one.other for one in offered] == ["user:john.doe@x.com"]
    merge = api.Merge(scope=scopes.ACME, alias="User:John", canonical="user:jd", by="jana")
    made = await kb_client.aliases.merge(merge)
    assert (made.alias, made.canonical, made.documents) == ("user:john", "user:jd", 1)
    await kb.workers.step()
    [alias] = await kb_client.aliases.listed(scopes.SHOP, key="user:jd")
    assert (alias.state, alias.created_by, alias.scope) == ("Merged", "jana", scopes.ACME)
    assert await kb_client.aliases.listed(scopes.OTHER) == []
    assert (await kb_client.aliases.unmerge(scopes.ACME, "user:john")).documents == 1
    assert (await rejected(kb_client.aliases.unmerge(scopes.ACME, "user:john"))).code == "not_found"


async def test_every_route_is_described(http: httpx.AsyncClient) -> None:
    document = (await http.get("/api/v1/openapi.json")).json()
    described = callers.operations(document)
    written = {"ingest", "ingest/file", "ingest/image", "crawl", "store", "outcomes"}
    assert described["POST"] >= written | {"queue/reorder", "queue/prioritize"}
    assert described["GET"] >= {"user-context", "aliases", "queue"}
    assert described["PUT"] & described["DELETE"] >= {"aliases"}
    uploading = document["paths"]["/api/v1/ingest/file"]["post"]
    assert {one["name"] for one in uploading["parameters"]} >= {"clientId", "filename", "sourceUrn"}
    assert "requestBody" in uploading


class _Later(api.IngestRequest):
    """A request of a later version."""

    later: bool = True


async def test_a_service_of_an_earlier_version_is_waited_for(kb_client: client.Client) -> None:
    """In an update the caller may be replaced first: its request is not wrong for ever."""
    later = _Later.model_validate(world.request().model_dump())
    with pytest.raises(client.Unavailable, match="another version than its caller: later: Extra inputs"):
        await kb_client.learning.index(later)
