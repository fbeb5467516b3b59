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
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import weaviate
from weaviate.classes.config import Configure, DataType, Property, Tokenization, VectorDistances
from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter, MetadataQuery, Sort
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
from kb import errors, identity, selection, visibility
from kb.vectors import model, record

# Part of the collections' names: changes when objects must be made anew. What can be mended in place is a schema.
_LAYOUT = 1
SCHEMA = 2
_BATCH = 200
_IDS = 500
_AUDITED = ["projectId", "groupId", "documentId", "sourceUrn", "graphRefs"]
_FIRST = "00000000-0000-0000-0000-000000000000"
_SAID = re.compile(r"schema (\d+)")
_DISTANCE = MetadataQuery(distance=True)
_SCORE = MetadataQuery(score=True)
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
# Said when a collection that was there has gone: made again by the next call.
_LOST = re.compile(
    r"could not find class|class .* not found|not found in schema|could not check if tenant exists", re.IGNORECASE
)
# Said when nothing was ever written for a client.
_NO_TENANT = re.compile(r"tenant (not found|.* not found|.*does not exist)", re.IGNORECASE)
_DIMENSIONS = re.compile(r"vector length|vector dimension|dimensions? mismatch", re.IGNORECASE)


class Store:
    """Implements `kb.vectors.store.Store` for the vectors of `embed_model`.

    `index` keeps installations apart that share one Weaviate.
    """

    def __init__(self, url: str, grpc_port: int, embed_model: str, *, index: str = "") -> None:
        self._model = embed_model
        self._prefix = f"Jervis{identity.digest(index)[:8].upper()}" if index else "Jervis"
        suffix = f"V{_LAYOUT}M{identity.digest(embed_model)[:8]}"
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

    async def ready(self) -> None:
        async with self._session(_READ_SECONDS):
            if not await self._client.is_ready():
                raise errors.Away("weaviate", "it says that it is not ready")

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        async def ask(tenant: Any) -> Any:
            where = Filter.by_property("documentId").equal(document_id)
            return await tenant.query.fetch_objects(filters=where, limit=_MAX_ROWS, return_properties=["revision"])

        async with self._session(_READ_SECONDS):
            found = await self._in(self._chunks_name, owner.client_id, ask)
            return {str(row.uuid): str(row.properties["revision"]) for row in found}

    async def known_sentences(self, owner: scope.Scope, sentence_ids: Collection[str]) -> set[str]:
        exactly = Filter.by_property("projectId").equal(owner.project_id or record.NONE) & Filter.by_property(
            "groupId"
        ).equal(owner.group_id or record.NONE)

        def ask(ids: Sequence[str]) -> Callable[[Any], Awaitable[Any]]:
            where = Filter.by_id().contains_any(ids) & exactly
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), return_properties=[])

        known: set[str] = set()
        async with self._session(_READ_SECONDS):
            for ids in _batches(sorted(sentence_ids), _IDS):
                known |= {str(row.uuid) for row in await self._in(self._sentences_name, owner.client_id, ask(ids))}
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
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.near_vector(
                vector, limit=limit, filters=where, return_metadata=_DISTANCE, return_properties=[]
            )

        async with self._session(_READ_SECONDS):
            rows = await self._seen(self._chunks_name, viewer, ask, chosen)
            return _best([model.Hit(str(row.uuid), 1.0 - (row.metadata.distance or 0.0)) for row in rows], limit)

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.bm25(
                query,
                query_properties=["heading", "text"],
                limit=limit,
                filters=where,
                return_metadata=_SCORE,
                return_properties=[],
            )

        async with self._session(_READ_SECONDS):
            rows = await self._seen(self._chunks_name, viewer, ask, chosen)
            return _best([model.Hit(str(row.uuid), row.metadata.score or 0.0) for row in rows], limit)

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        latest = Sort.by_property("observedMs", ascending=False).by_property("documentId").by_property("ordinal")

        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.fetch_objects(filters=where, limit=limit, sort=latest)

        async with self._session(_READ_SECONDS):
            rows = await self._seen(self._chunks_name, viewer, ask, chosen)
            rows.sort(
                key=lambda row: (-row.properties["observedMs"], row.properties["documentId"], row.properties["ordinal"])
            )
            return [_parse(row) for row in rows[:limit]]

    async def chunks(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> dict[str, model.Chunk]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.fetch_objects(filters=where, limit=_IDS)

        chunks: dict[str, model.Chunk] = {}
        async with self._session(_READ_SECONDS):
            for ids in _batches(sorted(chunk_ids), _IDS):
                rows = await self._seen(self._chunks_name, viewer, ask, selection.ALL, ids)
                chunks |= {str(row.uuid): _parse(row) for row in rows}
        return chunks

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str]
    ) -> dict[str, float]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.near_vector(
                vector, limit=_IDS, filters=where, return_metadata=_DISTANCE, return_properties=[]
            )

        cosines: dict[str, float] = {}
        async with self._session(_READ_SECONDS):
            for ids in _batches(sorted(sentence_ids), _IDS):
                rows = await self._seen(self._sentences_name, viewer, ask, selection.ALL, ids)
                cosines |= {str(row.uuid): 1.0 - (row.metadata.distance or 0.0) for row in rows}
        return cosines

    async def regroup(self, owner: scope.Scope) -> int:
        moved = 0
        group = owner.group_id or record.NONE
        where = Filter.by_property("projectId").equal(owner.project_id) & Filter.by_property("groupId").not_equal(group)
        async with self._session(_WRITE_SECONDS):
            for name in (self._chunks_name, self._sentences_name):
                moved += await self._regroup(name, owner, group, where)
        return moved

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Stored], str | None]:
        rows, following = await self._page(self._chunks_name, client_id, _AUDITED, after, limit)
        page = [record.stored(client_id, str(row.uuid), row.properties) for row in rows]
        return page, following

    async def audit_sentences(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.StoredSentence], str | None]:
        names = ["projectId", "groupId", "documentId", "chunkId"]
        rows, following = await self._page(self._sentences_name, client_id, names, after, limit)
        page = [
            model.StoredSentence(
                str(row.uuid),
                record.owner(client_id, row.properties),
                str(row.properties["documentId"]),
                str(row.properties["chunkId"]),
            )
            for row in rows
        ]
        return page, following

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Stored]:
        def ask(ids: Sequence[str]) -> Callable[[Any], Awaitable[Any]]:
            where = Filter.by_id().contains_any(ids)
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), return_properties=_AUDITED)

        found: dict[str, model.Stored] = {}
        async with self._session(_READ_SECONDS):
            for ids in _batches(sorted(chunk_ids), _IDS):
                rows = await self._in(self._chunks_name, client_id, ask(ids))
                found |= {str(row.uuid): record.stored(client_id, str(row.uuid), row.properties) for row in rows}
        return found

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        async with self._session(_WRITE_SECONDS):
            for name, wanted in ((self._sentences_name, sentence_ids), (self._chunks_name, chunk_ids)):
                for ids in _batches(sorted(wanted), _IDS):
                    await self._delete(name, record.tenant(client_id), Filter.by_id().contains_any(ids))

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        async def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return [(await tenant.aggregate.over_all(filters=where, total_count=True)).total_count or 0]

        async with self._session(_READ_SECONDS):
            chunks, sentences = [
                sum(await self._seen(name, viewer, ask)) for name in (self._chunks_name, self._sentences_name)
            ]
            return chunks, sentences

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
            for name, properties in ((self._chunks_name, _CHUNK), (self._sentences_name, _SENTENCE)):
                if await self._client.collections.exists(name):
                    await self._upgrade(name)
                else:
                    await self._create(name, properties)
            self._complete = True

    async def _upgrade(self, name: str) -> None:
        """Bring a collection of an older schema up to date; repeating it, also from two processes, does no harm."""
        collection = self._client.collections.use(name)
        config = await collection.config.get()
        said = _SAID.search(config.description or "")
        version = int(said[1]) if said else 1
        if version > SCHEMA:
            raise errors.Misconfigured(
                f"{name} has schema version {version}, this program knows {SCHEMA}",
                field="weaviateUrl",
                remedy="Run the version that wrote it, or another index (JERVIS_KB_INDEX).",
            )
        if version < SCHEMA and name == self._chunks_name:
            if all(known.name != _OBSERVED.name for known in config.properties):
                await collection.config.add_property(_OBSERVED)
            for tenant in await collection.tenants.get():
                await _fill_in_times(collection.with_tenant(tenant))
        if version < SCHEMA:
            await collection.config.update(description=_description(self._model))

    async def _create(self, name: str, properties: Sequence[Property]) -> None:
        try:
            await self._client.collections.create(
                name,
                description=_description(self._model),
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
        # Every question asks the global tenant too; it is there from the start.
        await self._client.collections.use(name).tenants.create([record.tenant("")])

    async def _in(self, name: str, client_id: str, ask: Callable[[Any], Awaitable[Any]]) -> list[Any]:
        """What `ask` finds in the tenant of a client; nothing, where nothing was ever written for it."""
        tenant = self._client.collections.use(name).with_tenant(record.tenant(client_id))
        try:
            found = await ask(tenant)
        except WeaviateBaseError as error:
            if _NO_TENANT.search(str(error)):
                return []
            raise
        return list(getattr(found, "objects", found))

    async def _seen(
        self,
        name: str,
        viewer: scope.Scope,
        ask: Callable[[Any, FilterReturn | None], Awaitable[Any]],
        chosen: selection.Selection = selection.ALL,
        ids: Sequence[str] = (),
    ) -> list[Any]:
        """What `ask` finds in each tenant in which the viewer's data can lie, filtered by `kb.visibility.sees`."""

        def within(client: str) -> Awaitable[list[Any]]:
            filters = [*([_sees(viewer)] if client else []), *_chosen(chosen)]
            if ids:
                filters.append(Filter.by_id().contains_any(ids))
            where = Filter.all_of(filters) if filters else None
            return self._in(name, client, lambda tenant: ask(tenant, where))

        found = await asyncio.gather(*(within(client) for client in visibility.clients(viewer)))
        return [row for rows in found for row in rows]

    async def _page(
        self, name: str, client_id: str, names: list[str], after: str | None, limit: int
    ) -> tuple[list[Any], str | None]:
        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(limit=limit, after=after or _FIRST, return_properties=names)

        async with self._session(_READ_SECONDS):
            rows = await self._in(name, client_id, ask)
        return rows, str(rows[-1].uuid) if len(rows) == limit else None

    async def _regroup(self, name: str, owner: scope.Scope, group: str, where: FilterReturn) -> int:
        """Write the objects that match again with another group; repeated until none matches."""
        collection = self._client.collections.use(name).with_tenant(record.tenant(owner.client_id))

        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(filters=where, limit=_BATCH, include_vector=True)

        moved = 0
        while rows := await self._in(name, owner.client_id, ask):
            objects = []
            for row in rows:
                properties: dict[str, Any] = {**row.properties, "groupId": group}
                if name == self._chunks_name:
                    properties["revision"] = _parse(row).revision(owner)
                objects.append(DataObject(properties, uuid=row.uuid, vector=row.vector["default"]))
            result = await collection.data.insert_many(objects)
            for error in result.errors.values():
                self._refuse(error.message)
            moved += len(objects)
        return moved

    async def _delete(self, name: str, tenant: str, where: FilterReturn) -> None:
        collection = self._client.collections.use(name).with_tenant(tenant)
        while True:
            # One call deletes at most Weaviate's QUERY_MAXIMUM_RESULTS.
            try:
                result = await collection.data.delete_many(where)
            except WeaviateBaseError as error:
                if _NO_TENANT.search(str(error)):
                    return
                raise
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
# In milliseconds: a number can be compared. Since schema 2.
_OBSERVED = Property(name="observedMs", data_type=DataType.INT, index_filterable=True, index_range_filters=True)
_CHUNK += [_OBSERVED]
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


def _chosen(chosen: selection.Selection) -> list[FilterReturn]:
    """`kb.selection.Selection.admits`, or a little more: a wildcard character within a source admits others too."""
    filters: list[FilterReturn] = []
    observed = Filter.by_property("observedMs")
    if chosen.kinds is not None:
        filters.append(Filter.by_property("kind").contains_any(list(chosen.kinds) or [record.NONE]))
    if chosen.sources is not None:
        source = Filter.by_property("sourceUrn")
        exact = [one for one in chosen.sources if not one.endswith("*")] or [record.NONE]
        ways = [source.contains_any(exact), *(source.like(one) for one in chosen.sources if one.endswith("*"))]
        filters.append(Filter.any_of(ways))
    earliest, latest = chosen.span()
    if chosen.dated:
        filters.append(observed.greater_than(record.UNDATED))
    if earliest is not None:
        filters.append(observed.greater_or_equal(earliest))
    if latest is not None:
        filters.append(observed.less_or_equal(latest))
    return filters


async def _fill_in_times(tenant: Any) -> None:
    async for row in tenant.iterator(return_properties=["observedAt", "observedMs"]):
        if row.properties["observedMs"] is None:
            time = record.observed_ms(row.properties["observedAt"] or "")
            await tenant.data.update(row.uuid, properties={"observedMs": time})


def _description(embed_model: str) -> str:
    return f"Jervis knowledge base, schema {SCHEMA}, embeddings of {embed_model}"


def _parse(row: Any) -> model.Chunk:
    return record.chunk(str(row.uuid), row.properties)


def _best(hits: list[model.Hit], limit: int) -> list[model.Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]


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
