"""Searching and fetching, within what a viewer may see."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from weaviate.classes.query import Filter, Sort
from weaviate.collections.classes.filters import FilterReturn

from crds import scope
from kb import batching, selection
from kb.vectors import model, record
from kb.vectors.weaviate import connection, filters, schema, scores
from text import words

# Weaviate's QUERY_MAXIMUM_RESULTS.
_MAX_ROWS = 10_000
# Chunks that Weaviate sorts for one answer without a look for a later beginning.
_SORTED = 10_000
# In milliseconds: 1970, before which nothing is looked for, and the end of the year 9999.
_EPOCH, _FAR = 0, 253_402_300_800_000
_KNOWN = ["documentId", "revision"]
_DOCUMENTS = 100
# What is looked at in each of the two properties for one chunk that is answered: it may be far behind in one of them.
_DEEPER = 3


class Reading(connection.Connection):
    """The part of the port that answers questions."""

    def __init__(
        self,
        url: str,
        grpc_port: int,
        embed_model: str,
        *,
        index: str = "",
        api_key: str = "",
        folded: bool = True,
        beside: str = "",
        layout: schema.Layout = schema.Layout(),  # noqa: B008 -- frozen
    ) -> None:
        super().__init__(
            url, grpc_port, embed_model, index=index, api_key=api_key, folded=folded, beside=beside, layout=layout
        )
        self._most_rows = _MAX_ROWS
        self._most_sorted = _SORTED
        self._knowing = batching.Batcher(self._known_of, most=_DOCUMENTS)

    async def known(self, owner: scope.Scope, document_id: str) -> dict[str, str]:
        async with self._session(connection.READ_SECONDS):
            [revisions] = await self._knowing.ask(owner.client_id, [document_id])
            return revisions

    async def _known_of(self, client_id: str, document_ids: Sequence[str]) -> list[dict[str, str]]:
        found = await self._known(client_id, list(dict.fromkeys(document_ids)))
        return [found[one] for one in document_ids]

    async def _known(self, client_id: str, document_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The chunks of each document, with their revisions."""

        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(
                filters=filters.of_documents(document_ids),
                limit=self._most_rows,
                return_properties=_KNOWN,
            )

        rows = await self._in(self._chunks_name, client_id, ask)
        if len(rows) == self._most_rows and len(document_ids) > 1:
            # More than one answer may hold: each for itself.
            return {one: (await self._known(client_id, [one]))[one] for one in document_ids}
        if len(rows) == self._most_rows:
            rows = [*rows, *await self._rest(client_id, document_ids[0], rows)]
        found: dict[str, dict[str, str]] = {one: {} for one in document_ids}
        for row in rows:
            found[str(row.properties["documentId"])][str(row.uuid)] = str(row.properties["revision"])
        return found

    async def _rest(self, client_id: str, document_id: str, known: Sequence[Any]) -> list[Any]:
        """The chunks of a document that has more of them than one answer holds, without those in `known`."""
        found: list[Any] = []
        while True:
            skip = Filter.by_id().contains_none([str(row.uuid) for row in (*known, *found)])

            async def ask(tenant: Any, skip: FilterReturn = skip) -> Any:
                where = filters.of_document(document_id) & skip
                return await tenant.query.fetch_objects(filters=where, limit=self._most_rows, return_properties=_KNOWN)

            page = await self._in(self._chunks_name, client_id, ask)
            found += page
            if len(page) < self._most_rows:
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
        async with self._session(connection.READ_SECONDS):
            rows = await self._scored(self._chunks_name, viewer, scores.near(vector), chosen, limit=limit)
            return _best([model.Hit(*row) for row in rows], limit)

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        wanted = " ".join(words.asked(query, folded=self._index.folded))
        if not wanted:
            return []

        total: defaultdict[str, float] = defaultdict(float)
        async with self._session(connection.READ_SECONDS):
            # Each for itself: asked for both at once, Weaviate measures a heading and a text by one mean length, or
            # adds up the two scores as here, depending on how it searches (USE_BLOCKMAX_WAND).
            found = await asyncio.gather(
                *(
                    self._scored(self._chunks_name, viewer, scores.terms(wanted, name), chosen, limit=_DEEPER * limit)
                    for name in ("headingTerms", "textTerms")
                )
            )
        for row in itertools.chain(*found):
            total[row.uuid] += row.score
        return _best([model.Hit(chunk_id, score) for chunk_id, score in total.items()], limit)

    async def newest(self, viewer: scope.Scope, chosen: selection.Selection, *, limit: int) -> list[model.Chunk]:
        latest = Sort.by_property("observedMs", ascending=False).by_property("documentId").by_property("ordinal")

        async with self._session(connection.READ_SECONDS):
            since = await self._recent(viewer, chosen, limit)

            def ask(tenant: Any, where: FilterReturn | None) -> Any:
                return tenant.query.fetch_objects(filters=_from(where, since), limit=limit, sort=latest)

            rows = await self._seen(self._chunks_name, viewer, ask, chosen)
            rows.sort(
                key=lambda row: (-row.properties["observedMs"], row.properties["documentId"], row.properties["ordinal"])
            )
            return [_parse(row) for row in rows[:limit]]

    async def _recent(self, viewer: scope.Scope, chosen: selection.Selection, limit: int) -> int | None:
        """A moment since which there are at least `limit` chunks, and few enough to be sorted; None: of all.

        Weaviate has no order to read in: what is to be sorted is fetched, all of it. So the moment is looked for by
        halves, by numbers that the index of `observedMs` answers. Chunks of one moment cannot be told apart so.
        """

        async def count(since: int | None) -> int:
            async def ask(tenant: Any, where: FilterReturn | None) -> Any:
                wanted = _from(where, since)
                return [(await tenant.aggregate.over_all(filters=wanted, total_count=True)).total_count or 0]

            return sum(await self._seen(self._chunks_name, viewer, ask, chosen))

        if await count(None) <= self._most_sorted:
            return None
        early, late = _EPOCH, _FAR
        if await count(early) < limit:
            return None
        while late - early > 1:
            middle = (early + late) // 2
            found = await count(middle)
            if found >= limit:
                early = middle
                if found <= self._most_sorted:
                    break
            else:
                late = middle
        return early

    async def chunks(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> dict[str, model.Chunk]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.fetch_objects(filters=where, limit=connection.IDS)

        chunks: dict[str, model.Chunk] = {}
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(chunk_ids), connection.IDS):
                rows = await self._seen(self._chunks_name, viewer, ask, selection.ALL, ids, history=history)
                chunks |= {str(row.uuid): _parse(row) for row in rows}
        return chunks

    async def chosen(self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection) -> set[str]:
        def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return tenant.query.fetch_objects(filters=where, limit=connection.IDS, return_properties=[])

        found: set[str] = set()
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(chunk_ids), connection.IDS):
                found |= {str(row.uuid) for row in await self._seen(self._chunks_name, viewer, ask, chosen, ids)}
        return found

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str], *, history: bool = False
    ) -> dict[str, float]:
        search, name = scores.near(vector), self._sentences_name
        async with self._session(connection.READ_SECONDS):
            found = await asyncio.gather(
                *(
                    self._scored(name, viewer, search, selection.ALL, ids, limit=len(ids), history=history)
                    for ids in connection.batches(sorted(sentence_ids), connection.IDS)
                )
            )
        return {row.uuid: row.score for rows in found for row in rows}

    async def counts(self, viewer: scope.Scope) -> tuple[int, int]:
        async def ask(tenant: Any, where: FilterReturn | None) -> Any:
            return [(await tenant.aggregate.over_all(filters=where, total_count=True)).total_count or 0]

        async with self._session(connection.READ_SECONDS):
            chunks, sentences = [
                sum(await self._seen(name, viewer, ask)) for name in (self._chunks_name, self._sentences_name)
            ]
            return chunks, sentences


def _from(where: FilterReturn | None, since: int | None) -> FilterReturn | None:
    if since is None:
        return where
    recent = Filter.by_property("observedMs").greater_or_equal(since)
    return recent if where is None else where & recent


def _parse(row: Any) -> model.Chunk:
    return record.chunk(str(row.uuid), row.properties)


def _best(hits: list[model.Hit], limit: int) -> list[model.Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]
