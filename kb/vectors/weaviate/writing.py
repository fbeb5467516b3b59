"""Storing, changing and deleting."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import WeaviateBaseError, WeaviateInsertManyAllFailedError

from crds import scope
from kb import batching, errors, identity
from kb.vectors import model, record
from kb.vectors.weaviate import connection, faults, filters, schema

_BATCH = 200
_Place = tuple[str, str, bool]
"""Name of the collection, client, whether it is that client's history."""


class Writing(connection.Connection):
    """The part of the port that changes what is stored."""

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
        self._inserting = batching.Batcher(self._send, most=_BATCH)

    async def put(
        self,
        owner: scope.Scope,
        chunks: Sequence[tuple[model.Chunk, model.Vector]],
        sentences: Sequence[tuple[model.Sentence, model.Vector]],
    ) -> None:
        rows = [(c, self._properties(owner, c, len(v)), v) for c, v in chunks]
        lines = [(s, record.of_sentence(owner, s, self._model, len(v)), v) for s, v in sentences]
        async with self._session(connection.WRITE_SECONDS):
            for (name, made), past in itertools.product(
                ((self._chunks_name, rows), (self._sentences_name, lines)), (False, True)
            ):
                objects = [
                    DataObject(properties, uuid=one.id, vector=vector)
                    for one, properties, vector in made
                    if (one.until_ms is not None) is past
                ]
                for batch in connection.batches(objects, _BATCH):
                    await self._insert((name, owner.client_id, past), batch)

    async def keep(
        self,
        owner: scope.Scope,
        version_id: str,
        since_ms: int | None,
        until_ms: int,
        *,
        chunk_ids: Collection[str],
        sentence_ids: Collection[str],
    ) -> None:
        times = {"sinceMs": record.UNDATED if since_ms is None else since_ms, "untilMs": until_ms}

        def past(row: Any) -> DataObject[Any, Any]:
            properties: dict[str, Any] = {**row.properties, **times}
            if "chunkId" in properties:
                properties["chunkId"] = identity.past(version_id, str(properties["chunkId"]))
                del properties["sinceMs"]
            return DataObject(properties, uuid=identity.past(version_id, str(row.uuid)), vector=row.vector["default"])

        def ask(ids: Sequence[str]) -> Callable[[Any], Awaitable[Any]]:
            where = filters.among(ids)
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), include_vector=True)

        async with self._session(connection.WRITE_SECONDS):
            for name, wanted in ((self._chunks_name, chunk_ids), (self._sentences_name, sentence_ids)):
                for ids in connection.batches(sorted(wanted), _BATCH):
                    rows = await self._in(name, owner.client_id, ask(ids))
                    await self._insert((name, owner.client_id, True), [past(row) for row in rows])

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None) -> None:
        where = filters.replaced_before(before_ms)
        if document_id is not None:
            where = where & filters.of_document(document_id)
        async with self._session(connection.WRITE_SECONDS):
            for name in (self._sentences_name, self._chunks_name):
                await self._delete(name, client_id, where, history=True)

    async def vacate(self, client_id: str) -> None:
        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(limit=1, return_properties=[])

        async with self._session(connection.WRITE_SECONDS):
            for name, past in itertools.product((self._sentences_name, self._chunks_name), (False, True)):
                if await self._in(name, client_id, ask, history=past):
                    return
            # Every question asks the global tenant: it stays.
            gone = [record.tenant(client_id, history=past) for past in (False, True) if client_id or past]
            for name in await self._client.collections.list_all():
                if name.startswith((f"{self._prefix}Sentence", f"{self._prefix}Chunk")):
                    tenants = self._client.collections.use(name).tenants
                    there = await tenants.get()
                    if known := [one for one in gone if one in there]:
                        await tenants.remove(known)

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        async with self._session(connection.WRITE_SECONDS):
            for chunk in chunks:
                tenant = self._tenant(self._chunks_name, owner.client_id, chunk.until_ms is not None)
                properties = self._properties(owner, chunk, 0)
                del properties["dimension"]
                await tenant.data.update(chunk.id, properties=properties)

    async def drop(
        self,
        owner: scope.Scope,
        document_id: str,
        *,
        keep: Collection[str] = (),
        known: Mapping[str, str] | None = None,
    ) -> None:
        async with self._session(connection.WRITE_SECONDS):
            # Collections of models used before hold what was ingested then; it goes too. Sentences go first: while a
            # chunk is there, a deletion that broke off is repeated.
            ours = (f"{self._prefix}Sentence", f"{self._prefix}Chunk")
            there = [name for name in await self._client.collections.list_all() if name.startswith(ours)]
            today = {self._sentences_name, self._chunks_name}
            if not today.issubset(there):
                raise self._gone(today.difference(there))
            if keep:
                there = [name for name in there if name not in self._beside]
            for name in sorted(there, key=lambda name: (name.startswith(ours[1]), name)):
                where = filters.of_document(document_id)
                if known is not None and name in today:
                    gone = {key: revision for key, revision in known.items() if key not in keep}
                    await self._drop_known(name, owner.client_id, gone)
                    if not keep:
                        await self._delete(name, owner.client_id, where, history=True)
                    continue
                if keep and name == self._chunks_name:
                    where = where & Filter.by_id().contains_none(sorted(keep))
                elif keep and name == self._sentences_name:
                    where = where & Filter.by_property("chunkId").contains_none(sorted(keep))
                try:
                    await self._delete(name, owner.client_id, where)
                    if not keep:
                        await self._delete(name, owner.client_id, where, history=True)
                except WeaviateBaseError as error:
                    if not faults.no_collection(error):
                        raise
                    # Cleared away since it was listed. One of an earlier model holds nothing of the document then, if
                    # it has really gone; with today's went what has just been stored: that has to be told.
                    if name in today or await self._client.collections.exists(name):
                        raise self._gone([name]) from error

    async def _drop_known(self, name: str, client_id: str, gone: Mapping[str, str]) -> None:
        for some in connection.batches(sorted(gone), connection.IDS):
            if name == self._sentences_name:
                where = Filter.by_property("chunkId").contains_any(some)
            else:
                revisions = sorted({gone[key] for key in some})
                where = filters.among(some) & Filter.by_property("revision").contains_any(revisions)
            await self._delete(name, client_id, where)

    async def regroup(self, owner: scope.Scope) -> int:
        moved = 0
        group = owner.group_id or record.NONE
        where = Filter.by_property("projectId").equal(owner.project_id) & Filter.by_property("groupId").not_equal(group)
        async with self._session(connection.WRITE_SECONDS):
            for name, past in itertools.product((self._chunks_name, self._sentences_name), (False, True)):
                moved += await self._regroup((name, owner.client_id, past), owner, group, where)
        return moved

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        async with self._session(connection.WRITE_SECONDS):
            for name, wanted in ((self._sentences_name, sentence_ids), (self._chunks_name, chunk_ids)):
                for ids in connection.batches(sorted(wanted), connection.IDS):
                    for past in (False, True):
                        await self._delete(name, client_id, filters.among(ids), history=past)

    def _properties(self, owner: scope.Scope, chunk: model.Chunk, dimension: int) -> dict[str, Any]:
        return record.of_chunk(owner, chunk, self._model, dimension, folded=self._index.folded)

    async def destroy(self) -> None:
        """Delete the collections of this embedding model, for every client."""
        async with self._session(connection.WRITE_SECONDS):
            await self._client.collections.delete([self._chunks_name, self._sentences_name])

    async def _regroup(self, place: _Place, owner: scope.Scope, group: str, where: FilterReturn) -> int:
        """Write the objects that match again with another group; repeated until none matches."""

        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(filters=where, limit=_BATCH, include_vector=True)

        moved = 0
        name, client_id, past = place
        while rows := await self._in(name, client_id, ask, history=past):
            objects = []
            for row in rows:
                properties: dict[str, Any] = {**row.properties, "groupId": group}
                if name == self._chunks_name:
                    properties["revision"] = record.chunk(str(row.uuid), row.properties).revision(owner)
                objects.append(DataObject(properties, uuid=row.uuid, vector=row.vector["default"]))
            await self._insert(place, objects)
            moved += len(objects)
        return moved

    def _gone(self, names: Collection[str]) -> errors.Away:
        """What to raise for collections that ought to be there. Today's are made again by the next call."""
        self._complete = False
        return errors.Away("weaviate", f"it does not have {', '.join(sorted(names))} now", retry_after=2)

    async def _insert(self, place: _Place, objects: Sequence[DataObject[Any, Any]]) -> None:
        """Insert or overwrite. Raises the first of the errors that objects met."""
        refused = next(filter(None, await self._inserting.ask(place, objects)), "")
        if refused:
            faults.refuse_dimensions(refused, self._model)
            self._complete = False
            raise errors.Away("weaviate", refused[:300], retry_after=2)

    async def _send(self, place: _Place, objects: Sequence[DataObject[Any, Any]]) -> list[str]:
        """Why each object was refused, "" for those that were stored."""
        try:
            result = await self._tenant(*place).data.insert_many(objects)
        except WeaviateInsertManyAllFailedError as error:
            # The driver's way of saying that none was stored: what it says is then true of each.
            return [str(error.message)] * len(objects)
        return [result.errors[at].message if at in result.errors else "" for at in range(len(objects))]

    async def _delete(self, name: str, client_id: str, where: FilterReturn, *, history: bool = False) -> None:
        tenant = self._tenant(name, client_id, history)
        while True:
            # One call deletes at most Weaviate's QUERY_MAXIMUM_RESULTS.
            try:
                result = await tenant.data.delete_many(where)
            except WeaviateBaseError as error:
                if faults.no_tenant(error):
                    return
                raise
            if result.failed:
                raise errors.Away("weaviate", f"{result.failed} objects could not be deleted")
            if result.matches == 0 or result.successful == 0:
                return
