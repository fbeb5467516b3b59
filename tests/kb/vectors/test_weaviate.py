"""Vectors in a real Weaviate."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from weaviate.collections.classes.filters import FilterReturn

from kb import errors, selection
from kb.vectors import record, weaviate
from kb.vectors.weaviate import schema
from tests.kb import conftest, ports, scopes
from tests.kb.vectors import contract

pytestmark = pytest.mark.services


@pytest.fixture
def store(weaviate_store: weaviate.Store) -> weaviate.Store:
    return weaviate_store


class TestWeaviate(contract.Contract):
    """The contract on the real thing."""


async def test_vectors_of_another_dimension_are_refused_with_a_remedy(store: weaviate.Store) -> None:
    await store.put(scopes.SHOP, [(contract.chunk(scopes.SHOP, "u:1", "one"), [1.0, 0.0, 0.0])], [])
    with pytest.raises(errors.Misconfigured) as caught:
        await store.put(scopes.SHOP, [(contract.chunk(scopes.SHOP, "u:2", "two"), [1.0, 0.0])], [])
    assert caught.value.field == "embedModel"


async def test_a_store_that_takes_nothing_for_now_is_away_and_no_failure_of_what_it_was_sent(
    store: weaviate.Store,
) -> None:
    """Weaviate goes read-only when its disk or its memory is nearly full; the driver then says that all failed."""
    first, second = (contract.chunk(scopes.SHOP, f"u:{n}", "text") for n in (1, 2))
    await store.put(scopes.SHOP, [(first, contract.point(1))], [])
    shards = store._client.collections.use(store._chunks_name).config
    tenant = record.tenant(scopes.SHOP.client_id)
    await shards.update_shards("READONLY", tenant)
    with pytest.raises(errors.Away, match="read-only"):
        await store.put(scopes.SHOP, [(second, contract.point(1))], [])
    await shards.update_shards("READY", tenant)
    await store.put(scopes.SHOP, [(second, contract.point(1))], [])
    assert (await store.chunks(scopes.SHOP, [first.id, second.id])).keys() == {first.id, second.id}


async def test_collections_that_were_lost_are_made_again(store: weaviate.Store) -> None:
    made = contract.chunk(scopes.SHOP, "u:1", "one")
    await store.put(scopes.SHOP, [(made, contract.point(1))], [])
    await store.destroy()
    with pytest.raises(errors.Away):
        await store.dense(scopes.SHOP, contract.point(1), limit=5)
    assert await store.dense(scopes.SHOP, contract.point(1), limit=5) == []
    await store.put(scopes.SHOP, [(made, contract.point(1))], [])
    assert [hit.chunk_id for hit in await store.dense(scopes.SHOP, contract.point(1), limit=5)] == [made.id]


class Interrupted(weaviate.Store):
    """Something else happens before and after each of its deletions in a collection."""

    before: Callable[[], Awaitable[None]] | None = None
    after: Callable[[], Awaitable[None]] | None = None

    async def _delete(self, name: str, client_id: str, where: FilterReturn) -> None:
        if self.before:
            await self.before()
        try:
            await super()._delete(name, client_id, where)
        finally:
            if self.after:
                await self.after()


@pytest.fixture
async def models() -> AsyncIterator[tuple[weaviate.Store, Interrupted]]:
    """The stores of an earlier model and of today's in one index."""
    server = conftest.required("JERVIS_TEST_WEAVIATE_URL"), int(conftest.required("JERVIS_TEST_WEAVIATE_GRPC_PORT"))
    index = uuid.uuid4().hex
    pair = weaviate.Store(*server, "earlier", index=index), Interrupted(*server, "today", index=index)
    yield pair
    for one in pair:
        await one.destroy()
        await one.close()


async def test_an_earlier_models_collections_may_be_cleared_away_while_a_document_is_dropped(
    models: tuple[weaviate.Store, Interrupted],
) -> None:
    earlier, today = models
    made = contract.chunk(scopes.SHOP, "u:1", "one")
    for one in models:
        await one.put(scopes.SHOP, [(made, contract.point(1))], [(contract.sentence(made, "one"), contract.point(1))])
    today.before = earlier.destroy
    await today.drop(scopes.SHOP, made.document_id)
    assert await today.counts(scopes.SHOP) == (0, 0)


async def test_an_earlier_models_collection_that_is_there_after_all_is_not_passed_over(
    models: tuple[weaviate.Store, Interrupted],
) -> None:
    """As where one server has not loaded it yet: the document would come back with that model."""
    earlier, today = models
    made = contract.chunk(scopes.SHOP, "u:1", "one")

    async def come_back() -> None:
        earlier._complete = False
        await earlier.ready()

    await earlier.ready()
    await today.put(scopes.SHOP, [(made, contract.point(1))], [])
    today.before, today.after = earlier.destroy, come_back
    with pytest.raises(errors.Away, match="does not have"):
        await today.drop(scopes.SHOP, made.document_id)
    today.before = today.after = None
    await today.drop(scopes.SHOP, made.document_id)
    assert await today.counts(scopes.SHOP) == (0, 0)


async def test_todays_collections_do_not_go_unnoticed(models: tuple[weaviate.Store, Interrupted]) -> None:
    """With them went what has just been stored for the document: it has to be stored again."""
    _, today = models
    made = contract.chunk(scopes.SHOP, "u:1", "one")
    today.before = today.destroy
    for _ in ("while it is dropped", "before they are listed"):
        await today.put(scopes.SHOP, [(made, contract.point(1))], [])
        if today.before is None:
            await today.destroy()
        with pytest.raises(errors.Away, match="does not have"):
            await today.drop(scopes.SHOP, made.document_id, keep=[made.id])
        today.before = None
    await today.put(scopes.SHOP, [(made, contract.point(1))], [])
    await today.drop(scopes.SHOP, made.document_id, keep=[made.id])
    assert await today.counts(scopes.SHOP) == (1, 0)


async def test_documents_that_are_looked_up_at_once_are_kept_apart(store: weaviate.Store) -> None:
    made = [contract.chunk(owner, f"u:{n}", "text") for n in range(9) for owner in (scopes.SHOP, scopes.OTHER)]
    for one, owner in zip(made, [scopes.SHOP, scopes.OTHER] * 9, strict=True):
        await store.put(owner, [(one, contract.point(1))], [])
    known = await asyncio.gather(*(store.known(scopes.SHOP, one.document_id) for one in made))
    assert [list(found) for found in known] == [[one.id] if n % 2 == 0 else [] for n, one in enumerate(made)]


async def test_a_word_in_the_heading_counts_beside_the_text(store: weaviate.Store) -> None:
    neither, text, heading = (contract.chunk(scopes.SHOP, f"u:{n}", said) for n, said in enumerate(("x", "till", "y")))
    both = replace(contract.chunk(scopes.SHOP, "u:3", "till"), heading="The till")
    made = [neither, text, replace(heading, heading="The till"), both]
    await store.put(scopes.SHOP, [(one, contract.point(1)) for one in made], [])
    hits = {hit.chunk_id: hit.score for hit in await store.lexical(scopes.SHOP, "till", limit=9)}
    assert hits.keys() == {text.id, heading.id, both.id}
    assert hits[both.id] == pytest.approx(hits[text.id] + hits[heading.id])


async def test_more_objects_than_one_batch(store: weaviate.Store) -> None:
    made = [contract.chunk(scopes.SHOP, "u:1", f"text {n}", ordinal=n) for n in range(650)]
    lines = [contract.sentence(one, one.text) for one in made]
    await store.put(
        scopes.SHOP,
        [(one, contract.point(1, n / 650)) for n, one in enumerate(made)],
        [(line, contract.point(1)) for line in lines],
    )
    assert len(await store.known(scopes.SHOP, made[0].document_id)) == 650
    assert len(await store.chunks(scopes.SHOP, [one.id for one in made])) == 650
    assert len(await store.cosines(scopes.SHOP, contract.point(1), [line.id for line in lines])) == 650
    assert len(await store.known_sentences(scopes.SHOP, [line.id for line in lines])) == 650
    await store.drop(scopes.SHOP, made[0].document_id, keep=[one.id for one in made[:600]])
    assert await store.counts(scopes.SHOP) == (600, 600)


async def test_a_server_that_is_not_there_is_away() -> None:
    store = weaviate.Store(f"http://127.0.0.1:{ports.free()}", ports.free(), "any")
    with pytest.raises(errors.Away, match="weaviate"):
        await store.dense(scopes.SHOP, [1.0], limit=1)
    with pytest.raises(errors.Away, match="weaviate"):
        await store.ready()
    await store.close()


async def test_a_collection_of_schema_1_is_brought_up_to_date(store: weaviate.Store) -> None:
    made = [replace(contract.chunk(scopes.SHOP, "u:1", f"text {n}", ordinal=n)) for n in range(3)]
    made[0] = replace(made[0], observed_at="")
    await store.put(scopes.SHOP, [(one, contract.point(1)) for one in made], [])
    name, client = store._chunks_name, store._client
    chunks = client.collections.use(name)
    # As schema 1 left it: a description that says so, and no times as numbers.
    await chunks.config.update(description="Jervis knowledge base, schema 1, embeddings of any")
    for one in made:
        await chunks.with_tenant("cacme").data.update(one.id, properties={"observedMs": None})
    day = datetime(2026, 3, 2, tzinfo=UTC)
    dated = selection.Selection(since=day)
    assert await store.dense(scopes.SHOP, contract.point(1), limit=9, chosen=dated) == []
    store._complete = False
    found = await store.dense(scopes.SHOP, contract.point(1), limit=9, chosen=dated)
    assert {hit.chunk_id for hit in found} == {one.id for one in made[1:]}
    assert f"schema {schema.VERSION}" in ((await chunks.config.get()).description or "")


async def test_a_collection_of_a_later_schema_is_refused(store: weaviate.Store) -> None:
    await store.put(scopes.SHOP, [(contract.chunk(scopes.SHOP, "u:1", "one"), contract.point(1))], [])
    chunks = store._client.collections.use(store._chunks_name)
    before = (await chunks.config.get()).description
    await chunks.config.update(description="Jervis, schema 99")
    store._complete = False
    with pytest.raises(errors.Misconfigured, match="schema version 99"):
        await store.dense(scopes.SHOP, contract.point(1), limit=1)
    await chunks.config.update(description=before)
    assert len(await store.dense(scopes.SHOP, contract.point(1), limit=1)) == 1
