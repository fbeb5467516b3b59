"""The two collections: their properties, how they are made, and how those of an older schema are brought up to date."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import weaviate
from weaviate.classes.config import Configure, DataType, Property, Tokenization, VectorDistances
from weaviate.exceptions import WeaviateBaseError

from kb import errors
from kb.vectors import record

# Part of the collections' names: changes when objects must be made anew. What can be mended in place is a schema.
LAYOUT = 1
VERSION = 2
_SAID = re.compile(r"schema (\d+)")
# Sentences are asked for by their ids alone, and of so few Weaviate compares every one. The graph that it keeps for
# searches is never walked then; to make it well costs a search per sentence, and these are the least that it takes.
_BY_ID = Configure.VectorIndex.hnsw(
    distance_metric=VectorDistances.COSINE, ef_construction=4, max_connections=4, flat_search_cutoff=1_000_000
)
_SEARCHED = Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE)


def _exact(name: str) -> Property:
    return Property(
        name=name,
        data_type=DataType.TEXT,
        tokenization=Tokenization.FIELD,
        index_filterable=True,
        index_searchable=False,
    )


def _plain(name: str, kind: DataType) -> Property:
    return Property(name=name, data_type=kind, index_filterable=False)


def _words(name: str) -> Property:
    return Property(name=name, data_type=DataType.TEXT, tokenization=Tokenization.WORD, index_filterable=False)


_COMMON = [_exact("projectId"), _exact("groupId"), _exact("documentId"), _exact("model")]
_COMMON += [_plain("dimension", DataType.INT)]
SENTENCE = [*_COMMON, _exact("chunkId")]
CHUNK = [*_COMMON, _exact("sourceUrn"), _exact("kind"), _exact("title"), _words("heading"), _words("text")]
CHUNK += [_plain(name, DataType.INT) for name in ("ordinal", "startChar", "endChar")]
CHUNK += [_exact("observedAt"), _exact("revision")]
# In milliseconds: a number can be compared. Since schema 2.
_OBSERVED = Property(name="observedMs", data_type=DataType.INT, index_filterable=True, index_range_filters=True)
CHUNK += [_OBSERVED]
CHUNK += [Property(name="graphRefs", data_type=DataType.TEXT_ARRAY, tokenization=Tokenization.FIELD)]


async def ensure(
    client: weaviate.WeaviateAsyncClient, name: str, properties: Sequence[Property], embed_model: str
) -> None:
    """Create the collection, or bring the one that is there up to date. Raises `errors.Misconfigured`."""
    if await client.collections.exists(name):
        await _upgrade(client, name, properties, embed_model)
    else:
        await _create(client, name, properties, embed_model)


async def _create(
    client: weaviate.WeaviateAsyncClient, name: str, properties: Sequence[Property], embed_model: str
) -> None:
    try:
        await client.collections.create(
            name,
            description=_description(embed_model),
            properties=properties,
            multi_tenancy_config=Configure.multi_tenancy(auto_tenant_creation=True, auto_tenant_activation=True),
            vector_config=Configure.Vectors.self_provided(
                vector_index_config=_BY_ID if properties is SENTENCE else _SEARCHED
            ),
        )
    except WeaviateBaseError:
        # Another process may have been faster; then it is there.
        if not await client.collections.exists(name):
            raise
    # Every question asks the global tenant too; it is there from the start.
    await client.collections.use(name).tenants.create([record.tenant("")])


async def _upgrade(
    client: weaviate.WeaviateAsyncClient, name: str, properties: Sequence[Property], embed_model: str
) -> None:
    """Bring a collection of an older schema up to date; repeating it, also from two processes, does no harm."""
    collection = client.collections.use(name)
    config = await collection.config.get()
    said = _SAID.search(config.description or "")
    version = int(said[1]) if said else 1
    if version > VERSION:
        raise errors.Misconfigured(
            f"{name} has schema version {version}, this program knows {VERSION}",
            field="weaviateUrl",
            remedy="Run the version that wrote it, or another index (JERVIS_KB_INDEX).",
        )
    if version < VERSION and _OBSERVED in properties:
        if all(known.name != _OBSERVED.name for known in config.properties):
            await collection.config.add_property(_OBSERVED)
        for tenant in await collection.tenants.get():
            await _fill_in_times(collection.with_tenant(tenant))
    if version < VERSION:
        await collection.config.update(description=_description(embed_model))


async def _fill_in_times(tenant: Any) -> None:
    async for row in tenant.iterator(return_properties=["observedAt", "observedMs"]):
        if row.properties["observedMs"] is None:
            time = record.observed_ms(row.properties["observedAt"] or "")
            await tenant.data.update(row.uuid, properties={"observedMs": time})


def _description(embed_model: str) -> str:
    return f"Jervis knowledge base, schema {VERSION}, embeddings of {embed_model}"
