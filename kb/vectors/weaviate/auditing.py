"""Looking through everything that a client owns, for whoever compares the stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from kb.vectors import model, record
from kb.vectors.weaviate import connection, filters

_AUDITED = ["projectId", "groupId", "documentId", "sourceUrn", "graphRefs"]
_AUDITED_SENTENCE = ["projectId", "groupId", "documentId", "chunkId"]
_FIRST = "00000000-0000-0000-0000-000000000000"


class Auditing(connection.Connection):
    """The part of the port that goes by the client alone."""

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Stored], str | None]:
        rows, following = await self._page(self._chunks_name, client_id, _AUDITED, after, limit)
        return [record.stored(client_id, str(row.uuid), row.properties) for row in rows], following

    async def audit_sentences(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.StoredSentence], str | None]:
        rows, following = await self._page(self._sentences_name, client_id, _AUDITED_SENTENCE, after, limit)
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
            where = filters.among(ids)
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), return_properties=_AUDITED)

        found: dict[str, model.Stored] = {}
        async with self._session(connection.READ_SECONDS):
            for ids in connection.batches(sorted(chunk_ids), connection.IDS):
                rows = await self._in(self._chunks_name, client_id, ask(ids))
                found |= {str(row.uuid): record.stored(client_id, str(row.uuid), row.properties) for row in rows}
        return found

    async def _page(
        self, name: str, client_id: str, names: list[str], after: str | None, limit: int
    ) -> tuple[list[Any], str | None]:
        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(limit=limit, after=after or _FIRST, return_properties=names)

        async with self._session(connection.READ_SECONDS):
            rows = await self._in(name, client_id, ask)
        return rows, str(rows[-1].uuid) if len(rows) == limit else None
