"""Vectors in Weaviate: one native tenant per client, project and group as filters.

Two collections per schema version and embedding model: chunks (searched by vector and by word) and sentences (vectors
only). The model is part of the collection's name, so vectors of two models never meet in one index; each object also
says its model and dimension. Collections are made on first use, and again if they are lost.

Weaviate's own hybrid query normalises scores within one tenant; a viewer's data lies in two (its client's and the
global one), so dense and lexical hits are fetched with raw scores and fused in `kb.retrieve.rank` by the same rule
(relativeScoreFusion).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import weaviate
from weaviate.classes.config import Configure, DataType, Property, Tokenization, VectorDistances
from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter, MetadataQuery
from weaviate.collections.classes.filters import FilterReturn
from weaviate.config import AdditionalConfig, Timeout
from weaviate.connect import ConnectionParams
from weaviate.exceptions import (
    UnexpectedStatusCodeError,
    WeaviateBaseError,
    WeaviateConnectionError,
    WeaviateRetryError,
    WeaviateStartUpError,
    WeaviateTimeoutError,
)

from crds import scope
from kb import errors, identity, visibility
from kb.vectors import model, record

_VERSION = 1
_BATCH = 200
_IDS = 500
_MAX_ROWS = 10_000
_READ_SECONDS = 10.0
_WRITE_SECONDS = 60.0
_BUSY = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
}
_AWAY = (WeaviateTimeoutError, WeaviateConnectionError, WeaviateStartUpError)
# Said when a collection or tenant that was there has gone: made again by the next call.
_LOST = re.compile(
    r"could not find class|class .* not found|tenant .*not found|not found in schema|could not check if tenant exists",
    re.IGNORECASE,
)
_DIMENSIONS = re.compile(r"vector length|vector dimension|dimensions? mismatch", re.IGNORECASE)


class Store:
    """Implements `kb.vectors.store.Store` for the vectors of `embed_model`.

    `index` keeps installations apart that share one Weaviate.
    """

    def __init__(self, url: str, grpc_port: int, embed_model: str, *, index: str = "") -> None:
        self._model = embed_model
        self._prefix = f"Jervis{identity.digest(index)[:8].upper()}" if index else "Jervis"
        suffix = f"V{_VERSION}M{identity.digest(embed_model)[:8]}"
        self._chunks_name = f"{self._prefix}Chunk{suffix}"
        self._sentences_name = f"{self._prefix}Sentence{suffix}"
        self._client = weaviate.WeaviateAsyncClient(
            ConnectionParams.from_url(url, grpc_port),
            additional_config=AdditionalConfig(timeout=Timeout(init=5, query=_READ_SECONDS, insert=_WRITE_SECONDS)),
            # The checks ask a package index for newer versions.
            skip_init_checks=True,
        )
        self._opening = asyncio.Lock()
        self._complete = False
        self._tenants: set[tuple[str, str]] = set()

    async def ready(self) -> None:
        async with self._session(_READ_SECONDS):
            if not await self._client.is_ready():
                raise errors.Away("weaviate", "it says that it is not ready")

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        async with self._session(_READ_SECONDS):
            chunks = await self._readable(self._chunks_name, record.tenant(owner.client_id))
            if chunks is None:
                return {}
            found = await chunks.query.fetch_objects(
                filters=Filter.by_property("documentId").equal(document_id),
                limit=_MAX_ROWS,
                return_properties=["revision"],
            )
            return {str(row.uuid): str(row.properties["revision"]) for row in found.objects}

    async def known_sentences(self, owner: scope.Scope, sentence_ids: Collection[str]) -> set[str]:
        known: set[str] = set()
        async with self._session(_READ_SECONDS):
            sentences = await self._readable(self._sentences_name, record.tenant(owner.client_id))
            if sentences is None:
                return known
            exactly = Filter.by_property("projectId").equal(owner.project_id or record.NONE) & Filter.by_property(
                "groupId"
            ).equal(owner.group_id or record.NONE)
            for ids in _batches(sorted(sentence_ids), _IDS):
                found = await sentences.query.fetch_objects(
                    filters=Filter.by_id().contains_any(ids) & exactly, limit=len(ids), return_properties=[]
                )
                known |= {str(row.uuid) for row in found.objects}
        return known

    async def put(
        self,
        owner: scope.Scope,
        chunks: Sequence[tuple[model.Chunk, model.Vector]],
        sentences: Sequence[tuple[model.Sentence, model.Vector]],
    ) -> None:
        rows = [DataObject(record.of_chunk(owner, c, self._model, len(v)), uuid=c.id, vector=v) for c, v in chunks]
        lines = [
            DataObject(record.of_sentence(owner, s, self._model, len(v)), uuid=s.id, vector=v) for s, v in sentences
        ]
        async with self._session(_WRITE_SECONDS):
            for target, objects in ((self._chunks_name, rows), (self._sentences_name, lines)):
                collection = self._client.collections.use(target).with_tenant(record.tenant(owner.client_id))
                for batch in _batches(objects, _BATCH):
                    result = await collection.data.insert_many(batch)
                    for error in result.errors.values():
                        self._refuse(error.message)

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        async with self._session(_WRITE_SECONDS):
            collection = self._client.collections.use(self._chunks_name).with_tenant(record.tenant(owner.client_id))
            for chunk in chunks:
                properties = record.of_chunk(owner, chunk, self._model, 0)
                del properties["dimension"]
                await collection.data.update(chunk.id, properties=properties)

    async def drop(self, owner: scope.Scope, document_id: str, *, keep: Collection[str] = ()) -> None:
        async with self._session(_WRITE_SECONDS):
            # Collections of models used before hold what was ingested then; it goes too. Sentences go first: while a
            # chunk is there, a deletion that broke off is repeated.
            ours = (f"{self._prefix}Sentence", f"{self._prefix}Chunk")
            there = [name for name in await self._client.collections.list_all() if name.startswith(ours)]
            names = sorted(there, key=lambda name: (name.startswith(ours[1]), name))
            for name in names:
                where: FilterReturn = Filter.by_property("documentId").equal(document_id)
                if keep and name == self._chunks_name:
                    where = where & Filter.by_id().contains_none(sorted(keep))
                elif keep and name == self._sentences_name:
                    where = where & Filter.by_property("chunkId").contains_none(sorted(keep))
                await self._delete(name, record.tenant(owner.client_id), where)

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, kinds: Sequence[str] | None = None
    ) -> list[model.Hit]:
        hits: list[model.Hit] = []
        async with self._session(_READ_SECONDS):
            async for tenant, where in self._visible(self._chunks_name, viewer, kinds):
                found = await tenant.query.near_vector(
                    vector, limit=limit, filters=where, return_metadata=MetadataQuery(distance=True)
                )
                hits += [model.Hit(_parse(row), 1.0 - (row.metadata.distance or 0.0)) for row in found.objects]
        return _best(hits, limit)

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, kinds: Sequence[str] | None = None
    ) -> list[model.Hit]:
        hits: list[model.Hit] = []
        async with self._session(_READ_SECONDS):
            async for tenant, where in self._visible(self._chunks_name, viewer, kinds):
                found = await tenant.query.bm25(
                    query,
                    query_properties=["heading", "text"],
                    limit=limit,
                    filters=where,
                    return_metadata=MetadataQuery(score=True),
                )
                hits += [model.Hit(_parse(row), row.metadata.score or 0.0) for row in found.objects]
        return _best(hits, limit)

    async def chunks(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> dict[str, model.Chunk]:
        chunks: dict[str, model.Chunk] = {}
        async with self._session(_READ_SECONDS):
            for ids in _batches(sorted(chunk_ids), _IDS):
                async for tenant, where in self._visible(self._chunks_name, viewer, None, ids):
                    found = await tenant.query.fetch_objects(filters=where, limit=len(ids))
                    chunks |= {str(row.uuid): _parse(row) for row in found.objects}
        return chunks

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str]
    ) -> dict[str, float]:
        cosines: dict[str, float] = {}
        async with self._session(_READ_SECONDS):
            for ids in _batches(sorted(sentence_ids), _IDS):
                async for tenant, where in self._visible(self._sentences_name, viewer, None, ids):
                    found = await tenant.query.near_vector(
                        vector,
                        limit=len(ids),
                        filters=where,
                        return_metadata=MetadataQuery(distance=True),
                        return_properties=[],
                    )
                    cosines |= {str(row.uuid): 1.0 - (row.metadata.distance or 0.0) for row in found.objects}
        return cosines

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        totals: list[int] = []
        async with self._session(_READ_SECONDS):
            for name in (self._chunks_name, self._sentences_name):
                total = 0
                async for tenant, where in self._visible(name, viewer, None):
                    total += (await tenant.aggregate.over_all(filters=where, total_count=True)).total_count or 0
                totals.append(total)
        return totals[0], totals[1]

    async def destroy(self) -> None:
        """Delete the collections of this embedding model, for every client."""
        async with self._session(_WRITE_SECONDS):
            await self._client.collections.delete([self._chunks_name, self._sentences_name])

    async def close(self) -> None:
        await self._client.close()

    @asynccontextmanager
    async def _session(self, seconds: float) -> AsyncIterator[None]:
        """Connected, with both collections there, for at most `seconds`; errors carry our names."""
        try:
            async with asyncio.timeout(seconds):
                await self._open()
                yield
        except (TimeoutError, httpx.HTTPError, *_AWAY) as error:
            self._complete = False
            raise errors.Away("weaviate", f"{type(error).__name__}: {error}"[:300]) from error
        except WeaviateBaseError as error:
            self._complete = False
            if _is_operational(error):
                raise errors.Away("weaviate", str(error)[:300], retry_after=2) from error
            self._refuse_dimensions(str(error))
            raise

    async def _open(self) -> None:
        if self._complete:
            return
        async with self._opening:
            if self._complete:
                return
            await self._client.connect()
            self._tenants.clear()
            for name, properties in ((self._chunks_name, _CHUNK), (self._sentences_name, _SENTENCE)):
                if not await self._client.collections.exists(name):
                    await self._create(name, properties)
            self._complete = True

    async def _create(self, name: str, properties: Sequence[Property]) -> None:
        try:
            await self._client.collections.create(
                name,
                description=f"Jervis knowledge base, schema {_VERSION}, embeddings of {self._model}",
                properties=properties,
                multi_tenancy_config=Configure.multi_tenancy(auto_tenant_creation=True, auto_tenant_activation=True),
                vector_config=Configure.Vectors.self_provided(
                    vector_index_config=Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE)
                ),
            )
        except WeaviateBaseError:
            # Another process may have been faster; then it is there.
            if not await self._client.collections.exists(name):
                raise

    async def _readable(self, name: str, tenant: str) -> Any | None:
        """The collection at a tenant, or None while nothing was written there."""
        collection = self._client.collections.use(name)
        if (name, tenant) not in self._tenants:
            if not await collection.tenants.exists(tenant):
                return None
            self._tenants.add((name, tenant))
        return collection.with_tenant(tenant)

    async def _visible(
        self, name: str, viewer: scope.Scope, kinds: Sequence[str] | None, ids: Sequence[str] = ()
    ) -> AsyncIterator[tuple[Any, FilterReturn | None]]:
        """Each tenant in which the viewer's data can lie, with the filter of `kb.visibility.sees` for it."""
        for client in visibility.clients(viewer):
            collection = await self._readable(name, record.tenant(client))
            if collection is None:
                continue
            filters: list[Any] = [_sees(viewer)] if client else []
            if kinds is not None:
                filters.append(Filter.by_property("kind").contains_any(list(kinds) or [record.NONE]))
            if ids:
                filters.append(Filter.by_id().contains_any(ids))
            yield collection, Filter.all_of(filters) if filters else None

    async def _delete(self, name: str, tenant: str, where: FilterReturn) -> None:
        collection = await self._readable(name, tenant)
        while collection is not None:
            # One call deletes at most Weaviate's QUERY_MAXIMUM_RESULTS.
            result = await collection.data.delete_many(where)
            if result.failed:
                raise errors.Away("weaviate", f"{result.failed} objects could not be deleted")
            if result.matches == 0 or result.successful == 0:
                return

    def _refuse(self, message: str) -> None:
        self._refuse_dimensions(message)
        self._complete = False
        raise errors.Away("weaviate", message[:300], retry_after=2)

    def _refuse_dimensions(self, message: str) -> None:
        if _DIMENSIONS.search(message):
            raise errors.Misconfigured(
                f"model {self._model!r} gives vectors of another dimension than those stored: {message}",
                field="embedModel",
                remedy="Give the other embedding model another name, so that it has an index of its own.",
            )


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
_SENTENCE = [*_COMMON, _exact("chunkId")]
_CHUNK = [*_COMMON, _exact("sourceUrn"), _exact("kind"), _exact("title"), _words("heading"), _words("text")]
_CHUNK += [_plain(name, DataType.INT) for name in ("ordinal", "startChar", "endChar")]
_CHUNK += [_exact("observedAt"), _exact("revision")]
_CHUNK += [Property(name="graphRefs", data_type=DataType.TEXT_ARRAY, tokenization=Tokenization.FIELD)]


def _sees(viewer: scope.Scope) -> FilterReturn:
    """`kb.visibility.sees` within the viewer's own client."""
    project, group = Filter.by_property("projectId"), Filter.by_property("groupId")
    ways: list[Any] = [project.equal(record.NONE) & group.equal(record.NONE)]
    if viewer.project_id:
        ways.append(project.equal(viewer.project_id))
    if viewer.group_id:
        ways.append(group.equal(viewer.group_id))
    return Filter.any_of(ways)


def _parse(row: Any) -> model.Chunk:
    return record.chunk(str(row.uuid), row.properties)


def _best(hits: list[model.Hit], limit: int) -> list[model.Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))[:limit]


def _batches(items: Sequence[Any], size: int) -> Iterator[Any]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _is_operational(error: BaseException) -> bool:
    """Busy, away, or a collection or tenant that was lost and is made again by the next call.

    weaviate-client keeps only the text of a gRPC error; the error itself is found along the chain of causes.
    """
    if isinstance(error, UnexpectedStatusCodeError) and error.status_code >= 500:
        return True
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, WeaviateRetryError):
            return True
        if isinstance(cause, grpc.aio.AioRpcError) and cause.code() in _BUSY:
            return True
        cause = cause.__cause__ or cause.__context__
    return bool(_LOST.search(str(error)))
