"""Searching and fetching, within what a viewer may see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from weaviate.classes.query import MetadataQuery, Sort
from weaviate.collections.classes.filters import FilterReturn

from crds import scope
from kb import selection
from kb.vectors import model, record
from kb.vectors.weaviate import connection, filters

_DISTANCE = MetadataQuery(distance=True)
_SCORE = MetadataQuery(score=True)
_MAX_ROWS = 10_000


class Reading(connection.Connection):
    """The part of the port that answers questions."""

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        async def ask(tenant: Any) -> Any:
            where = filters.of_document(document_id)
            return await tenant.query.fetch_objects(filters=where, limit=_MAX_ROWS, return_properties=["revision"])

        async with self._session(connection.READ_SECONDS):
            found = await self._in(self._chunks_name, owner.client_id, ask)
            return {str(row.uuid): str(row.properties["revision"]) for row in found}

    async def known_sentences(self, owner: scope.Scope, sentence_ids: Collection[str]) -> set[str]:
        def ask(ids: Sequence[str]) -> Callable[[Any], Awaitable[Any]]:
            where = filters.among(ids) & filters.exactly(owner)
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), return_properties=[])

        known: set[str] = set()
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(sentence_ids), connection.IDS):
                known |= {str(row.uuid) for row in await self._in(self._sentences_name, owner.client_id, ask(ids))}
        return known

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.near_vector(
                vector, limit=limit, filters=where, return_metadata=_DISTANCE, return_properties=[]
            )

        async with self._session(connection.READ_SECONDS):
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

        async with self._session(connection.READ_SECONDS):
            rows = await self._seen(self._chunks_name, viewer, ask, chosen)
            return _best([model.Hit(str(row.uuid), row.metadata.score or 0.0) for row in rows], limit)

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        latest = Sort.by_property("observedMs", ascending=False).by_property("documentId").by_property("ordinal")

        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.fetch_objects(filters=where, limit=limit, sort=latest)

        async with self._session(connection.READ_SECONDS):
            rows = await self._seen(self._chunks_name, viewer, ask, chosen)
            rows.sort(
                key=lambda row: (-row.properties["observedMs"], row.properties["documentId"], row.properties["ordinal"])
            )
            return [_parse(row) for row in rows[:limit]]

    async def chunks(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> dict[str, model.Chunk]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.fetch_objects(filters=where, limit=connection.IDS)

        chunks: dict[str, model.Chunk] = {}
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(chunk_ids), connection.IDS):
                rows = await self._seen(self._chunks_name, viewer, ask, selection.ALL, ids)
                chunks |= {str(row.uuid): _parse(row) for row in rows}
        return chunks

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str]
    ) -> dict[str, float]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.near_vector(
                vector, limit=connection.IDS, filters=where, return_metadata=_DISTANCE, return_properties=[]
            )

        cosines: dict[str, float] = {}
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(sentence_ids), connection.IDS):
                rows = await self._seen(self._sentences_name, viewer, ask, selection.ALL, ids)
                cosines |= {str(row.uuid): 1.0 - (row.metadata.distance or 0.0) for row in rows}
        return cosines

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        async def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return [(await tenant.aggregate.over_all(filters=where, total_count=True)).total_count or 0]

        async with self._session(connection.READ_SECONDS):
            chunks, sentences = [
                sum(await self._seen(name, viewer, ask)) for name in (self._chunks_name, self._sentences_name)
            ]
            return chunks, sentences


def _parse(row: Any) -> model.Chunk:
    return record.chunk(str(row.uuid), row.properties)


def _best(hits: list[model.Hit], limit: int) -> list[model.Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]
