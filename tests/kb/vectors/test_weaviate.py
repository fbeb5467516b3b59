"""Vectors in a real Weaviate."""

from __future__ import annotations

import pytest

from kb import errors
from kb.vectors import weaviate
from tests.kb import ports, scopes
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


async def test_collections_that_were_lost_are_made_again(store: weaviate.Store) -> None:
    made = contract.chunk(scopes.SHOP, "u:1", "one")
    await store.put(scopes.SHOP, [(made, contract.point(1))], [])
    await store.destroy()
    with pytest.raises(errors.Away):
        await store.dense(scopes.SHOP, contract.point(1), limit=5)
    assert await store.dense(scopes.SHOP, contract.point(1), limit=5) == []
    await store.put(scopes.SHOP, [(made, contract.point(1))], [])
    assert [hit.chunk.id for hit in await store.dense(scopes.SHOP, contract.point(1), limit=5)] == [made.id]


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
