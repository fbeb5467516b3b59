"""The two collections: their properties, how they are made, and how those of an older schema are brought up to date."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weaviate
from weaviate.classes.config import Configure, DataType, Property, Reconfigure, Tokenization, VectorDistances
from weaviate.exceptions import UnexpectedStatusCodeError, WeaviateBaseError

from kb import errors
from kb.vectors import record
from kb.vectors.weaviate import faults
from text import words

# Part of the collections' names: changes when objects must be made anew. What can be changed in place is a schema.
LAYOUT = 1
VERSION = 3
EMBEDDINGS = ", embeddings of "
"""In the description of a collection, before the identity of its embedding model."""
_SAID = re.compile(r"schema (\d+)")
_SAID_WORDS = re.compile(r"words (\d+ (?:folded|exact))")
# Objects of an older schema that are brought up to date at once.
_PARALLEL = 16
# How often, and at which interval, a changed collection is asked whether it takes writes.
_LOOKS = 100
_LOOK_SECONDS = 0.05
# Sentences are asked for by their ids alone, and of so few Weaviate compares every one. The graph that it keeps for
# searches is never walked then; to make it well costs a search per sentence, and these are the least that it takes.
_BY_ID = Configure.VectorIndex.hnsw(
    distance_metric=VectorDistances.COSINE, ef_construction=4, max_connections=4, flat_search_cutoff=1_000_000
)
# Sentences without any graph, and not in memory: those that are asked for are read from the disk.
_BY_ID_ON_DISK = Configure.VectorIndex.flat(distance_metric=VectorDistances.COSINE)


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


def _kept(name: str) -> Property:
    return Property(name=name, data_type=DataType.TEXT, index_filterable=False, index_searchable=False)


def _terms(name: str) -> Property:
    """Searched by word: the terms of `text.words`. Weaviate's own know neither inflection nor unspaced scripts."""
    return Property(name=name, data_type=DataType.TEXT, tokenization=Tokenization.WHITESPACE, index_filterable=False)


_COMMON = [_exact("projectId"), _exact("groupId"), _exact("documentId"), _exact("model")]
_COMMON += [_plain("dimension", DataType.INT)]
SENTENCE = [*_COMMON, _exact("chunkId")]
CHUNK = [*_COMMON, _exact("sourceUrn"), _exact("kind"), _exact("title"), _kept("heading"), _kept("text")]
CHUNK += [_plain(name, DataType.INT) for name in ("ordinal", "startChar", "endChar")]
CHUNK += [_exact("observedAt"), _exact("revision")]
# In milliseconds: a number can be compared. Since schema 2.
_OBSERVED = Property(name="observedMs", data_type=DataType.INT, index_filterable=True, index_range_filters=True)
CHUNK += [_OBSERVED]
# Since schema 3; before it, heading and text themselves were searched.
_TERMS = [_terms("headingTerms"), _terms("textTerms")]
CHUNK += _TERMS
_DERIVED = [derived.name for derived in (_OBSERVED, *_TERMS)]
# Of versions, since schema 3. Objects of the present lack `untilMs`, and `sinceMs` where it is `observedMs`.
_SINCE, _UNTIL = (
    Property(name=name, data_type=DataType.INT, index_filterable=True, index_range_filters=True)
    for name in ("sinceMs", "untilMs")
)
CHUNK += [_SINCE, _UNTIL]
SENTENCE += [_UNTIL]
CHUNK += [Property(name="graphRefs", data_type=DataType.TEXT_ARRAY, tokenization=Tokenization.FIELD)]
# The sender's own, as it was sent and as it is filtered by. Since schema 3.
CHUNK += [
    Property(name="metadata", data_type=DataType.TEXT, index_filterable=False, index_searchable=False),
    Property(
        name="labels",
        data_type=DataType.TEXT_ARRAY,
        tokenization=Tokenization.FIELD,
        index_filterable=True,
        index_searchable=False,
    ),
]


@dataclass(frozen=True)
class Layout:
    """How Weaviate keeps vectors; None and "" leave it to the server. Its manual, "Vector index" and "Compression".

    `index` is that of chunks: hnsw, flat, or dynamic, which is flat up to `threshold` chunks of a client and then hnsw
    (the server needs ASYNC_INDEXING for it). `sentences` is that of sentences: hnsw in memory, or flat on the disk.
    `quantization` compresses the vectors of chunks in memory: bq, pq, sq or rq. `replicas` of each tenant.

    Of a collection that is there `ef` can be changed, and quantization be switched on with hnsw; nothing else.
    """

    index: str = "hnsw"
    sentences: str = "hnsw"
    quantization: str = ""
    ef: int | None = None
    ef_construction: int | None = None
    max_connections: int | None = None
    threshold: int | None = None
    replicas: int | None = None

    def create(self, sentences: bool) -> Any:
        """The index of a new collection, as the driver takes it."""
        if sentences:
            return _BY_ID if self.sentences == "hnsw" else _BY_ID_ON_DISK
        if self.index == "flat":
            return _flat(_quantizer(self.quantization))
        hnsw = Configure.VectorIndex.hnsw(
            distance_metric=VectorDistances.COSINE,
            ef=self.ef,
            ef_construction=self.ef_construction,
            max_connections=self.max_connections,
            quantizer=_quantizer(self.quantization),
        )
        if self.index == "hnsw":
            return hnsw
        # What is searched one by one can be compressed in two of the ways.
        small = self.quantization if self.quantization in FLAT_QUANTIZATIONS else ""
        return Configure.VectorIndex.dynamic(
            distance_metric=VectorDistances.COSINE,
            threshold=self.threshold,
            hnsw=hnsw,
            flat=_flat(_quantizer(small)),
        )


FLAT_QUANTIZATIONS = ("bq", "rq")


def _flat(quantizer: Any) -> Any:
    return Configure.VectorIndex.flat(distance_metric=VectorDistances.COSINE, quantizer=quantizer)


def _quantizer(name: str) -> Any:
    return getattr(Configure.VectorIndex.Quantizer, name)() if name else None


@dataclass(frozen=True)
class Index:
    """What a collection holds: the vectors of `embed_model`, and words without their diacritics if `folded`."""

    embed_model: str
    folded: bool = True
    layout: Layout = Layout()

    @property
    def words(self) -> str:
        """How the words were made; others are made again."""
        return f"{words.VERSION} {'folded' if self.folded else 'exact'}"

    @property
    def description(self) -> str:
        return f"Jervis knowledge base, schema {VERSION}, words {self.words}{EMBEDDINGS}{self.embed_model}"


async def ensure(client: weaviate.WeaviateAsyncClient, name: str, properties: Sequence[Property], index: Index) -> None:
    """Create the collection, or bring the one that is there up to date. Raises `errors.Unconfigured`."""
    if await client.collections.exists(name):
        await _upgrade(client, name, properties, index)
    else:
        await _create(client, name, properties, index)


async def _create(
    client: weaviate.WeaviateAsyncClient, name: str, properties: Sequence[Property], index: Index
) -> None:
    replicas = index.layout.replicas
    try:
        await client.collections.create(
            name,
            description=index.description,
            properties=properties,
            multi_tenancy_config=Configure.multi_tenancy(auto_tenant_creation=True, auto_tenant_activation=True),
            replication_config=None if replicas is None else Configure.replication(factor=replicas),
            vector_config=Configure.Vectors.self_provided(
                vector_index_config=index.layout.create(sentences=properties is SENTENCE)
            ),
        )
    except WeaviateBaseError as error:
        # Another process may have been faster; then it is there.
        if not await client.collections.exists(name):
            _refuse_layout(error, index.layout)
            raise
    # Every question asks the global tenant too; it is there from the start.
    await client.collections.use(name).tenants.create([record.tenant("")])


async def _upgrade(
    client: weaviate.WeaviateAsyncClient, name: str, properties: Sequence[Property], index: Index
) -> None:
    """Bring a collection of an older schema up to date; repeating it, also from two processes, does no harm."""
    collection = client.collections.use(name)
    with faults.of_another_program():
        config = await collection.config.get()
    described = config.description or ""
    said, made = _SAID.search(described), _SAID_WORDS.search(described)
    version = int(said[1]) if said else 1
    if version > VERSION:
        raise errors.Unconfigured(
            f"{name} has schema version {version}, this program knows {VERSION}",
            field="weaviateUrl",
            remedy="Run the version that wrote it, or another index (JERVIS_KB_INDEX).",
        )
    await _fit(collection, name, config, index.layout, sentences=properties is SENTENCE)
    if version == VERSION and made is not None and made[1] == index.words:
        return
    there = {known.name for known in config.properties}
    for one in properties:
        if one.name not in there:
            await collection.config.add_property(one)
    if properties is CHUNK:
        for tenant in await collection.tenants.get():
            await _fill_in(collection.with_tenant(tenant), index)
    await collection.config.update(description=index.description)
    await _writable(collection)


async def _fit(collection: Any, name: str, config: Any, layout: Layout, *, sentences: bool) -> None:
    """Change what can be changed of how a collection keeps its vectors. Raises `errors.Unconfigured` for the rest."""
    own = config.vector_config["default"].vector_index_config
    kind = own.vector_index_type()
    _agree(
        name,
        "weaviateSentenceIndex" if sentences else "weaviateIndex",
        kind,
        layout.sentences if sentences else layout.index,
    )
    _agree(name, "weaviateReplicas", config.replication_config.factor, layout.replicas)
    if sentences:
        return
    quantized = _quantized(own.hnsw if kind == "dynamic" else own)
    if layout.quantization != quantized and (quantized or (kind != "hnsw" and layout.quantization)):
        _agree(name, "weaviateQuantization", quantized or "none", layout.quantization or "none")
    if kind != "hnsw":
        return
    _agree(name, "weaviateEfConstruction", own.ef_construction, layout.ef_construction)
    _agree(name, "weaviateMaxConnections", own.max_connections, layout.max_connections)
    ef = layout.ef if layout.ef != own.ef else None
    quantizer = layout.quantization if layout.quantization != quantized else ""
    if ef is not None or quantizer:
        changed = getattr(Reconfigure.VectorIndex.Quantizer, quantizer)() if quantizer else None
        index = Reconfigure.VectorIndex.hnsw(ef=ef, quantizer=changed)
        await collection.config.update(vector_config=Reconfigure.Vectors.update(vector_index_config=index))
        await _writable(collection)


async def _writable(collection: Any) -> None:
    """Wait until the tenants take writes: Weaviate refuses them for a moment after each change of a collection.

    A tenant that stays read-only (a full disk) is left to the writes that it refuses.
    """
    for _ in range(_LOOKS):
        shards = await collection.config.get_shards()
        if all(one.status != "READONLY" for one in shards):
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _agree(name: str, setting: str, there: object, wanted: object) -> None:
    if wanted is not None and there != wanted:
        raise errors.Unconfigured(
            f"{name} was made with {setting}={there}, which Weaviate cannot change to {wanted}",
            field=setting,
            remedy=f"Set {setting} back to {there}, or choose another index (JERVIS_KB_INDEX) and ingest again.",
        )


def _quantized(own: Any) -> str:
    """How an index compresses its vectors; "" for not at all."""
    kind = type(own.quantizer).__name__.removeprefix("_").removesuffix("Config").lower()
    return kind if kind in ("bq", "pq", "sq", "rq") else ""


def _refuse_layout(error: WeaviateBaseError, layout: Layout) -> None:
    """Raise `errors.Unconfigured` when the server cannot make a collection of this layout."""
    said = str(error)
    if isinstance(error, UnexpectedStatusCodeError) and error.status_code == 422:
        if "async indexing" in said:
            remedy = "Set ASYNC_INDEXING=true on Weaviate, or weaviateIndex to hnsw."
            raise errors.Unconfigured(
                "Weaviate makes no dynamic index", field="weaviateIndex", remedy=remedy
            ) from error
        if "replication" in said:
            remedy = "Set weaviateReplicas to no more than Weaviate has nodes."
            raise errors.Unconfigured(said[:300], field="weaviateReplicas", remedy=remedy) from error


async def _fill_in(tenant: Any, index: Index) -> None:
    """Give every object what today's schema derives from its other properties, where it differs."""

    async def update(uuid: Any, derived: dict[str, Any]) -> None:
        async with slots:
            await tenant.data.update(uuid, properties=derived)

    slots = asyncio.Semaphore(_PARALLEL)
    try:
        async with asyncio.TaskGroup() as group:
            async for row in tenant.iterator(return_properties=["observedAt", "heading", "text", *_DERIVED]):
                found = row.properties
                derived = record.derived(
                    found["heading"] or "", found["text"], found["observedAt"] or "", folded=index.folded
                )
                # An empty text is an absent one to Weaviate.
                if any((found[name] if found[name] is not None else "") != value for name, value in derived.items()):
                    group.create_task(update(row.uuid, derived))
    except ExceptionGroup as refused:
        # The caller knows the errors of Weaviate's client, and no groups of them.
        raise refused.exceptions[0] from refused
