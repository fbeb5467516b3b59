"""Looking through everything that a client owns, for the repair of documents and the comparison of stores."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

from crds import scope
from kb import errors
from kb.graph import codec, model, statements
from kb.graph.sqlite import file

# The least number that SQLite has for a row.
_FIRST = -(1 << 63)


class Upkeep(file.File):
    """The part of the port that goes by the client alone."""

    async def naming(
        self, owner: scope.Scope, node_key: str, *, after: str = "", limit: int = 500
    ) -> list[tuple[model.Document, scope.Scope]]:
        rows = await self._rows(statements.NAMING, owner, node=node_key, after=after, limit=limit)
        return [
            (
                codec.document_of(row),
                scope.Scope(client_id=owner.client_id, project_id=row["project"], group_id=row["grp"]),
            )
            for row in rows
        ]

    async def documents(
        self, owner: scope.Scope, kind: str, beginning: str, *, after: str = "", limit: int = 500
    ) -> list[model.Document]:
        last = file.last(beginning)
        bound: dict[str, Any] = {"kind": kind, "beginning": beginning, "last": last, "after": after, "limit": limit}
        return [codec.document_of(row) for row in await self._rows(statements.DOCUMENTS, owner, **bound)]

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Committed], str | None]:
        if after and not after.removeprefix("-").isdecimal():
            raise errors.Invalid(f"{after!r} is no place in this store", field="after", remedy="Give what a page gave.")
        first = int(after) if after else _FIRST
        bound = {"client": client_id, "past": codec.past(client_id), "after": first, "limit": limit}
        statement = statements.AUDIT
        if document_ids is not None:
            statement = statements.AUDIT_OF
            numbers = [codec.number(client_id, one) for one in document_ids]
            bound |= {"numbers": json.dumps(numbers), "documents": codec.listed(document_ids)}

        def work(connection: sqlite3.Connection) -> tuple[list[model.Committed], str | None]:
            page, last = _audited(connection, bound, statement)
            return page, str(last) if len(page) == limit else None

        return await self._database.read(work)

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Committed]:
        bound = {"client": client_id, "past": codec.past(client_id), "chunks": codec.numbers(chunk_ids)}
        page, _ = await self._database.read(lambda connection: _audited(connection, bound, statements.HELD))
        return {one.chunk_id: one for one in page}

    async def clients(self) -> list[str]:
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT DISTINCT client FROM documents WHERE client < ? ORDER BY 1", (codec.past(""),)
            ).fetchall()
        )
        return [row["client"] for row in rows]


def _audited(
    connection: sqlite3.Connection, bound: dict[str, Any], statement: str
) -> tuple[list[model.Committed], int | None]:
    """What the graph holds of a client's chunks, and the row of the last of them."""
    rows = connection.execute(statement, bound).fetchall()
    chunks = {"chunks": json.dumps([row["id"] for row in rows])}
    keys = _gathered(connection.execute(statements.AUDIT_NODES, chunks))
    sentences = _gathered(connection.execute(statements.AUDIT_SENTENCES, chunks))
    page = [
        model.Committed(
            row["chunk_id"],
            scope.Scope(client_id=bound["client"], project_id=row["project"], group_id=row["grp"]),
            codec.document_of(row),
            tuple(sorted(keys.get(row["id"], ()))),
            tuple(sorted(sentences.get(row["id"], ()))),
        )
        for row in rows
    ]
    return page, rows[-1]["id"] if rows else None


def _gathered(pairs: Iterable[tuple[int, str]]) -> dict[int, set[str]]:
    gathered: dict[int, set[str]] = {}
    for place, text in pairs:
        gathered.setdefault(place, set()).add(text)
    return gathered
