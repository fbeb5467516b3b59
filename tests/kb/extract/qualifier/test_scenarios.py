"""The qualifier through the pipeline: types, chunks, routes, what is asked and what is not, and every failing phase."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from crds import errors as root
from crds.priority import Priority
from kb import api, identity, metrics
from kb.extract import answers
from kb.extract.qualifier import phases
from kb.ingest import build, request_record
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.service import serving

NOTE = "Petr Svoboda wrote module1.py for Globex.\n\n" + "It reads the orders of the shop. " * 40
ISSUE = (
    "JERV-77: The page is blank\nStatus: Open\nAssignee: Petr Svoboda\nReporter: Jana Novak\nSprint: Sprint 7\n\n"
    + ("The page of the orders is blank since the deploy. Please fix PageView.kt by 2026-04-15.\n")
)
PAGE = "Author: Jana Novak\nSpace: SHOP\n\nThe deploy runs at night. Petr Svoboda owns deploy.sh.\n"
LOG = "\n".join(
    [
        "2026-03-02 08:59:58 INFO Starting service orders",
        *(f"2026-03-02 09:00:{number:02} DEBUG Poll {number} of the queue took 3 ms" for number in range(50)),
        "2026-03-02 09:01:00 WARN Connection to db-1 failed, trying again",
        "2026-03-02 09:01:02 ERROR OrderService.java:17 NullPointerException: no customer",
    ]
)
TYPES = {
    "EMAIL": ("email", "email::<m1@acme.com>", world.MAIL),
    "JIRA": ("issue", "jira::JERV-77", ISSUE),
    "CONFLUENCE": ("wiki", "confluence::SHOP::12", PAGE),
    "LOG": ("log", "log::orders", LOG),
    "GENERIC": ("note", "note::1", NOTE),
}


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    async with open_world(chunk_chars=900) as made:
        yield made


def document(type_: str, **more: Any) -> api.IngestRequest:
    kind, urn, text = TYPES[type_]
    return world.request(text, **({"kind": kind, "urn": urn, "title": "A title"} | more))


async def qualified(kb: world.ObservedState, request: api.IngestRequest) -> tuple[api.IngestReply, api.Qualification]:
    reply = await kb.ingest(request)
    found = reply.qualification
    assert found is not None
    assert found.processed_chunk_count == len(reply.chunk_ids)
    assert found.routing_decision is not None
    assert found.extraction.content_type is found.content_type
    return reply, found


async def test_a_text_of_no_type_costs_what_it_cost_before_there_were_types(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    reply, found = await qualified(kb, document("GENERIC"))
    assert isinstance(found.extraction, api.GenericExtraction)
    assert list(found.extraction.chunks) == reply.chunk_ids
    assert found.routing_decision == api.RoutingDecision(decision="DONE", reason=reply.hints.reason)
    assert (found.errors, found.vision) == ((), api.VisionContext())
    assert len(reply.chunk_ids) > 1
    assert fake.count(path="/api/chat") == 1 + len(reply.chunk_ids)
    assert sum(one.calls for one in found.metrics.phases) == 1 + len(reply.chunk_ids)
    assert all(one.tokens for one in found.metrics.phases if one.calls)


async def test_a_mail_is_asked_for_what_its_headers_do_not_say(kb: world.ObservedState, fake: process.Fake) -> None:
    reply, found = await qualified(kb, document("EMAIL"))
    assert found.extraction == api.EmailExtraction(
        sender="Jana Novak <jana@acme.com>",
        recipients=("Core Team <core@acme.com>",),
        subject="A title",
        classification=api.EmailClassification.REQUEST,
    )
    assert found.routing_decision is not None
    assert found.routing_decision.decision == "LIFT_UP"
    [asked] = fake.requests(tag="kb.qualify.email/v2")
    assert "sender" not in asked["body"]["format"]["properties"]
    assert fake.count(path="/api/chat") == 1 + len(reply.chunk_ids)
    plain = "From the desk of Jana.\n\nPlease fix the build, Petr.\n\nSender: Jana Novak"
    _, found = await qualified(kb, world.request(plain))
    assert "sender" in fake.requests(tag="kb.qualify.email/v2")[-1]["body"]["format"]["properties"]
    assert isinstance(found.extraction, api.EmailExtraction)
    assert found.extraction.sender == "Jana Novak"


@pytest.mark.parametrize("kind", ["issue", "note"])
async def test_an_issue_is_known_by_its_kind_or_detected(
    kb: world.ObservedState, fake: process.Fake, kind: str
) -> None:
    _, found = await qualified(kb, document("JIRA", kind=kind))
    assert isinstance(found.extraction, api.JiraExtraction)
    assert (found.extraction.key, found.extraction.status, found.extraction.sprint) == ("JERV-77", "Open", "Sprint 7")
    assert found.base_node_key == "jira::JERV-77"
    assert fake.count(tag="kb.qualify.detect/v2") == (kind == "note")
    [node] = await kb.graph.nodes(scopes.SHOP, keys=["jira::JERV-77"])
    assert node.properties["assignee"] == "Petr Svoboda"
    assert node.properties["changeDescription"] == "Please fix PageView.kt by 2026-04-15."
    edges = {(kind, target) for _, kind, target in await kb.triples()}
    assert {("assigned_to", "person:petr svoboda"), ("in_sprint", "sprint:sprint 7")} <= edges


@pytest.mark.parametrize("kind", ["log", "note"])
async def test_a_log_is_three_chunks_and_its_raw_text_is_not_asked_about(
    kb: world.ObservedState, fake: process.Fake, kind: str
) -> None:
    reply, found = await qualified(kb, document("LOG", kind=kind))
    assert isinstance(found.extraction, api.LogSummarization)
    assert found.extraction.critical_details == (LOG.splitlines()[-1],)
    stored = await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)
    heads = [stored[one].text.partition(":")[0] for one in reply.chunk_ids]
    assert heads == ["Summary", "Key events", "Critical details"]
    assert fake.count(tag="kb.extract/v1") == 3
    assert fake.count(path="/api/chat") == 4 + (kind == "note")
    assert (await kb.ask("NullPointerException no customer")).items != []
    before = await kb.state()
    assert (await kb.ingest(document("LOG", kind=kind))).chunk_ids == reply.chunk_ids
    assert await kb.state() == before
    await kb.pipeline.forget(scopes.SHOP, TYPES["LOG"][1])
    assert (await kb.graph.counts(scopes.SHOP)).documents == 0


PROMPTS = {"EMAIL": "email/v2", "JIRA": "jira/v2", "CONFLUENCE": "confluence/v1", "LOG": "log/v1", "GENERIC": "none/v1"}
FAILING = ("kb.qualify.detect/v2", "kb.qualify.{}", "kb.hints/v2", "kb.extract/v1", "kb.*")


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("type_", TYPES)
async def test_it_ends_for_every_type_whatever_answer_cannot_be_used(
    kb: world.ObservedState, fake: process.Fake, meters: metrics.Metrics, type_: str, failing: str
) -> None:
    fake.set_faults([{"match": {"tag": failing.format(PROMPTS[type_])}, "malformed": "answer"}])
    reply, found = await qualified(kb, document(type_))
    hit = fake.count(tag=failing.format(PROMPTS[type_])) if failing != "kb.*" else 1
    assert bool(found.errors or reply.problems) == bool(hit)
    assert set(found.errors) <= set(reply.problems)
    lost = failing in ("kb.*", "kb.qualify.{}") and type_ != "GENERIC"
    # A log that cannot be summarized is judged by the shorter question; nothing else than its type is asked twice.
    assert bool(reply.hints.failure) == (failing == "kb.*" or (lost and type_ != "LOG"))
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}
    per_chunk = fake.count(tag="kb.extract/v1") / len(reply.chunk_ids)
    assert per_chunk <= answers.ATTEMPTS <= phases.MOST_CALLS
    passed = [one.phase for one in found.metrics.phases]
    assert passed == [one for one in api.QualifierPhase if one in passed]
    assert {api.QualifierPhase.EXTRACTION, api.QualifierPhase.CHUNKS, api.QualifierPhase.ROUTING} <= set(passed)
    counted = meters.registry.get_sample_value("jervis_kb_qualify_errors_total", {"phase": "extraction"})
    assert counted == sum(len(one.errors) for one in found.metrics.phases if one.phase == "extraction")


async def test_an_unknown_type_is_generic_and_counted(kb: world.ObservedState, fake: process.Fake) -> None:
    said = {
        "contentType": "FAX",
        "typeReason": "It beeps.",
        "hasActionableContent": False,
        "isAssignedToMe": False,
        "hasFutureDeadline": False,
        "urgency": "low",
        "summary": "A fax.",
        "reason": "It informs.",
    }
    fake.set_script({"kb.qualify.detect/v2": [said]})
    reply, found = await qualified(kb, document("GENERIC"))
    assert found.content_type is api.ContentType.GENERIC
    counted = {"prompt": "kb.qualify.detect/v2", "field": "contentType"}
    assert kb.meters.registry.get_sample_value("jervis_kb_answer_problems_total", counted) == 1
    assert (reply.summary, reply.hints.reason) == ("A fax.", "It informs.")


@pytest.mark.parametrize("tag", ["kb.qualify.email/v2", "kb.extract/v1"])
async def test_a_router_that_is_away_makes_the_document_wait_and_nothing_is_asked_twice(
    kb: world.ObservedState, fake: process.Fake, tag: str
) -> None:
    request = world.request(world.MAIL + "\n\n" + world.LONG)
    fake.set_faults([{"match": {"tag": tag}, "nth": 1, "status": {"code": 503, "retryAfter": 7}}])
    with pytest.raises(root.Operational) as caught:
        await kb.ingest(request)
    assert caught.value.retry_after == 7
    assert await kb.ledger.count() == {request_record.State.OPEN: 1}
    reply, found = await qualified(kb, request)
    assert found.errors == ()
    assert fake.count(path="/api/chat") == 2 + len(reply.chunk_ids)


async def test_every_chunk_is_part_of_the_base_node(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    reply, found = await qualified(kb, world.request(world.MAIL + "\n\n" + world.LONG))
    assert len(reply.chunk_ids) > 3
    held = await kb.graph.mentioned(scopes.SHOP, reply.chunk_ids)
    assert {one.chunk_id for one in held if one.node_key == found.base_node_key} == set(reply.chunk_ids)
    stored = await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)
    assert all(found.base_node_key in one.graph_refs for one in stored.values())
    async with serving.over(kb, meters) as (client, _):
        for chunk_id in reply.chunk_ids:
            said = (await calls.chunk(client, scopes.SHOP, chunk_id)).said
            places = {place for one in said if one.node_key == found.base_node_key for place in one.places}
            assert build.PART_OF in places


async def test_what_models_said_of_the_base_node_stays_when_the_same_text_comes_by_another_way(
    kb: world.ObservedState, clock: clocks.Clock
) -> None:
    await qualified(kb, document("JIRA"))
    [before] = await kb.graph.nodes(scopes.SHOP, keys=["jira::JERV-77"])
    versions = await kb.graph.versions(scopes.SHOP, identity.document(scopes.SHOP, "jira::JERV-77"))
    await kb.pipeline.index(document("JIRA"), Priority.P3)
    # Another day is another question to the model, and no other version.
    clock.advance(seconds=timedelta(days=2).total_seconds())
    await kb.ingest(document("JIRA"))
    [after] = await kb.graph.nodes(scopes.SHOP, keys=["jira::JERV-77"])
    assert after.properties == before.properties
    assert "changeDescription" in after.properties
    assert len(await kb.graph.versions(scopes.SHOP, versions[0].id)) == len(versions) == 1


async def test_a_task_without_a_source_has_the_node_that_its_content_names(kb: world.ObservedState) -> None:
    text = "Message-ID: <m9@acme.com>\n" + world.MAIL
    sent = world.request(text, urn="task::0b1e", metadata={"correlationId": "c1"})
    reply, found = await qualified(kb, sent)
    assert found.base_node_key == "email::m9@acme.com"
    assert "email::m9@acme.com" in reply.node_keys
    assert "email::0b1e" not in reply.node_keys
    await kb.pipeline.forget(scopes.SHOP, "task::0b1e")
    assert await kb.graph.nodes(scopes.SHOP) == []


async def test_the_client_reads_what_the_service_says(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    async with serving.over(kb, meters) as (client, http):
        found = (await client.ingest(document("JIRA"))).qualification
        assert found is not None
        assert isinstance(found.extraction, api.JiraExtraction)
        assert found.metrics.phases[-1].phase is api.QualifierPhase.ROUTING
        schema = (await http.get("/api/v1/openapi.json")).json()["components"]["schemas"]
        assert {"Qualification", "JiraExtraction", "PhaseMetrics"} <= set(schema)


async def test_a_run_that_is_given_up_leaves_no_call_behind(kb: world.ObservedState, fake: process.Fake) -> None:
    before = asyncio.all_tasks()
    async with world.stalled(fake, kb.ingest(document("EMAIL")), path="/api/chat") as running:
        await waiting.eventually(lambda: fake.count(path="/api/chat") == 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert [one for one in asyncio.all_tasks() - before if one is not running and "graph" in repr(one)] == []
    _, found = await qualified(kb, document("EMAIL"))
    assert found.errors == ()
