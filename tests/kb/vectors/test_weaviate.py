"""Vectors in a real Weaviate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from weaviate.collections.classes.filters import FilterReturn

from kb import errors, identity, selection
from kb.vectors import record, weaviate
from kb.vectors.weaviate import schema
from tests import ports
from tests.kb import scopes
from tests.kb.vectors import contract

pytestmark = pytest.mark.services


@pytest.fixture
def store(weaviate_store: weaviate.Store) -> weaviate.Store:
    return weaviate_store


class TestWeaviate(contract.Contract, contract.History):
    """The contract on the real thing."""


async def test_vectors_of_another_dimension_are_refused_with_a_remedy(store: weaviate.Store) -> None:
    await store.put(scopes.SHOP, [(contract.chunk(scopes.SHOP, "u:1", "one"), [1.0, 0.0, 0.0])], [])
    with pytest.raises(errors.Unconfigured) as caught:
        await store.put(scopes.SHOP, [(contract.chunk(scopes.SHOP, "u:2", "two"), [1.0, 0.0])], [])
    assert caught.value.field == "embedModel"


async def test_a_document_of_more_chunks_than_one_answer_holds_is_known_whole(store: weaviate.Store) -> None:
    store._most_rows = 10  # Weaviate's own limit is 10,000
    made = [contract.chunk(scopes.SHOP, "u:long", f"part {number}", ordinal=number) for number in range(25)]
    other = contract.chunk(scopes.SHOP, "u:short", "part")
    await store.put(scopes.SHOP, [(one, contract.point(1)) for one in (*made, other)], [])
    long, short = await asyncio.gather(
        store.known(scopes.SHOP, made[0].document_id), store.known(scopes.SHOP, other.document_id)
    )
    assert long == {one.id: one.revision(scopes.SHOP) for one in made}
    assert short.keys() == {other.id}


@pytest.mark.parametrize("limit", [1, 5, 25, 60, 100])
async def test_the_newest_of_many_are_found_without_sorting_all(store: weaviate.Store, limit: int) -> None:
    """Thirty at sixty-minute distances, thirty at one moment, and five that have no time."""
    store._most_sorted = 8
    day = datetime(2026, 3, 2, tzinfo=UTC)
    times = [*(day + timedelta(hours=n) for n in range(30)), *[day - timedelta(days=1)] * 30, *[None] * 5]
    made = [
        replace(
            contract.chunk(scopes.SHOP, f"u:{n:02}", f"text {n}"), observed_at=at.isoformat() if at is not None else ""
        )
        for n, at in enumerate(times)
    ]
    await store.put(scopes.SHOP, [(one, contract.point(1)) for one in made], [])
    expected = sorted(made, key=lambda one: (one.observed_at or "", ""), reverse=True)
    found = await store.newest(scopes.SHOP, selection.ALL, limit=limit)
    assert [one.observed_at for one in found] == [one.observed_at for one in expected[:limit]]
    assert len({one.id for one in found}) == len(found)


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
    assert contract.chunk_ids(await store.dense(scopes.SHOP, contract.point(1), limit=5)) == [made.id]


class Interrupted(weaviate.Store):
    """Something else happens before and after each of its deletions in a collection."""

    before: Callable[[], Awaitable[None]] | None = None
    after: Callable[[], Awaitable[None]] | None = None

    async def _delete(self, name: str, client_id: str, where: FilterReturn, *, history: bool = False) -> None:
        if self.before:
            await self.before()
        try:
            await super()._delete(name, client_id, where, history=history)
        finally:
            if self.after:
                await self.after()


@pytest.fixture
async def models(
    weaviate_server: tuple[str, int], weaviate_index: str
) -> AsyncIterator[tuple[weaviate.Store, Interrupted]]:
    """The stores of an earlier model and of today's in one index."""
    earlier = weaviate.Store(*weaviate_server, "earlier", index=weaviate_index)
    pair = earlier, Interrupted(*weaviate_server, "today", index=weaviate_index)
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


async def test_a_second_index_is_left_to_its_own_store_but_for_what_is_forgotten(
    models: tuple[weaviate.Store, Interrupted],
) -> None:
    earlier, today = models
    today._beside = (earlier._chunks_name, earlier._sentences_name)
    made = [contract.chunk(scopes.SHOP, "u:1", text) for text in ("one", "two")]
    for store in models:
        await store.put(scopes.SHOP, [(one, contract.point(1)) for one in made], [])
    await today.drop(scopes.SHOP, made[0].document_id, keep=[made[0].id])
    assert (await earlier.counts(scopes.SHOP), await today.counts(scopes.SHOP)) == ((2, 0), (1, 0))
    await today.drop(scopes.SHOP, made[0].document_id)
    assert (await earlier.counts(scopes.SHOP), await today.counts(scopes.SHOP)) == ((0, 0), (0, 0))


async def test_an_index_that_begins_empty_beside_another_models_is_logged(
    models: tuple[weaviate.Store, Interrupted],
) -> None:
    earlier, today = models
    with structlog.testing.capture_logs() as first:
        await earlier.ready()
    with structlog.testing.capture_logs() as second:
        await today.ready()
        today._complete = False
        await today.ready()
    assert first == []
    [said] = second
    assert (said["model"], said["others"]) == ("today", ["earlier"])


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


async def _described(store: weaviate.Store, description: str) -> None:
    """Give the collection of chunks another description; after each change Weaviate is read-only for a moment."""
    chunks = store._client.collections.use(store._chunks_name)
    await chunks.config.update(description=description)
    await schema._writable(chunks)


async def test_a_collection_that_takes_no_writes_is_brought_up_to_date_later(store: weaviate.Store) -> None:
    one = contract.chunk(scopes.SHOP, "u:1", "S Janou Novákovou.")
    await store.put(scopes.SHOP, [(one, contract.point(1))], [])
    await _described(store, "Jervis knowledge base, schema 2, embeddings of any")
    chunks = store._client.collections.use(store._chunks_name)
    await chunks.with_tenant("cacme").data.update(one.id, properties={"headingTerms": None, "textTerms": None})
    # As another replica's change of the collection, or a disk that is full, leaves it.
    await chunks.config.update_shards("READONLY", "cacme")
    store._complete = False
    with pytest.raises(errors.Away, match="read-only") as caught:
        await store.lexical(scopes.SHOP, "Nováková", limit=9)
    assert caught.value.retry_after is not None
    await chunks.config.update_shards("READY", "cacme")
    assert contract.chunk_ids(await store.lexical(scopes.SHOP, "Nováková", limit=9)) == [one.id]


async def test_a_changed_collection_takes_writes_at_once(store: weaviate.Store) -> None:
    """Each change of its description makes Weaviate refuse writes for a moment."""
    one = contract.chunk(scopes.SHOP, "u:1", "one")
    await store.put(scopes.SHOP, [(one, contract.point(1))], [])
    for _ in range(20):
        await _described(store, "Jervis knowledge base, schema 2, embeddings of any")
        store._complete = False
        await store.put(scopes.SHOP, [(one, contract.point(1))], [])


async def test_a_collection_of_schema_1_is_brought_up_to_date(store: weaviate.Store) -> None:
    made = [replace(contract.chunk(scopes.SHOP, "u:1", f"text {n}", ordinal=n)) for n in range(3)]
    made[0] = replace(made[0], observed_at="")
    await store.put(scopes.SHOP, [(one, contract.point(1)) for one in made], [])
    name, client = store._chunks_name, store._client
    chunks = client.collections.use(name)
    # As schema 1 left it: a description that says so, and no times as numbers.
    await _described(store, "Jervis knowledge base, schema 1, embeddings of any")
    for one in made:
        await chunks.with_tenant("cacme").data.update(one.id, properties={"observedMs": None})
    day = datetime(2026, 3, 2, tzinfo=UTC)
    dated = selection.Selection(since=day)
    assert await store.dense(scopes.SHOP, contract.point(1), limit=9, chosen=dated) == []
    store._complete = False
    found = await store.dense(scopes.SHOP, contract.point(1), limit=9, chosen=dated)
    assert set(contract.chunk_ids(found)) == {one.id for one in made[1:]}
    assert f"schema {schema.VERSION}" in ((await chunks.config.get()).description or "")


async def test_a_collection_of_schema_2_is_searched_by_its_words(store: weaviate.Store) -> None:
    made = [contract.chunk(scopes.SHOP, f"u:{n}", text) for n, text in enumerate(("S Janou Novákovou.", "請求書"))]
    await store.put(scopes.SHOP, [(one, contract.point(1)) for one in made], [])
    chunks = store._client.collections.use(store._chunks_name)
    # As schema 2 left it: no words of ours.
    await _described(store, "Jervis knowledge base, schema 2, embeddings of any")
    for one in made:
        properties = {"headingTerms": None, "textTerms": None}
        await chunks.with_tenant("cacme").data.update(one.id, properties=properties)
    assert await store.lexical(scopes.SHOP, "Nováková", limit=9) == []
    store._complete = False
    assert contract.chunk_ids(await store.lexical(scopes.SHOP, "Nováková", limit=9)) == [made[0].id]
    assert contract.chunk_ids(await store.lexical(scopes.SHOP, "請求", limit=9)) == [made[1].id]


async def test_words_are_made_again_when_diacritics_begin_or_cease_to_count(
    store: weaviate.Store, weaviate_server: tuple[str, int], weaviate_index: str
) -> None:
    one = contract.chunk(scopes.SHOP, "u:1", "Résumé")
    await store.put(scopes.SHOP, [(one, contract.point(1))], [])
    assert await store.lexical(scopes.SHOP, "resume", limit=9) != []
    exact = weaviate.Store(*weaviate_server, weaviate_index, index=weaviate_index, folded=False)
    found = [await exact.lexical(scopes.SHOP, query, limit=9) for query in ("résumé", "resume")]
    await exact.close()
    assert [[hit.chunk_id for hit in hits] for hits in found] == [[one.id], []]


async def test_a_collection_of_a_later_schema_is_refused(store: weaviate.Store) -> None:
    await store.put(scopes.SHOP, [(contract.chunk(scopes.SHOP, "u:1", "one"), contract.point(1))], [])
    chunks = store._client.collections.use(store._chunks_name)
    before = (await chunks.config.get()).description
    await chunks.config.update(description="Jervis, schema 99")
    store._complete = False
    with pytest.raises(errors.Unconfigured, match="schema version 99"):
        await store.dense(scopes.SHOP, contract.point(1), limit=1)
    await chunks.config.update(description=before)
    assert len(await store.dense(scopes.SHOP, contract.point(1), limit=1)) == 1


async def test_collections_of_schema_2_keep_what_they_hold_and_learn_of_versions(
    store: weaviate.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = contract.chunk(scopes.SHOP, "u:1", "Jana does the login")
    line = contract.sentence(made, "Jana does the login")
    later = {"sinceMs", "untilMs", "headingTerms", "textTerms", "metadata", "labels"}
    whole = {name: list(getattr(schema, name)) for name in ("CHUNK", "SENTENCE")}
    try:
        # As schema 2 made them.
        for name, properties in whole.items():
            getattr(schema, name)[:] = [one for one in properties if one.name not in later]
        monkeypatch.setattr(schema, "VERSION", 2)
        await store.ready()
    finally:
        for name, properties in whole.items():
            getattr(schema, name)[:] = properties
        monkeypatch.undo()
    objects = (
        (store._chunks_name, made.id, record.of_chunk(scopes.SHOP, made, "any", 8, folded=True)),
        (store._sentences_name, line.id, record.of_sentence(scopes.SHOP, line, "any", 8)),
    )
    for collection, key, row in objects:
        old = {field: value for field, value in row.items() if field not in later}
        tenant = store._client.collections.use(collection).with_tenant("cacme")
        await tenant.data.insert(old, uuid=key, vector=contract.point(1))
    store._complete = False
    then = selection.Selection(as_of=contract.at(3))
    assert contract.chunk_ids(await store.dense(scopes.SHOP, contract.point(1), limit=5, chosen=then)) == [made.id]
    ended = selection.millis(contract.at(5))
    await store.keep(scopes.SHOP, "v", None, ended, chunk_ids=[made.id], sentence_ids=[line.id])
    await store.drop(scopes.SHOP, made.document_id, keep=["11111111-1111-4111-8111-111111111111"])
    found = await store.dense(scopes.SHOP, contract.point(1), limit=5, chosen=then)
    assert contract.chunk_ids(found) == [identity.past("v", made.id)]
    found = await store.lexical(scopes.SHOP, "logins", limit=5, chosen=then)
    assert contract.chunk_ids(found) == [identity.past("v", made.id)], "the words of before can be searched"
    await store.expire("acme", ended + 1)
    assert await store.audit("acme") == ([], None)
    assert await store.audit_sentences("acme") == ([], None)
