"""A document that says what an earlier one said is connected with it, stored and judged all the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import scope
from kb import api
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.extract.test_likeness import EN, mail

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)


def sent(number: int, text: str = EN, owner: scope.Scope = scopes.SHOP, **more: Any) -> api.IngestRequest:
    filled: dict[str, Any] = {
        "urn": f"email::<{number}@acme.example>",
        "title": "Maintenance",
        "observed_at": AT + timedelta(hours=number),
        "metadata": {"taskUid": f"task-{number}"},
    }
    return world.request(mail(text, number=number), owner=owner, **(filled | more))


async def duplicates(kb: world.ObservedState, viewer: scope.Scope = scopes.SHOP) -> set[tuple[str, str]]:
    edges = await kb.graph.edges(viewer)
    return {(one.edge.source, one.edge.target) for one in edges if one.edge.type == "duplicate_of"}


async def test_it_is_connected_and_named_and_nothing_is_left_out(kb: world.ObservedState, fake: process.Fake) -> None:
    first = await kb.ingest(sent(1))
    second = await kb.ingest(sent(2))
    assert first.duplicate is None
    assert second.duplicate == api.Duplicate(
        source_urn="email::<1@acme.example>", task_uid="task-1", title="Maintenance", share=1.0
    )
    assert second.chunk_ids != []
    assert second.hints == first.hints
    pair = {("email::2@acme.example", "email::1@acme.example")}
    assert await duplicates(kb) == pair
    [proof] = await kb.graph.relationships(scopes.SHOP, edge_type="duplicate_of")
    assert proof.chunk_id in second.chunk_ids
    # Read again, in any order, they are connected in the same direction, and no model is asked.
    asked = fake.count(path="/api/chat")
    assert (await kb.ingest(sent(1))).duplicate is None
    assert (await kb.ingest(sent(2))).duplicate == second.duplicate
    assert (await duplicates(kb), fake.count(path="/api/chat")) == (pair, asked)
    await kb.pipeline.forget(scopes.SHOP, sent(2).source_urn)
    assert await duplicates(kb) == set()


async def test_a_page_that_repeats_a_mail_has_a_node_for_it(kb: world.ObservedState) -> None:
    await kb.ingest(sent(1))
    page = await kb.ingest(
        world.request(f"Maintenance\n\n{EN}", kind="note", urn="note::7", title="", observed_at=AT + timedelta(days=1))
    )
    assert page.duplicate is not None
    assert page.duplicate.share > 0.9
    assert await duplicates(kb) == {("note::7", "email::1@acme.example")}


@pytest.mark.parametrize(
    "second",
    [
        sent(2, owner=scopes.OTHER),
        sent(2, owner=scopes.BLOG),
        sent(2, text=EN.replace("28 November", "5 December")),
        sent(2, observed_at=None),
        sent(2, observed_at=AT - timedelta(days=1)),
    ],
)
async def test_another_client_another_day_and_an_earlier_one_are_not(
    kb: world.ObservedState, second: api.IngestRequest
) -> None:
    await kb.ingest(sent(1))
    reply = await kb.ingest(second)
    assert (reply.duplicate, reply.chunk_ids != []) == (None, True)
    assert await duplicates(kb, second.scope) == set()


async def test_within_its_group_a_project_sees_what_another_one_has(kb: world.ObservedState) -> None:
    await kb.ingest(sent(1))
    assert (await kb.ingest(sent(2, owner=scopes.TILL))).duplicate is not None
