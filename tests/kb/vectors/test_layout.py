"""How Weaviate keeps vectors is a setting: what a new collection gets, and what one that is there takes or refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from kb import errors
from kb.vectors import weaviate
from kb.vectors.weaviate import schema
from tests.kb import scopes
from tests.kb.vectors import contract

pytestmark = pytest.mark.services
Opened = Callable[[schema.Layout], weaviate.Store]
ONE, TWO = (contract.chunk(scopes.SHOP, f"u:{number}", f"text {number}") for number in (1, 2))
LINE = contract.sentence(ONE, "text 1")


@pytest.fixture
async def opened(weaviate_server: tuple[str, int], weaviate_index: str) -> AsyncIterator[Opened]:
    """Stores of one index, as a process that is started again with other settings has them."""
    stores: list[weaviate.Store] = []

    def make(layout: schema.Layout) -> weaviate.Store:
        stores.append(weaviate.Store(*weaviate_server, weaviate_index, index=weaviate_index, layout=layout))
        return stores[-1]

    yield make
    # Not by the stores: they do not open what they refuse.
    await stores[0]._client.collections.delete([stores[0]._chunks_name, stores[0]._sentences_name])
    for one in stores:
        await one.close()


async def _fill(store: weaviate.Store) -> None:
    await store.put(scopes.SHOP, [(ONE, contract.point(1)), (TWO, contract.point(0, 1))], [(LINE, contract.point(1))])


async def _finds(store: weaviate.Store) -> bool:
    hits = await store.dense(scopes.SHOP, contract.point(1, 0.1), limit=5)
    [cosine] = (await store.cosines(scopes.SHOP, contract.point(1), [LINE.id])).values()
    return contract.chunk_ids(hits) == [ONE.id, TWO.id] and cosine == pytest.approx(1.0, abs=1e-6)


async def _index(store: weaviate.Store, name: str) -> dict[str, object]:
    config = await store._client.collections.use(name).config.get()
    assert config.vector_config is not None
    own = config.vector_config["default"].vector_index_config
    found = {"index": own.vector_index_type(), "quantization": schema._quantized(own)}
    return found | {name: getattr(own, name, None) for name in ("ef", "ef_construction", "max_connections")}


@pytest.mark.parametrize(
    "layout",
    [
        schema.Layout(quantization="rq", ef=77, ef_construction=64, max_connections=16),
        schema.Layout(index="flat", sentences="flat", quantization="bq"),
    ],
    ids=["hnsw", "flat"],
)
async def test_a_new_collection_is_made_as_the_settings_say(opened: Opened, layout: schema.Layout) -> None:
    store = opened(layout)
    await _fill(store)
    assert await _finds(store)
    assert await _index(store, store._chunks_name) == {
        "index": layout.index,
        "quantization": layout.quantization,
        "ef": layout.ef,
        "ef_construction": layout.ef_construction,
        "max_connections": layout.max_connections,
    }
    assert (await _index(store, store._sentences_name))["index"] == layout.sentences
    assert await _finds(opened(layout)), "the same settings find it as they left it"


async def test_what_can_be_changed_is_changed_in_what_is_there(opened: Opened) -> None:
    await _fill(opened(schema.Layout()))
    changed = opened(schema.Layout(quantization="sq", ef=99))
    assert await _finds(changed)
    found = await _index(changed, changed._chunks_name)
    assert (found["quantization"], found["ef"]) == ("sq", 99)


@pytest.mark.parametrize(
    ("first", "then", "field"),
    [
        ({}, {"index": "flat"}, "weaviateIndex"),
        ({}, {"sentences": "flat"}, "weaviateSentenceIndex"),
        ({}, {"ef_construction": 64}, "weaviateEfConstruction"),
        ({}, {"max_connections": 8}, "weaviateMaxConnections"),
        ({}, {"replicas": 2}, "weaviateReplicas"),
        ({"quantization": "rq"}, {}, "weaviateQuantization"),
        ({"quantization": "rq"}, {"quantization": "bq"}, "weaviateQuantization"),
        ({"index": "flat"}, {"index": "flat", "quantization": "bq"}, "weaviateQuantization"),
    ],
)
async def test_what_cannot_be_changed_is_refused_by_name(
    opened: Opened, first: dict[str, object], then: dict[str, object], field: str
) -> None:
    before = opened(replace(schema.Layout(), **first))  # type: ignore[arg-type]
    await _fill(before)
    after = opened(replace(schema.Layout(), **then))  # type: ignore[arg-type]
    with pytest.raises(errors.Unconfigured) as caught:
        await after.ready()
    assert caught.value.field == field
    assert "Set " in caught.value.remedy
    assert await _finds(before), "what is there stays as it was"


@pytest.mark.parametrize(
    ("layout", "field", "remedy"),
    [
        (schema.Layout(index="dynamic", threshold=100), "weaviateIndex", "ASYNC_INDEXING"),
        (schema.Layout(replicas=2), "weaviateReplicas", "nodes"),
    ],
    ids=["dynamic", "replicas"],
)
async def test_what_the_server_cannot_do_is_named(
    opened: Opened, layout: schema.Layout, field: str, remedy: str
) -> None:
    with pytest.raises(errors.Unconfigured) as caught:
        await opened(layout).ready()
    assert caught.value.field == field
    assert remedy in caught.value.remedy
