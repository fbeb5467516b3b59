"""The index of pages on Weaviate."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter, MetadataQuery
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import WeaviateBaseError, WeaviateInsertManyAllFailedError

from crds import scope
from kb import errors, identity, selection, visibility
from kb.vectors import record
from kb.vectors.weaviate import connection, faults, filters
from kb.visual import model
from kb.visual.weaviate import schema
from text import words

_BATCH = 32
_OWNED = ["projectId", "groupId", "documentId"]
_AUDITED = ["documentId", "workId", "projectId", "groupId"]
# Said of a multi-vector, and of what encodes it.
_LENGTH = re.compile(r"vectors? with length|vector length|dimension", re.IGNORECASE)
_FIRST = "00000000-0000-0000-0000-000000000000"


class Store(connection.Connection):
    """Implements `kb.visual.index.Index` for the vectors of `visual_model`, "" for pages without vectors.

    `index` keeps installations apart that share one Weaviate.
    """

    def __init__(
        self,
        url: str,
        grpc_port: int,
        visual_model: str,
        *,
        index: str = "",
        api_key: str = "",
        folded: bool = True,
        layout: schema.Layout = schema.Layout(),  # noqa: B008 -- frozen
    ) -> None:
        super().__init__(url, grpc_port, visual_model, index=index, api_key=api_key, folded=folded)
        self._pages = f"{self._prefix}PageV{schema.LAYOUT}M{identity.digest(visual_model)[:8]}"
        self._page_layout = layout
        self._folded = folded
        self._made = False
        # The collections of all models, as they were listed last.
        self._known: set[str] | None = None

    async def _prepare(self) -> None:
        self._tenants.clear()
        try:
            with faults.of_another_program():
                await self._client.connect()
        except BaseException:
            await self._client.close()
            raise
        # The collection is made with the first page: most installations have none.
        if await self._client.collections.exists(self._pages):
            await self._ensure()
        self._complete = True

    async def _ensure(self) -> None:
        described = f"Jervis knowledge base, pages, vectors of {self._model or 'no model'}"
        await schema.ensure(self._client, self._pages, self._page_layout, described)
        self._made = True
        if self._known is not None:
            self._known.add(self._pages)

    async def _in(
        self, name: str, client_id: str, ask: Callable[[Any], Awaitable[Any]], *, history: bool = False
    ) -> list[Any]:
        try:
            return await super()._in(name, client_id, ask, history=history)
        except WeaviateBaseError as error:
            # Of another model, and cleared away since it was listed; or nothing was ever put.
            if faults.no_collection(error) and not await self._client.collections.exists(name):
                return []
            raise

    async def put(self, pages: Sequence[model.Indexed]) -> None:
        async with self._session(connection.WRITE_SECONDS):
            if pages and not self._made:
                await self._ensure()
            for batch in connection.batches(pages, _BATCH):
                places = {one.source.owner.client_id for one in batch}
                for client_id in places:
                    mine = [self._object(one) for one in batch if one.source.owner.client_id == client_id]
                    await self._insert_pages(client_id, mine)

    async def by_vectors(
        self,
        viewer: scope.Scope,
        question: model.Array,
        *,
        limit: int,
        seen_only: bool = False,
        sources: Collection[str] | None = None,
    ) -> list[model.Hit]:
        if not len(question):
            return []
        rows = question.tolist()

        def ask(where: FilterReturn | None) -> Callable[[Any], Awaitable[Any]]:
            return lambda tenant: tenant.query.near_vector(
                near_vector=rows,
                target_vector=schema.VECTOR,
                filters=where,
                limit=limit,
                return_metadata=MetadataQuery(distance=True),
                return_properties=_OWNED,
            )

        own = [Filter.by_property("seenOnly").equal(True)] if seen_only else []
        async with self._session(connection.READ_SECONDS):
            return await self._best(viewer, ask, own, sources, limit, lambda row: -row.metadata.distance)

    async def by_words(
        self, viewer: scope.Scope, question: str, *, limit: int, sources: Collection[str] | None = None
    ) -> list[model.Hit]:
        wanted = " ".join(words.asked(question, folded=self._folded))
        if not wanted:
            return []

        def ask(where: FilterReturn | None) -> Callable[[Any], Awaitable[Any]]:
            return lambda tenant: tenant.query.bm25(
                query=wanted,
                query_properties=["textTerms"],
                filters=where,
                limit=limit,
                return_metadata=MetadataQuery(score=True),
                return_properties=_OWNED,
            )

        async with self._session(connection.READ_SECONDS):
            return await self._best(viewer, ask, [], sources, limit, lambda row: row.metadata.score)

    async def drop(self, owner: scope.Scope, document_id: str, *, keep: str = "") -> int:
        where = filters.of_document(document_id)
        # Those of a model used before are no pages of the work any more.
        kept = where & Filter.by_property("workId").not_equal(keep) if keep else where
        # Another model's process has collections that this one does not know; its own look clears them.
        return await self._everywhere(owner.client_id, where, kept, anew=False)

    async def erase(self, where: scope.Scope) -> int:
        ways = []
        if where.project_id:
            ways = [Filter.by_property("projectId").equal(where.project_id)]
        elif where.group_id:
            ways = [filters.exactly(where)]
        # A filter there has to be: every page has a document.
        chosen = Filter.all_of(ways) if ways else Filter.by_property("documentId").not_equal(record.NONE)
        gone = await self._everywhere(where.client_id, chosen)
        if not ways and where.client_id:
            await self._vacate(where.client_id)
        return gone

    async def regroup(self, owner: scope.Scope) -> int:
        group = owner.group_id or record.NONE
        where = Filter.by_property("projectId").equal(owner.project_id) & Filter.by_property("groupId").not_equal(group)
        moved = 0
        async with self._session(connection.WRITE_SECONDS):

            async def ask(tenant: Any) -> Any:
                return await tenant.query.fetch_objects(filters=where, limit=500, return_properties=[])

            while rows := await self._in(self._pages, owner.client_id, ask):
                tenant = self._tenant(self._pages, owner.client_id)
                for row in rows:
                    await tenant.data.update(row.uuid, properties={"groupId": group})
                moved += len(rows)
        return moved

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Stored], str | None]:
        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(limit=limit, after=after or _FIRST, return_properties=_AUDITED)

        async with self._session(connection.READ_SECONDS):
            rows = await self._in(self._pages, client_id, ask)
        found = [
            model.Stored(
                str(row.uuid),
                str(row.properties["documentId"]),
                str(row.properties["workId"]),
                record.owner(client_id, row.properties),
            )
            for row in rows
        ]
        return found, str(rows[-1].uuid) if len(rows) == limit else None

    async def held(self, client_id: str, page_ids: Collection[str]) -> set[str]:
        def ask(ids: Sequence[str]) -> Callable[[Any], Awaitable[Any]]:
            where = filters.among(ids)
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), return_properties=[])

        found: set[str] = set()
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(page_ids), connection.IDS):
                found |= {str(row.uuid) for row in await self._in(self._pages, client_id, ask(ids))}
        return found

    async def discard(self, client_id: str, page_ids: Collection[str]) -> None:
        async with self._session(connection.WRITE_SECONDS):
            for ids in connection.batches(sorted(page_ids), connection.IDS):
                await self._delete_pages(self._pages, client_id, filters.among(ids))

    async def destroy(self) -> None:
        async with self._session(connection.WRITE_SECONDS):
            await self._client.collections.delete(self._pages)
        self._known = None

    async def _best(
        self,
        viewer: scope.Scope,
        ask: Callable[[FilterReturn | None], Callable[[Any], Awaitable[Any]]],
        own: Sequence[FilterReturn],
        sources: Collection[str] | None,
        limit: int,
        score: Callable[[Any], float],
    ) -> list[model.Hit]:
        """Of each tenant in which the viewer's pages can lie."""
        narrowed = filters.admits(selection.Selection(sources=None if sources is None else tuple(sources)))

        async def within(client: str) -> list[model.Hit]:
            wanted = [*own, *narrowed, *([filters.sees(viewer)] if client else [])]
            rows = await self._in(self._pages, client, ask(Filter.all_of(wanted) if wanted else None))
            # A page without vectors is as far away as can be.
            return [_hit(client, row, score(row)) for row in rows if math.isfinite(score(row))]

        answers = await asyncio.gather(*(within(client) for client in visibility.clients(viewer)))
        hits = [hit for some in answers for hit in some]
        return sorted(hits, key=lambda hit: (-hit.score, hit.page_id))[:limit]

    async def _everywhere(
        self, client_id: str, where: FilterReturn, today: FilterReturn | None = None, *, anew: bool = True
    ) -> int:
        """Delete what matches, in the collections of every model, `today` in that of the present one; how many. `anew`:
        list the collections, though they are known."""
        gone = 0
        async with self._session(connection.WRITE_SECONDS):
            if anew or self._known is None:
                listed = await self._client.collections.list_all()
                self._known = {name for name in listed if name.startswith(f"{self._prefix}PageV")}
            # The present one may have been made by another process since.
            for name in sorted({*self._known, self._pages}):
                chosen = today if today is not None and name == self._pages else where
                gone += await self._delete_pages(name, client_id, chosen)
        return gone

    async def _delete_pages(self, name: str, client_id: str, where: FilterReturn) -> int:
        gone = 0
        tenant = self._tenant(name, client_id)
        while True:
            try:
                # One call deletes at most Weaviate's QUERY_MAXIMUM_RESULTS.
                result = await tenant.data.delete_many(where)
            except WeaviateBaseError as error:
                if faults.no_tenant(error) or faults.no_collection(error):
                    return gone
                raise
            if result.failed:
                raise errors.Away("weaviate", f"{result.failed} pages could not be deleted")
            gone += int(result.successful)
            if result.matches == 0 or result.successful == 0:
                return gone

    async def _vacate(self, client_id: str) -> None:
        """Let go of the client's tenants, where they are empty."""

        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(limit=1, return_properties=[])

        async with self._session(connection.WRITE_SECONDS):
            for name in await self._client.collections.list_all():
                if name.startswith(f"{self._prefix}PageV") and not await self._in(name, client_id, ask):
                    tenants = self._client.collections.use(name).tenants
                    if record.tenant(client_id) in await tenants.get():
                        await tenants.remove([record.tenant(client_id)])

    async def _insert_pages(self, client_id: str, objects: Sequence[DataObject[Any, Any]]) -> None:
        try:
            result = await self._tenant(self._pages, client_id).data.insert_many(objects)
        except WeaviateInsertManyAllFailedError as error:
            refused = str(error.message)
        else:
            refused = next((one.message for one in result.errors.values()), "")
        if refused:
            if _LENGTH.search(refused):
                raise errors.Unconfigured(
                    f"visual model {self._model!r} gives vectors of another dimension than those stored: {refused}",
                    field="visualModel",
                    remedy="Give the other model another name, so that it has an index of its own.",
                )
            self._complete = self._made = False
            raise errors.Away("weaviate", refused[:300], retry_after=2)

    def _object(self, page: model.Indexed) -> DataObject[Any, Any]:
        source = page.source
        properties = {
            "projectId": source.owner.project_id or record.NONE,
            "groupId": source.owner.group_id or record.NONE,
            "documentId": source.document_id,
            "sourceUrn": source.source_urn,
            "workId": source.id,
            "model": self._model or record.NONE,
            "number": page.number,
            "seenOnly": page.seen_only,
            "textTerms": " ".join(words.terms(page.text, folded=self._folded)),
        }
        vector: Any = {schema.VECTOR: page.vectors.tolist()} if len(page.vectors) else None
        return DataObject(properties, uuid=page.id, vector=vector)


def _hit(client_id: str, row: Any, score: float) -> model.Hit:
    owner = record.owner(client_id, row.properties)
    return model.Hit(str(row.uuid), str(row.properties["documentId"]), owner, float(score))
