"""A version that was replaced stays as history, is found by asOf alone, and goes when its time is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb import api, errors, identity, selection
from kb.graph import model
from kb.ingest import history
from kb.upkeep import check
from kb.upkeep import history as upkeep
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def ticket(name: str, at: datetime | None, *, urn: str = "jira::JERV-1") -> api.IngestRequest:
    text = f"JERV-1 is about the login bug. {name} works on it.\n\njira:JERV-1|ASSIGNED_TO|user:{name}\n"
    return world.request(text, urn=urn, kind="jira", title="JERV-1", observed_at=at)


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    async with open_world(versions=2) as made:
        yield made


async def assignee(kb: world.ObservedState, at: datetime | None) -> list[str]:
    said = await kb.graph.relationships(scopes.SHOP, edge_type="assigned_to", as_of=at)
    return [one.edge.target for one in said if one.edge]


async def test_a_ticket_that_was_updated_is_answered_as_it_was(kb: world.ObservedState) -> None:
    await kb.ingest(ticket("jana", day(2)))
    before = await kb.ask("Who works on the login bug?", as_of=day(3))
    await kb.ingest(ticket("petr", day(5)))
    after = await kb.ask("Who works on the login bug?", as_of=day(3))
    assert [item.content for item in after.items] == [item.content for item in before.items]
    assert [item.confidence for item in after.items] == [item.confidence for item in before.items]
    [item] = after.items
    assert item.provenance.valid_until == day(5)
    assert before.items[0].provenance.valid_until is None
    [now] = (await kb.ask("Who works on the login bug?")).items
    assert "petr" in now.content
    assert "jana" not in now.content
    assert (await kb.ask("Who works on the login bug?", as_of=day(1))).items == []
    assert (await assignee(kb, day(3)), await assignee(kb, None)) == (["user:jana"], ["user:petr"])
    assert (await check.Checker(kb.graph, kb.vectors, kb.ledger.working).look("acme")).findings == []


async def test_the_same_document_again_makes_no_version(kb: world.ObservedState, clock: clocks.Clock) -> None:
    await kb.ingest(ticket("jana", day(2)))
    once = await kb.graph.versions(scopes.SHOP, identity.document(scopes.SHOP, "jira::JERV-1"))
    clock.advance(minutes=1)
    await kb.ingest(ticket("jana", day(2)))
    await kb.intake.take(ticket("jana", day(2)), None)
    assert await kb.graph.versions(scopes.SHOP, once[0].id) == once


async def test_a_document_without_a_time_changes_when_it_is_ingested(kb: world.ObservedState) -> None:
    await kb.ingest(ticket("jana", None))
    kb.clock.advance(hours=1)
    turn = kb.clock()
    await kb.ingest(ticket("petr", None))
    before = turn - timedelta(seconds=1)
    assert (await assignee(kb, before), await assignee(kb, turn)) == (["user:jana"], ["user:petr"])
    assert len((await kb.ask("Who works on the login bug?", as_of=before)).items) == 1


async def test_the_oldest_versions_of_a_document_go_and_those_of_long_ago(kb: world.ObservedState) -> None:
    for number, name in ((2, "jana"), (3, "petr"), (4, "iva"), (5, "ota")):
        await kb.ingest(ticket(name, day(number)))
        await kb.ingest(ticket(name, day(number)))
    listed = await kb.graph.versions(scopes.SHOP, identity.document(scopes.SHOP, "jira::JERV-1"))
    assert [one.document.until_ms for one in listed] == [None, *(selection.millis(day(number)) for number in (5, 4))]
    assert (await assignee(kb, day(2)), await assignee(kb, day(3))) == ([], ["user:petr"])
    kb.clock.advance(days=30)
    age = kb.clock() - day(4)
    assert await upkeep.Keeper(kb.graph, kb.vectors, kb.meters, kb.clock, keep=age - timedelta(hours=1)).sweep() == 1
    assert (await assignee(kb, day(3)), await assignee(kb, day(4))) == ([], ["user:iva"])
    assert kb.meters.registry.get_sample_value("jervis_kb_expired_versions_total") == 1
    assert (await check.Checker(kb.graph, kb.vectors, kb.ledger.working).look("acme")).findings == []


async def test_without_a_history_an_update_replaces_and_nothing_is_kept(open_world: world.Opening) -> None:
    stores = (memory.Vectors(), memory.Content())
    async with open_world(*stores, versions=2) as before:
        await before.ingest(ticket("jana", day(2)))
        await before.ingest(ticket("petr", day(5)))
    async with open_world(*stores, versions=0) as kb:
        # What was kept before the setting was changed goes with the next ingest, or with the keeper.
        await kb.ingest(ticket("iva", day(7)))
        assert (await assignee(kb, day(6)), await assignee(kb, None)) == ([], ["user:iva"])
        [version] = await kb.graph.versions(scopes.SHOP, identity.document(scopes.SHOP, "jira::JERV-1"))
        assert version.document.until_ms is None
        assert len((await kb.vectors.audit("acme"))[0]) == 1


async def test_a_document_that_is_forgotten_takes_its_past_along(kb: world.ObservedState) -> None:
    await kb.ingest(ticket("jana", day(2)))
    await kb.ingest(ticket("petr", day(5)))
    assert await kb.pipeline.forget(scopes.SHOP, "jira::JERV-1")
    assert (await kb.ask("Who works on the login bug?", as_of=day(3))).items == []
    assert await kb.graph.audit("acme") == ([], None)
    assert await kb.vectors.audit("acme") == ([], None)
    assert await kb.vectors.audit_sentences("acme") == ([], None)


@pytest.mark.parametrize("step", range(12))
async def test_an_update_that_breaks_off_anywhere_ends_in_the_same_past(kb: world.ObservedState, step: int) -> None:
    store: Any = kb.vectors
    await kb.ingest(ticket("jana", day(2)))
    store.switch.fail_after = step
    try:
        await kb.ingest(ticket("petr", day(5)))
    except errors.Away:
        store.switch.fail_after = None
        await kb.ingest(ticket("petr", day(5)))
    store.switch.fail_after = None
    assert (await assignee(kb, day(3)), await assignee(kb, None)) == (["user:jana"], ["user:petr"])
    assert len((await kb.ask("Who works on the login bug?", as_of=day(3))).items) == 1
    assert (await check.Checker(kb.graph, kb.vectors, kb.ledger.working).look("acme")).findings == []


def version(revision: str, observed: int | None, since: int | None = None) -> model.Version:
    return model.Version("d", model.Document("d", "u:1", "email", "", observed, since), revision, ("c:1",))


def patch(revision: str, observed: int | None) -> model.Patch:
    return model.Patch(model.Document("d", "u:1", "email", "", observed), ("c:2",), (), (), revision=revision)


@pytest.mark.parametrize(
    ("present", "observed", "begins", "ends"),
    [
        (version("a", 10), 20, 20, 20),  # the source says when
        (version("a", 10), 10, 99, 99),  # it says nothing new: now
        (version("a", 10), None, 99, 99),
        (version("a", None), 20, 20, 20),
        (version("a", None), None, 99, 99),
        (version("a", 200), 10, 200, None),  # dated in the future: it held at no moment
        (version("b", 10), 20, 10, None),  # told again: goes on
        (version("b", 10, 5), 20, 5, None),
        (version("b", None), 20, None, None),
        (None, 20, 20, None),
    ],
)
def test_when_a_version_begins(
    present: model.Version | None, observed: int | None, begins: int | None, ends: int | None
) -> None:
    made = history.succeed(present, patch("b", observed), 99)
    assert made.document.start_ms == begins
    assert (made.keep.until_ms if made.keep else None) == ends
