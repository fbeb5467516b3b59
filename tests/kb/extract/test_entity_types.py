"""Entity types of a client's own: what the model is told, whose they are, and what a change does to old documents."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from crds import scope
from kb import api, client, mongo, visibility
from kb.extract import entity_types, prompt
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.service import whole

pytestmark = pytest.mark.services
DRUG = entity_types.EntityType("medicine", "a drug or its active substance")
WARD = entity_types.EntityType("ward", "a part of a hospital")
TEXT = "Ibuprofen helps in ward 7."
ANSWER = {"entities": [{"name": "Ibuprofen", "type": "medicine", "description": ""}], "relationships": []}


@pytest.fixture
def registry(database: mongo.Database, clock: clocks.Clock) -> entity_types.Mongo:
    return entity_types.Mongo(database, clock)


@pytest.fixture
async def kb(
    open_world: world.Opening, clock: clocks.Clock, registry: entity_types.Mongo
) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=aliases_memory.Registry(clock), types=registry) as made:
        yield made


def told(fake: process.Fake) -> list[str]:
    """The system messages of the extractions that were asked for."""
    asked = fake.requests(path="/api/chat", tag=prompt.EXTRACT)
    return [one["body"]["messages"][0]["content"] for one in asked]


def drafted(where: scope.Scope, *types: entity_types.EntityType) -> api.EntityTypesDraft:
    named: list[Any] = [{"name": one.name, "description": one.description} for one in types]
    return api.EntityTypesDraft(scope=where, types=named, by="jana")


def document(**more: Any) -> Any:
    return world.request(TEXT, **{"title": "Round", "kind": "note", "urn": "note:1", **more})


async def test_the_model_is_told_and_its_answer_is_keyed_by_the_type(
    kb: world.ObservedState, registry: entity_types.Mongo, fake: process.Fake
) -> None:
    await registry.put(scopes.ACME, [WARD, DRUG], "jana")
    fake.set_script({prompt.EXTRACT: [json.dumps(ANSWER)]})
    reply = await kb.ingest(document())
    assert "medicine:ibuprofen" in reply.node_keys
    [system] = told(fake)
    assert system.splitlines()[-3:-1] == [
        "- medicine: a drug or its active substance",
        "- ward: a part of a hospital",
    ]


async def test_without_types_the_prompt_is_what_it_was(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(document())
    before, _, shape = told(fake)[0].rpartition("\n")
    assert before.endswith("Answer with JSON only.")
    assert shape.startswith("Answer with one JSON object and nothing else: ")


async def test_a_change_counts_for_what_is_sent_from_then_on(
    kb: world.ObservedState, registry: entity_types.Mongo, clock: clocks.Clock, fake: process.Fake
) -> None:
    await kb.ingest(document())
    await kb.ingest(document())
    assert len(told(fake)) == 1, "the answer was kept"
    before = await kb.state()
    clock.advance(seconds=1)
    await registry.put(scopes.SHOP, [DRUG], "jana")
    assert await kb.state() == before, "an old document stays as it was extracted"
    await kb.ingest(document())
    assert len(told(fake)) == 2, "sent again, it is extracted with the types of now"
    clock.advance(seconds=1)
    await registry.put(scopes.SHOP, [], "jana")
    await kb.ingest(document())
    assert len(told(fake)) == 2, "the first answer is kept still"


async def test_an_alias_has_no_old_document_extracted_anew(
    kb: world.ObservedState, registry: entity_types.Mongo, clock: clocks.Clock, fake: process.Fake
) -> None:
    await registry.put(scopes.ACME, [DRUG], "jana")
    fake.set_script({prompt.EXTRACT: [json.dumps(ANSWER)]})
    await kb.ingest(document())
    for types in ([DRUG, WARD], []):
        clock.advance(seconds=1)
        await registry.put(scopes.ACME, types, "jana")
    await kb.merger.merge(scopes.SHOP, "medicine:ibuprofen", "medicine:ibuprofen lysine", "jana")
    [waiting] = (await kb.queue.listed(scopes.SHOP, limit=10))[0]
    found = await kb.queue.find(waiting.document_id)
    assert found is not None
    await kb.pipeline.perform(*found)
    assert len(told(fake)) == 1
    nodes = await kb.graph.nodes(scopes.SHOP, node_type="medicine", limit=10)
    assert [one.key for one in nodes] == ["medicine:ibuprofen lysine"]


async def test_they_hold_where_rules_and_aliases_do(registry: entity_types.Mongo) -> None:
    owners = [scopes.GLOBAL, scopes.ACME, scopes.RETAIL, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.OTHER]
    for owner in owners:
        await registry.put(owner, [entity_types.EntityType("medicine", str(owner))], "jana")
    for viewer in owners:
        holding = await registry.holding(viewer)
        assert {one.owner for one in holding} == {one for one in owners if visibility.governs(one, viewer)}
        [(owner, _, kind)] = entity_types.effective(holding)
        assert (owner, kind.description) == (viewer, str(viewer)), "the most specific one counts"
        assert entity_types.sets(holding)[0] == (kind,)


async def test_a_project_takes_its_types_into_another_group(registry: entity_types.Mongo) -> None:
    await registry.put(scopes.SHOP, [DRUG], "jana")
    moved = scopes.make("acme", "shop", "wholesale")
    await registry.put(moved, [WARD], "jana")
    assert [kind for _, _, kind in entity_types.effective(await registry.holding(scopes.SHOP))] == [WARD]


async def test_many_writers_lose_no_version(database: mongo.Database, clock: clocks.Clock) -> None:
    seconds = itertools.count()
    registry = entity_types.Mongo(database, lambda: clock() + timedelta(seconds=next(seconds)))
    types = [entity_types.EntityType(f"kind{number}", "x") for number in range(6)]
    await asyncio.gather(*(registry.put(scopes.ACME, [one], "jana") for one in types))
    [owned] = await registry.holding(scopes.ACME)
    assert {one.types[0].name for one in owned.versions} == {one.name for one in types}


async def test_the_endpoint_names_what_is_wrong(kb: world.ObservedState, database: mongo.Database) -> None:
    async with whole.over(kb, kb.meters, kb.clock, database=database) as (api, raw):
        made = await api.types.put(drafted(scopes.SHOP, DRUG))
        assert [(one.name, one.scope, one.by) for one in made] == [("medicine", scopes.SHOP, "jana")]
        assert await api.types.listed(scopes.BLOG) == []
        for name in ("customer", "people", "http"):
            with pytest.raises(client.Rejected) as caught:
                await api.types.put(drafted(scopes.SHOP, entity_types.EntityType(name, "x")))
            assert (caught.value.field, caught.value.status) == ("types.0.name", 422)
        shop = scopes.SHOP.model_dump(by_alias=True)
        for types, field in (
            ([{"name": "Medicine", "description": "x"}], "types.0.name"),
            ([{"name": "medicine", "description": ""}], "types.0.description"),
            ([{"name": "medicine", "description": "x"}] * 2, None),
            ([{"name": f"kind{number}", "description": "x"} for number in range(41)], "types"),
        ):
            answer = await raw.put("/api/v1/entity-types", json={"scope": shop, "types": types, "by": "jana"})
            assert (answer.status_code, answer.json()["error"].get("field")) == (422, field)
            assert "types" in answer.json()["error"]["message"]
        assert await api.types.put(drafted(scopes.SHOP)) == []
