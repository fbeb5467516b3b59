"""Images that stand in a document: seen with it, known as its attachments, and gone with it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from clients import http as outward
from crds import errors as root
from crds.priority import Priority
from hack import drawing
from kb import api
from kb.files import tika
from kb.ingest import images, request_record
from tests.clients import servers
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import conftest, memory, scopes, world
from tests.kb.files import making
from tests.kb.files.test_inside import mail, uri
from tests.kb.service import whole

TICKET = (
    "JERV-2080: The page is blank\nStatus: In Progress\nAssignee: Petr Svoboda\nError: NullPointerException in "
    "PageView.kt, the fourth time since the deploy of Monday\n"
)
SHOT = drawing.picture(TICKET)
PUMP = drawing.picture("The pump P-17 leaks since Tuesday.\n" + "The valve is closed. " * 3)
URN = "email::<m1@acme.com>"


def request(text: str, **more: Any) -> api.IngestRequest:
    return world.request(text, urn=URN, **more)


async def attached(kb: world.ObservedState) -> list[str]:
    return [one.source_urn for one in await kb.graph.documents(scopes.SHOP, api.ATTACHMENT, "")]


async def test_a_screenshot_in_a_mail_is_seen_and_found(kb: world.ObservedState, fake: process.Fake) -> None:
    reply = await kb.ingest(request(making.pictures(SHOT, SHOT, making.png(1, 1))))
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
    [text, *_] = (await kb.ask("See the pictures", kinds=["email"])).items
    assert f"[image: {one.name}]" in text.content
    said = await kb.graph.relationships(scopes.SHOP, edge_type="has_attachment")
    assert [one.edge.source for one in said if one.edge] == ["email::m1@acme.com"]


@pytest.mark.parametrize("way", ["inline", "stored"])
async def test_a_page_with_a_data_uri(kb: world.ObservedState, way: str) -> None:
    page = f'<p>The pump.</p><ac:image><ri:url ri:value="{uri(PUMP)}"/></ac:image>'
    more: dict[str, Any] = {"kind": "wiki"}
    if way == "stored":
        more |= {"content": None, "content_ref": await kb.content.save(scopes.SHOP, page.encode(), "text/html")}
    reply = await kb.ingest(request(page, **more))
    [one] = reply.images
    assert f'ri:value="image:{one.name}"' in (await kb.ask("The pump", kinds=["wiki"])).items[0].content
    assert (await kb.ask("P-17 leaks", kinds=[api.ATTACHMENT])).items


async def test_a_new_version_has_its_own_images_and_nothing_stays_behind(kb: world.ObservedState) -> None:
    before = await kb.state()
    await kb.ingest(request(making.pictures(SHOT)))
    alone = await kb.state()
    again = await kb.ingest(request(making.pictures(SHOT)))
    assert (again.replaced, await kb.state()) == (True, alone)
    both = await kb.ingest(request(making.pictures(PUMP, SHOT)))
    assert await attached(kb) == sorted(one.source_urn for one in both.images)
    assert len(both.images) == 2
    await kb.ingest(request(making.pictures(SHOT)))
    assert await kb.state() == alone
    await kb.ingest(request("Please see the ticket."))
    assert await attached(kb) == []
    await kb.ingest(request(making.pictures(SHOT)))
    assert await kb.pipeline.forget(scopes.SHOP, URN)
    assert await kb.state() == before


async def test_files_that_were_sent_stay_beside_the_images(kb: world.ObservedState) -> None:
    sent = api.attachment_urn(URN, "note.txt")
    named = request(making.pictures(SHOT), attachments=["note.txt"])
    await kb.ingest(named)
    await kb.ingest(world.request("A note.", urn=sent, kind=api.ATTACHMENT))
    for again, count in (
        (request(making.pictures(PUMP)), 2),
        (named, 2),
        (request(making.pictures(SHOT), attachments=[]), 1),
    ):
        reply = await kb.ingest(again)
        [one] = reply.images
        known = await attached(kb)
        assert one.source_urn in known
        assert (sent in known, len(known)) == (count == 2, count)


async def test_the_queue_looks_at_them_later(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(request(making.pictures(PUMP)))
    fake.forget()
    reply = await kb.pipeline.index(request(making.pictures(SHOT)), Priority.P3)
    assert (reply.queued, fake.count(tag="kb.describe/v1"), await attached(kb)) == (True, 0, [])
    await kb.worked()
    [urn] = await attached(kb)
    assert "~inside-" in urn
    assert fake.count(tag="kb.describe/v1") == 1
    assert (await kb.ask("NullPointerException", kinds=[api.ATTACHMENT])).items
    await kb.ingest(request(making.pictures(SHOT)))
    assert await attached(kb) == [urn]
    assert (await kb.pipeline.index(request(making.pictures(SHOT)), Priority.P3)).queued
    await kb.worked()
    assert await attached(kb) == [urn]
    assert fake.count(tag="kb.describe/v1") == 1


@pytest.mark.parametrize("code", [404, 503])
async def test_no_vision_model_costs_no_document_for_long(
    kb: world.ObservedState, fake: process.Fake, code: int
) -> None:
    fake.set_faults([{"match": {"tag": "kb.describe/v1"}, "status": {"code": code, "message": "not there"}}])
    sent = request(making.pictures(SHOT))
    for _ in range(images.PATIENCE if code == 503 else 0):
        with pytest.raises(root.Operational):
            await kb.ingest(sent)
        assert await kb.ledger.count() == {request_record.State.OPEN: 1}
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
    many = making.pictures(*(drawing.picture(f"Picture {number}.") for number in range(12)))
    reply = await kb.ingest(request(many))
    assert len(reply.images) == 10
    assert any(one.startswith("2 more images") for one in reply.problems)


async def test_stopped_before_each_call_of_a_store_it_ends_as_if_it_had_not_been(
    open_world: world.Opening, clock: clocks.Clock, fake: process.Fake
) -> None:
    vectors, content = memory.Vectors(), memory.Content()
    sent = request(making.pictures(SHOT, PUMP))
    async with open_world(text=content, within="alone") as alone:
        await alone.ingest(sent)
        await alone.worked()
        expected = await alone.state()
    looked = fake.count(tag="kb.describe/v1")
    for stop in range(60):
        vectors.switch.fail_after = stop
        async with open_world(vectors, content, within="stopped") as kb:
            with contextlib.suppress(root.Operational):
                await kb.ingest(sent)
                await kb.worked()
                if await kb.ledger.count() == {request_record.State.FINISHED: 3}:
                    vectors.switch.fail_after = None
                    # Jobs that were postponed.
                    clock.advance(hours=1)
                    await kb.worked()
                    assert await kb.state() == expected
                    break
    else:
        pytest.fail("it never ended")
    assert stop > 4
    # What one process has seen the next one knows.
    assert fake.count(tag="kb.describe/v1") == looked * 2


@pytest.mark.services
@pytest.mark.parametrize("kind", ["mail", "page"])
async def test_images_in_an_uploaded_mail_or_page(kb: world.ObservedState, fake: process.Fake, kind: str) -> None:
    page = f'<!doctype html><html><body><p>The pump.</p><img src="{uri(PUMP)}"></body></html>'
    raw = (page if kind == "page" else making.pictures(PUMP)).encode()
    kept = await kb.content.save(scopes.SHOP, raw, "application/octet-stream")
    draft = api.AttachmentDraft(scope=scopes.SHOP, attached_to=URN, name="forwarded", content_ref=kept)
    await kb.ingest(request("See the file."))
    before = await kb.state()
    async with outward.client(tls=servers.TLS) as http:
        parser = tika.Tika(conftest.required("JERVIS_TEST_TIKA_URL"), http)
        async with whole.over(kb, kb.meters, kb.clock, parser=parser) as (typed, _):
            reply = await typed.learning.attachment(draft)
            [one] = reply.images
            assert one.source_urn == api.attachment_urn(api.attachment_urn(URN, "forwarded"), one.name)
            assert (await kb.ask("P-17 leaks", sources=[one.source_urn])).items
            assert (await typed.learning.attachment(draft)).images == [one]
            assert fake.count(tag="kb.describe/v1") == 1
            file = await typed.learning.file(scopes.SHOP, raw, filename="forwarded")
            assert file.images[0].source_urn == api.attachment_urn(file.source_urn, one.name)
    assert await kb.pipeline.forget(scopes.SHOP, file.source_urn)
    assert await kb.pipeline.forget(scopes.SHOP, api.attachment_urn(URN, "forwarded"))
    assert await kb.state() == before


async def test_another_scope_does_not_see_them(kb: world.ObservedState) -> None:
    await kb.ingest(request(making.pictures(SHOT)))
    assert (await kb.ask("NullPointerException", scopes.BLOG)).items == []
    assert await kb.graph.documents(scopes.BLOG, api.ATTACHMENT, "") == []
