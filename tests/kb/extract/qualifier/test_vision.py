"""Images that come with a document: what is seen in them reaches every phase, and is looked at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import errors as root
from hack import drawing
from kb import api, errors, identity, metrics
from kb.extract import answers
from kb.files import image, vision
from kb.ingest import request_record
from router import client as router_client
from tests import needs
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.extract.qualifier.test_scenarios import PROMPTS, TYPES, document, qualified
from tests.kb.service import whole

TICKET = "JERV-2080: The page is blank\nStatus: In Progress\nAssignee: Petr Svoboda\nError: NullPointerException"
LETTERS = "A photo of the office.\nThe desk is new."


@pytest.fixture(autouse=True)
def ocr() -> None:
    needs.ocr()


async def attached(kb: world.ObservedState, *texts: str) -> list[api.File]:
    found = []
    for number, text in enumerate(texts):
        reference = await kb.content.save(scopes.SHOP, drawing.picture(text), "image/png")
        found.append(api.File(name=f"shot-{number}.png", content_ref=reference))
    return found


async def test_a_picture_is_described_and_a_document_of_no_type_has_no_second_look(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    reply, found = await qualified(kb, document("GENERIC", files=await attached(kb, LETTERS)))
    assert found.content_type is api.ContentType.GENERIC
    assert found.vision.general_vision_summary is not None
    assert "photo of the office" in found.vision.general_vision_summary
    assert found.vision.type_specific_vision_details is None
    [one] = found.attachments
    assert (one.name, "The desk is new." in str(one.vision_analysis)) == ("shot-0.png", True)
    [asked] = fake.requests(tag="kb.describe/v1")
    assert asked["priority"] == "2"
    assert fake.count(path="/api/chat") == 2 + len(reply.chunk_ids)


async def test_a_screenshot_decides_the_type_and_the_fields(kb: world.ObservedState, fake: process.Fake) -> None:
    sent = document("GENERIC", content="See the picture.", files=await attached(kb, TICKET, LETTERS))
    _, found = await qualified(kb, sent)
    assert isinstance(found.extraction, api.JiraExtraction)
    assert (found.extraction.status, found.extraction.assignee) == ("In Progress", "Petr Svoboda")
    assert found.vision.general_vision_summary is not None
    assert "Status: In Progress" in str(found.vision.type_specific_vision_details)
    [closer] = fake.requests(tag="kb.qualify.vision-jira/v1")
    assert len(closer["body"]["messages"][1]["images"]) == 2
    [typed] = fake.requests(tag="kb.qualify.jira/v2")
    for seen in (found.vision.general_vision_summary, found.vision.type_specific_vision_details):
        assert str(seen) in typed["body"]["messages"][1]["content"]
    calls = fake.count(path="/api/chat")
    again, second = await qualified(kb, sent)
    assert fake.count(path="/api/chat") == calls
    assert second.extraction == found.extraction
    assert again.replaced


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    "failing",
    [
        "kb.qualify.detect/v2",
        "kb.qualify.{1}",
        "kb.qualify.vision-{0}/v1",
        "kb.extract/v1",
        "kb.hints/v2",
    ],
)
async def test_no_phase_loses_what_was_seen(
    kb: world.ObservedState, fake: process.Fake, type_: str, failing: str
) -> None:
    fake.set_faults([{"match": {"tag": failing.format(type_.lower(), PROMPTS[type_])}, "malformed": "answer"}])
    _, found = await qualified(kb, document(type_, files=await attached(kb, TICKET)))
    assert found.vision.general_vision_summary is not None
    assert [one.vision_analysis is not None for one in found.attachments] == [True]
    looked = fake.count(tag=f"kb.qualify.vision-{type_.lower()}/v1")
    lost = "vision" in failing and bool(looked)
    if found.content_type is not api.ContentType.GENERIC:
        assert (found.vision.type_specific_vision_details is None) == lost
        assert any(one.startswith("visionDetails: ") for one in found.errors) == lost
    shown = [one for one in fake.requests(path="/api/chat") if one["tag"] not in ("kb.describe/v1", "kb.extract/v1")]
    assert shown
    assert all("JERV-2080" in one["body"]["messages"][1]["content"] for one in shown)


async def test_the_attachment_that_comes_later_is_not_looked_at_again(
    kb: world.ObservedState, fake: process.Fake, meters: metrics.Metrics
) -> None:
    [file] = await attached(kb, TICKET)
    sent = document("EMAIL", files=[file], attachments=[file.name])
    await qualified(kb, sent)
    async with whole.over(kb, meters, kb.clock) as (client, _):
        draft = api.AttachmentDraft(
            scope=scopes.SHOP, attached_to=sent.source_urn, name=file.name, content_ref=file.content_ref
        )
        await client.learning.attachment(draft)
    assert fake.count(tag="kb.describe/v1") == 1
    [asked] = fake.requests(tag="kb.describe/v1")
    assert file.name in asked["body"]["messages"][1]["content"]


@pytest.mark.parametrize("type_", ["LOG", "JIRA"])
async def test_stopped_before_each_call_of_a_store_it_ends_as_if_it_had_not_been(
    open_world: world.Opening, clock: clocks.Clock, fake: process.Fake, type_: str
) -> None:
    """A new process resumes what is open each time, and asks no model for what one said before."""
    vectors, content = memory.Vectors(), memory.Content()
    async with open_world(text=content, within="alone") as alone:
        sent = document(type_, files=await attached(alone, TICKET))
        reply, _ = await qualified(alone, sent)
        expected = await alone.state()
    fake.forget()
    vectors.switch.fail_after = 0
    async with open_world(vectors, content, within="stopped") as kb:
        with pytest.raises(errors.Away):
            await kb.ingest(sent)
    for stop in range(1, 40):
        vectors.switch.fail_after = stop
        async with open_world(vectors, content, within="stopped") as kb:
            await kb.recovery.sweep(before=clock() + timedelta(seconds=1))
            if await kb.ledger.count() == {request_record.State.FINISHED: 1}:
                vectors.switch.fail_after = None
                assert await kb.state() == expected
                assert await vectors.known(scopes.SHOP, identity.document(scopes.SHOP, sent.source_urn)) != {}
                break
    else:
        pytest.fail("it never ended")
    assert stop > 2
    assert fake.count(path="/api/chat") == 3 + len(reply.chunk_ids), "no model is asked twice"


async def test_what_cannot_be_looked_at_is_said_and_the_rest_is_seen(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    good = await attached(kb, TICKET)
    text = await kb.content.save(scopes.SHOP, b"no image", "image/png")
    forged = good[0].content_ref.model_copy(update={"sha256": "0" * 64})
    large = good[0].content_ref.model_copy(update={"bytes": 2 << 20})
    gone = good[0].content_ref.model_copy(update={"key": "gone"})
    bad = [api.File(name=f"{n}.png", content_ref=one) for n, one in enumerate((text, forged, large, gone))]
    reply, found = await qualified(kb, document("EMAIL", files=[*bad, *good]))
    assert [one.vision_analysis is not None for one in found.attachments] == [False] * 4 + [True]
    assert [one.partition(": ")[2].partition(":")[0] for one in found.errors] == ["0.png", "1.png", "2.png", "3.png"]
    assert set(found.errors) <= set(reply.problems)
    assert found.vision.type_specific_vision_details is not None


@pytest.mark.parametrize(("code", "waits"), [(404, False), (503, True)])
async def test_a_vision_model_that_is_not_there_costs_no_document_and_one_that_is_busy_is_waited_for(
    kb: world.ObservedState, fake: process.Fake, code: int, waits: bool
) -> None:
    fake.set_faults([{"match": {"tag": "kb.describe/v1"}, "status": {"code": code, "message": "not there"}}])
    sent = document("EMAIL", files=await attached(kb, TICKET))
    if waits:
        with pytest.raises(root.Operational):
            await kb.ingest(sent)
        assert await kb.ledger.count() == {request_record.State.OPEN: 1}
        fake.set_faults([])
        _, found = await qualified(kb, sent)
        assert found.vision.general_vision_summary is not None
    else:
        _, found = await qualified(kb, sent)
        assert found.vision.general_vision_summary is None
        assert found.errors[0].startswith("visionGeneral: shot-0.png: ")


async def test_the_model_is_chosen_by_number_and_size_and_an_image_is_looked_at_once(
    kb: world.ObservedState, router: router_client.Client, fake: process.Fake, meters: metrics.Metrics
) -> None:
    def asking(model: str) -> answers.Answers:
        return answers.Answers(router, model, kb.ledger, meters)

    usual, many, large = asking("llama3.2:3b"), asking("qwen2.5:7b"), asking("qwen3:14b")
    models = vision.Models(usual, [vision.Choice(3, 0, many), vision.Choice(1, 1000, large)])
    assert models.choose([10]) is usual
    assert models.choose([10, 10, 10]) is many
    assert models.choose([600, 600]) is large
    body = drawing.picture(TICKET)
    said: dict[str, Any] = {"title": "a.png", "kind": "image/png", "urgency": 2}
    first = await models.describe(body, scopes.SHOP, among=[len(body), 10, 10], **said)
    spent = answers.Spent()
    # Alone, as `/ingest/attachment` sends it, it would be another model's.
    assert await models.describe(body, scopes.SHOP, spent=spent, **said) == first
    assert (spent.calls, spent.kept) == (0, 1)
    [asked] = fake.requests(tag="kb.describe/v1")
    assert asked["model"] == "qwen2.5:7b"
    assert isinstance(first, image.Sight)


MAIL = (
    "From: Eva Mala <eva@customer.example>\nTo: core@acme.com\nSubject: Screenshot\n\nI saw this today.\n\n-- \nEva\n"
)
DIALOG = "Backup failed\n\nNo space is left on vega-7.\nPlease free 20 GB on its volume by 6 March 2026."
DASHBOARD = "Backups\n\nAll 14 backups of the week succeeded.\nThe volume of vega-7 has 20 GB of free space."


@pytest.mark.parametrize(
    ("text", "route", "deadline"),
    [(DIALOG, "LIFT_UP", datetime(2026, 3, 6, 23, 59, 59, tzinfo=UTC)), (DASHBOARD, "DONE", None)],
)
async def test_the_same_mail_with_other_words_in_its_picture_goes_another_way(
    kb: world.ObservedState, text: str, route: str, deadline: datetime | None
) -> None:
    sent = world.request(MAIL, kind="email", urn="email::m2", title="Screenshot", files=await attached(kb, text))
    reply, found = await qualified(kb, sent)
    assert found.routing_decision is not None
    assert (found.routing_decision.decision, reply.hints.suggested_deadline) == (route, deadline)


async def test_a_request_about_a_picture_that_cannot_be_read_asks_what_it_shows(kb: world.ObservedState) -> None:
    blurred = await kb.content.save(scopes.SHOP, drawing.picture(DIALOG, look="blurred"), "image/png")
    mail = MAIL.replace("I saw this today.", "Can you fix what the screenshot shows?")
    sent = world.request(mail, kind="email", files=[api.File(name="a.png", content_ref=blurred)])
    reply, _ = await qualified(kb, sent)
    assert reply.hints.questions == ["What does the image show? No writing in it can be read."]
