"""Searching and fetching, within what a viewer may see."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from weaviate.classes.query import MetadataQuery, Sort
from weaviate.collections.classes.filters import FilterReturn

from crds import scope
from kb import selection
from kb.vectors import model, record
from kb.vectors.weaviate import asking, connection, filters

_DISTANCE = MetadataQuery(distance=True)
_SCORE = MetadataQuery(score=True)
_MAX_ROWS = 10_000
_DOCUMENTS = 100
# What is looked at in each of the two properties for one chunk that is answered: it may be far behind in one of them.
_DEEPER = 3


class Reading(connection.Connection):
    """The part of the port that answers questions."""

    def __init__(self, url: str, grpc_port: int, embed_model: str, *, index: str = "") -> None:
        super().__init__(url, grpc_port, embed_model, index=index)
        self._knowing = asking.Asking(self._known, most=_DOCUMENTS)

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        async with self._session(connection.READ_SECONDS):
            return await self._knowing.about(owner.client_id, document_id)

    async def _known(self, client_id: str, document_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The chunks of each document, with their revisions."""

        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(
                filters=filters.of_documents(document_ids),
                limit=_MAX_ROWS,
                return_properties=["documentId", "revision"],
            )

        rows = await self._in(self._chunks_name, client_id, ask)
        if len(rows) == _MAX_ROWS and len(document_ids) > 1:
            # More than one answer may hold: each for itself.
            return {one: (await self._known(client_id, [one]))[one] for one in document_ids}
        found: dict[str, dict[str, str]] = {one: {} for one in document_ids}
        for row in rows:
            found[str(row.properties["documentId"])][str(row.uuid)] = str(row.properties["revision"])
        return found

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
        def ask(name: str) -> Callable[[Any, FilterReturn | None], Awaitable[Any]]:
            return lambda tenant, where: tenant.query.bm25(
                query,
                query_properties=[name],
                limit=_DEEPER * limit,
                filters=where,
                return_metadata=_SCORE,
                return_properties=[],
            )

        scores: defaultdict[str, float] = defaultdict(float)
        async with self._session(connection.READ_SECONDS):
            # Each for itself: asked for both at once, Weaviate measures a heading and a text by one mean length, or
            # adds up the two scores as here, depending on how it searches (USE_BLOCKMAX_WAND).
            found = await asyncio.gather(
                *(self._seen(self._chunks_name, viewer, ask(name), chosen) for name in ("heading", "text"))
            )
        for row in itertools.chain(*found):
            scores[str(row.uuid)] += row.metadata.score or 0.0
        return _best([model.Hit(chunk_id, score) for chunk_id, score in scores.items()], limit)

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
