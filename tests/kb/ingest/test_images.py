"""Images that stand in a document: seen with it, known as its attachments, and gone with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crds import errors as root
from kb import api, metrics
from kb.ingest import images, intent
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.files import making
from tests.kb.files.test_inside import mail, uri

TICKET = (
    "JERV-2080: The page is blank\nStatus: In Progress\nAssignee: Petr Svoboda\nError: NullPointerException in "
    "PageView.kt, the fourth time since the deploy of Monday\n"
)
SHOT = making.png(40, 30, TICKET)
PUMP = making.png(41, 30, "The pump P-17 leaks since Tuesday.\n" + "The valve is closed. " * 10)
URN = "email::<m1@acme.com>"


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[world.ObservedState]:
    async with world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content()) as made:
        yield made


def request(text: str, **more: object) -> api.IngestRequest:
    return world.request(text, urn=URN, **more)


def inner(*bodies: bytes) -> str:
    return mail(*((body, "png", f"shot{at}.png") for at, body in enumerate(bodies))).as_string()


async def attached(kb: world.ObservedState) -> list[str]:
    return [one.source_urn for one in await kb.graph.documents(scopes.SHOP, api.ATTACHMENT, "")]


async def test_a_screenshot_in_a_mail_is_seen_and_found(kb: world.ObservedState, fake: process.Fake) -> None:
    reply = await kb.ingest(request(inner(SHOT, SHOT, making.png(1, 1))))
    [one] = reply.images
    assert (one.media_type, one.size, one.source_urn) == ("image/png", len(SHOT), api.attachment_urn(URN, one.name))
    found = reply.qualification
    assert found is not None
    [seen] = found.attachments
    assert (seen.name, "JERV-2080" in str(seen.vision_analysis)) == (one.name, True)
    assert "NullPointerException" in str(found.vision.general_vision_summary)
    # Looked at once by the qualifier; what is stored of it asks nothing again.
    assert [asked["priority"] for asked in fake.requests(tag="kb.describe/v1")] == ["2"]
    [item, *_] = (await kb.ask("NullPointerException", kinds=[api.ATTACHMENT])).items
    assert item.provenance.source_urn == one.source_urn
    assert set(one.chunk_ids) == {item.provenance.chunk_id}
    # Neither the model nor the index reads base64.
    shown = [asked["body"]["messages"][1]["content"] for asked in fake.requests(path="/api/chat")]
    assert not any("iVBORw0KGgo" in said for said in shown)
    [text, *_] = (await kb.ask("See the screenshot", kinds=["email"])).items
    assert f"[image: {one.name}]" in text.content
    said = await kb.graph.relationships(scopes.SHOP, edge_type="has_attachment")
    assert [one.edge.source for one in said if one.edge] == ["email::m1@acme.com"]


@pytest.mark.parametrize("way", ["inline", "stored"])
async def test_a_page_with_a_data_uri(kb: world.ObservedState, way: str) -> None:
    page = f'<p>The pump.</p><ac:image><ri:url ri:value="{uri(PUMP)}"/></ac:image>'
    more: dict[str, object] = {"kind": "wiki"}
    if way == "stored":
        more |= {"content": None, "content_ref": await kb.content.save(scopes.SHOP, page.encode(), "text/html")}
    reply = await kb.ingest(request(page, **more))
    [one] = reply.images
    assert f'ri:value="image:{one.name}"' in (await kb.ask("The pump", kinds=["wiki"])).items[0].content
    assert (await kb.ask("P-17 leaks", kinds=[api.ATTACHMENT])).items


async def test_a_new_version_has_its_own_images_and_nothing_stays_behind(kb: world.ObservedState) -> None:
    before = await kb.state()
    await kb.ingest(request(inner(SHOT)))
    alone = await kb.state()
    again = await kb.ingest(request(inner(SHOT)))
    assert (again.replaced, await kb.state()) == (True, alone)
    both = await kb.ingest(request(inner(PUMP, SHOT)))
    assert await attached(kb) == sorted(one.source_urn for one in both.images)
    assert len(both.images) == 2
    await kb.ingest(request(inner(SHOT)))
    assert await kb.state() == alone
    await kb.ingest(request("Please see the ticket."))
    assert await attached(kb) == []
    await kb.ingest(request(inner(SHOT)))
    assert await kb.pipeline.forget(scopes.SHOP, URN)
    assert await kb.state() == before


async def test_files_that_were_sent_stay_beside_the_images(kb: world.ObservedState) -> None:
    sent = api.attachment_urn(URN, "note.txt")
    named = request(inner(SHOT), attachments=["note.txt"])
    await kb.ingest(named)
    await kb.ingest(world.request("A note.", urn=sent, kind=api.ATTACHMENT))
    for again, count in ((request(inner(PUMP)), 2), (named, 2), (request(inner(SHOT), attachments=[]), 1)):
        reply = await kb.ingest(again)
        [one] = reply.images
        known = await attached(kb)
        assert one.source_urn in known
        assert (sent in known, len(known)) == (count == 2, count)


async def test_the_queue_looks_at_them_later(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(request(inner(PUMP)))
    fake.forget()
    reply = await kb.pipeline.index(request(inner(SHOT)), 3)
    assert (reply.queued, fake.count(tag="kb.describe/v1"), await attached(kb)) == (True, 0, [])
    while await kb.workers.step() is not None:
        pass
    [urn] = await attached(kb)
    assert "~inside-" in urn
    assert fake.count(tag="kb.describe/v1") == 1
    assert (await kb.ask("NullPointerException", kinds=[api.ATTACHMENT])).items
    through_the_queue = await kb.state()
    await kb.ingest(request(inner(SHOT)))
    assert await attached(kb) == [urn]
    again = await kb.pipeline.index(request(inner(SHOT)), 3)
    while again.queued and await kb.workers.step() is not None:
        pass
    assert await attached(kb) == [urn]
    assert fake.count(tag="kb.describe/v1") == 1
    assert through_the_queue is not None


@pytest.mark.parametrize("code", [404, 503])
async def test_no_vision_model_costs_no_document_for_long(
    kb: world.ObservedState, fake: process.Fake, code: int
) -> None:
    fake.set_faults([{"match": {"tag": "kb.describe/v1"}, "status": {"code": code, "message": "not there"}}])
    sent = request(inner(SHOT))
    for _ in range(images.PATIENCE if code == 503 else 0):
        with pytest.raises(root.Operational):
            await kb.ingest(sent)
        assert await kb.ledger.count() == {intent.State.OPEN: 1}
    reply = await kb.ingest(sent)
    assert (reply.images, bool(reply.chunk_ids)) == ([], True)
    assert any("image" in one or "shot0" in one for one in reply.problems), reply.problems
    fake.set_faults([])
    assert len((await kb.ingest(sent)).images) == 1


async def test_what_is_left_out_is_said(kb: world.ObservedState) -> None:
    text = mail((b"BM" + bytes(400), "bmp", "old.bmp"), (SHOT, "png", "a.png")).as_string()
    reply = await kb.ingest(request(text))
    assert len(reply.images) == 1
    assert any(one.startswith("old: the body is no image") for one in reply.problems)
    many = inner(*(making.png(40, 30, f"Picture {number}. " * 20) for number in range(12)))
    reply = await kb.ingest(request(many))
    assert len(reply.images) == 10
    assert any(one.startswith("2 more images") for one in reply.problems)
