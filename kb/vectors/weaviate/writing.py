"""Storing, changing and deleting."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from weaviate.classes.data import DataObject
from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn
from weaviate.exceptions import WeaviateBaseError, WeaviateInsertManyAllFailedError

from crds import scope
from kb import errors
from kb.vectors import model, record
from kb.vectors.weaviate import connection, faults, filters, gathering

_BATCH = 200
_Place = tuple[str, str]
"""Name of the collection, client."""


class Writing(connection.Connection):
    """The part of the port that changes what is stored."""

    def __init__(self, url: str, grpc_port: int, embed_model: str, *, index: str = "") -> None:
        super().__init__(url, grpc_port, embed_model, index=index)
        self._gathered = gathering.Gathering(self._send, most=_BATCH)

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
        async with self._session(connection.WRITE_SECONDS):
            for name, objects in ((self._chunks_name, rows), (self._sentences_name, lines)):
                for batch in connection.batches(objects, _BATCH):
                    await self._insert(name, owner.client_id, batch)

    async def touch(self, owner: scope.Scope, chunks: Sequence[model.Chunk]) -> None:
        async with self._session(connection.WRITE_SECONDS):
            tenant = self._tenant(self._chunks_name, owner.client_id)
            for chunk in chunks:
                properties = record.of_chunk(owner, chunk, self._model, 0)
                del properties["dimension"]
                await tenant.data.update(chunk.id, properties=properties)

    async def drop(self, owner: scope.Scope, document_id: str, *, keep: Collection[str] = ()) -> None:
        async with self._session(connection.WRITE_SECONDS):
            # Collections of models used before hold what was ingested then; it goes too. Sentences go first: while a
            # chunk is there, a deletion that broke off is repeated.
            ours = (f"{self._prefix}Sentence", f"{self._prefix}Chunk")
            there = [name for name in await self._client.collections.list_all() if name.startswith(ours)]
            today = {self._sentences_name, self._chunks_name}
            if not today.issubset(there):
                raise self._gone(today.difference(there))
            for name in sorted(there, key=lambda name: (name.startswith(ours[1]), name)):
                where = filters.of_document(document_id)
                if keep and name == self._chunks_name:
                    where = where & Filter.by_id().contains_none(sorted(keep))
                elif keep and name == self._sentences_name:
                    where = where & Filter.by_property("chunkId").contains_none(sorted(keep))
                try:
                    await self._delete(name, owner.client_id, where)
                except WeaviateBaseError as error:
                    if not faults.no_collection(error):
                        raise
                    # Cleared away since it was listed. One of an earlier model holds nothing of the document then, if
                    # it has really gone; with today's went what has just been stored: that has to be told.
                    if name in today or await self._client.collections.exists(name):
                        raise self._gone([name]) from error

    async def regroup(self, owner: scope.Scope) -> int:
        moved = 0
        group = owner.group_id or record.NONE
        where = Filter.by_property("projectId").equal(owner.project_id) & Filter.by_property("groupId").not_equal(group)
        async with self._session(connection.WRITE_SECONDS):
            for name in (self._chunks_name, self._sentences_name):
                moved += await self._regroup(name, owner, group, where)
        return moved

    async def discard(self, client_id: str, *, chunk_ids: Collection[str], sentence_ids: Collection[str]) -> None:
        async with self._session(connection.WRITE_SECONDS):
            for name, wanted in ((self._sentences_name, sentence_ids), (self._chunks_name, chunk_ids)):
                for ids in connection.batches(sorted(wanted), connection.IDS):
                    await self._delete(name, client_id, filters.among(ids))

    async def destroy(self) -> None:
        """Delete the collections of this embedding model, for every client."""
        async with self._session(connection.WRITE_SECONDS):
            await self._client.collections.delete([self._chunks_name, self._sentences_name])

    async def _regroup(self, name: str, owner: scope.Scope, group: str, where: FilterReturn) -> int:
        """Write the objects that match again with another group; repeated until none matches."""

        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(filters=where, limit=_BATCH, include_vector=True)

        moved = 0
        while rows := await self._in(name, owner.client_id, ask):
            objects = []
            for row in rows:
                properties: dict[str, Any] = {**row.properties, "groupId": group}
                if name == self._chunks_name:
                    properties["revision"] = record.chunk(str(row.uuid), row.properties).revision(owner)
                objects.append(DataObject(properties, uuid=row.uuid, vector=row.vector["default"]))
            await self._insert(name, owner.client_id, objects)
            moved += len(objects)
        return moved

    def _gone(self, names: Collection[str]) -> errors.Away:
        """What to raise for collections that ought to be there. Today's are made again by the next call."""
        self._complete = False
        return errors.Away("weaviate", f"it does not have {', '.join(sorted(names))} now", retry_after=2)

    async def _insert(self, name: str, client_id: str, objects: Sequence[DataObject[Any, Any]]) -> None:
        """Insert or overwrite. Raises the first of the errors that objects met."""
        refused = await self._gathered.store((name, client_id), objects)
        if refused is not None:
            faults.refuse_dimensions(refused, self._model)
            self._complete = False
            raise errors.Away("weaviate", refused[:300], retry_after=2)

    async def _send(self, place: _Place, objects: Sequence[DataObject[Any, Any]]) -> dict[int, str]:
        try:
            result = await self._tenant(*place).data.insert_many(objects)
        except WeaviateInsertManyAllFailedError as error:
            # The driver's way of saying that none was stored: what it says is then true of each.
            return dict.fromkeys(range(len(objects)), str(error.message))
        return {at: error.message for at, error in result.errors.items()}

    async def _delete(self, name: str, client_id: str, where: FilterReturn) -> None:
        tenant = self._tenant(name, client_id)
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
