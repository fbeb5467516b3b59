"""Looking through everything that a client owns, for the comparison of the stores."""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from weaviate.classes.query import Sort

from kb import errors
from kb.vectors import model, record
from kb.vectors.weaviate import connection, filters

_AUDITED = ["projectId", "groupId", "documentId", "sourceUrn", "graphRefs", "revision"]
_AUDITED_SENTENCE = ["projectId", "groupId", "documentId", "chunkId"]
_PAST = "past:"
# Tenants in which a stored vector is looked for.
_LOOKED = 20
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST = "00000000-0000-0000-0000-000000000000"


class Auditing(connection.Connection):
    """The part of the port that goes by the client alone."""

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Stored], str | None]:
        rows, following = await self._page(self._chunks_name, client_id, _AUDITED, after, limit, document_ids)
        return [record.stored(client_id, str(row.uuid), row.properties) for row in rows], following

    async def audit_sentences(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.StoredSentence], str | None]:
        rows, following = await self._page(
            self._sentences_name, client_id, _AUDITED_SENTENCE, after, limit, document_ids
        )
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
            batches = connection.batches(sorted(chunk_ids), connection.IDS)
            for ids, past in itertools.product(batches, (False, True)):
                rows = await self._in(self._chunks_name, client_id, ask(ids), history=past)
                found |= {str(row.uuid): record.stored(client_id, str(row.uuid), row.properties) for row in rows}
        return found

    async def held_sentences(self, client_id: str, sentence_ids: Collection[str]) -> set[str]:
        def ask(ids: Sequence[str]) -> Callable[[Any], Awaitable[Any]]:
            where = filters.among(ids)
            return lambda tenant: tenant.query.fetch_objects(filters=where, limit=len(ids), return_properties=[])

        found: set[str] = set()
        async with self._session(connection.READ_SECONDS):
            batches = connection.batches(sorted(sentence_ids), connection.IDS)
            for ids, past in itertools.product(batches, (False, True)):
                rows = await self._in(self._sentences_name, client_id, ask(ids), history=past)
                found |= {str(row.uuid) for row in rows}
        return found

    async def size(self, client_id: str) -> tuple[int, int]:
        async def ask(tenant: Any) -> Any:
            return [(await tenant.aggregate.over_all(total_count=True)).total_count or 0]

        async with self._session(connection.READ_SECONDS):
            chunks, sentences = [
                sum([count for past in (False, True) for count in await self._in(name, client_id, ask, history=past)])
                for name in (self._chunks_name, self._sentences_name)
            ]
            return chunks, sentences

    async def dimension(self) -> int | None:
        async def ask(tenant: Any) -> Any:
            return await tenant.query.fetch_objects(limit=1, return_properties=["dimension"])

        async with self._session(connection.READ_SECONDS):
            tenants = await self._client.collections.use(self._chunks_name).tenants.get()
            for own in sorted(tenants)[:_LOOKED]:
                found = await ask(self._client.collections.use(self._chunks_name).with_tenant(own))
                for row in found.objects:
                    return int(row.properties["dimension"])
        return None

    async def _page(
        self,
        name: str,
        client_id: str,
        names: list[str],
        after: str | None,
        limit: int,
        document_ids: Collection[str] | None,
    ) -> tuple[list[Any], str | None]:
        """First the present, then the history, whose cursor begins so."""
        past, place = (after or "").startswith(_PAST), (after or "").removeprefix(_PAST)
        if place and not _ID.fullmatch(place):
            raise errors.Invalid(f"{after!r} is no place in this store", field="after", remedy="Give what a page gave.")

        async def page(history: bool, place: str, size: int) -> tuple[list[Any], str | None]:
            first = place or _FIRST

            async def ask(tenant: Any) -> Any:
                if document_ids is None:
                    return await tenant.query.fetch_objects(limit=size, after=first, return_properties=names)
                # The server refuses a cursor beside a filter; what follows an id is a filter too.
                where = filters.of_documents(document_ids) & filters.following(first)
                return await tenant.query.fetch_objects(
                    filters=where, sort=Sort.by_id(), limit=size, return_properties=names
                )

            rows = await self._in(name, client_id, ask, history=history)
            return rows, str(rows[-1].uuid) if len(rows) == size else None

        async with self._session(connection.READ_SECONDS):
            rows, last = await page(past, place, limit)
            if past or last is not None:
                return rows, last and f"{_PAST if past else ''}{last}"
            rest, last = await page(True, "", limit - len(rows))
            return rows + rest, last and f"{_PAST}{last}"
