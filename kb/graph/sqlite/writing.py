"""Committing and forgetting documents: each is one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

from crds import scope
from kb import errors, identity
from kb.graph import codec, model, statements
from kb.graph.sqlite import file


class Writing(file.File):
    """The part of the port that changes what is stored."""

    async def replace(self, owner: scope.Scope, patch: model.Patch, *, fence: int = 0) -> None:
        rows = codec.Rows(owner, patch)

        def work(connection: sqlite3.Connection) -> None:
            _pass(connection, rows.document_number, fence)
            _replace(connection, rows)

        await self._database.write(work)

    async def remove(self, owner: scope.Scope, document_id: str, *, fence: int = 0) -> bool:
        document = codec.number(owner.client_id, document_id)
        past = {"past": codec.past(owner.client_id), "document": document_id}

        def work(connection: sqlite3.Connection) -> bool:
            _pass(connection, document, fence)
            _drop(connection, statements.VERSIONS_OF, past)
            named, found = _erase(connection, document)
            _sweep(connection, named)
            return found

        return await self._database.write(work)

    async def forget_fences(self, before: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute(statements.FENCES)
            return connection.execute("DELETE FROM fences WHERE fence < ?", (before,)).rowcount

        return await self._database.write(work)

    async def versions(self, owner: scope.Scope, document_id: str) -> list[model.Version]:
        client = owner.client_id
        present = codec.number(client, document_id)
        bound = {"present": present, "past": codec.past(client), "document": document_id}

        def work(connection: sqlite3.Connection) -> list[model.Version]:
            found = []
            for row in connection.execute(statements.VERSIONS, bound).fetchall():
                ids = [chunk_id for (chunk_id,) in connection.execute(statements.CHUNKS_OF, (row["id"],))]
                document = codec.document_of(row)
                replaced = identity.version(document_id, row["revision"], document.start_ms)
                found.append(codec.version_of(row, document_id if row["id"] == present else replaced, ids))
            return found

        return await self._database.read(work)

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None, fence: int = 0) -> int:
        bound = {"past": codec.past(client_id), "before": before_ms, "document": document_id}
        statement = statements.EXPIRED_OF_CLIENT if document_id is None else statements.EXPIRED

        def work(connection: sqlite3.Connection) -> int:
            if document_id is not None:
                _pass(connection, codec.number(client_id, document_id), fence)
            return _drop(connection, statement, bound)

        return await self._database.write(work)

    async def vacate(self, client_id: str) -> None:
        """Nothing: a client has no tables of its own."""

    async def regroup(self, owner: scope.Scope) -> list[str]:
        place = {"client": owner.client_id, "past": codec.past(owner.client_id)}
        bound = {**place, "project": owner.project_id, "grp": owner.group_id}
        rows = await self._database.write(lambda connection: connection.execute(statements.REGROUP, bound).fetchall())
        return sorted({row["document_id"] for row in rows})


def _pass(connection: sqlite3.Connection, document: int, fence: int) -> None:
    """Let the owner with this fence write, unless a newer one has written already."""
    if not fence:
        return
    connection.execute(statements.FENCES)
    if connection.execute(statements.LATER, (document, fence)).rowcount == 0:
        raise errors.Outrun("another process has written the document meanwhile")


def _replace(connection: sqlite3.Connection, rows: codec.Rows) -> None:
    if rows.keep is not None:
        connection.create_function("number", -1, codec.number, deterministic=True)
        connection.create_function("past", 2, identity.past, deterministic=True)
        _erase(connection, rows.keep["number"])
        for statement in statements.KEEP:
            connection.execute(statement, rows.keep)
    named, _ = _erase(connection, rows.document_number)
    connection.execute(statements.PUT_DOCUMENT, rows.document)
    connection.executemany(statements.PUT_CHUNK, rows.chunks)
    connection.executemany(statements.PUT_SENTENCE, rows.sentences)
    connection.executemany(statements.PUT_NODE, rows.nodes)
    connection.executemany(statements.PUT_MENTION, rows.mentions)
    connection.executemany(statements.PUT_EVIDENCE, rows.evidence)
    _sweep(connection, named - {row[0] for row in rows.nodes})


def _erase(connection: sqlite3.Connection, document: int) -> tuple[set[int], bool]:
    """Take a document's rows away; returns the nodes that it named, and whether it was there."""
    named = {row[0] for row in connection.execute(statements.NAMED_BY, (document,))}
    found = 0
    for statement in statements.ERASE:
        found = connection.execute(statement, (document,)).rowcount
    return named, found > 0


def _drop(connection: sqlite3.Connection, versions: str, bound: dict[str, Any]) -> int:
    """Take away the versions that a statement names; how many that were."""
    numbers = [number for (number,) in connection.execute(versions, bound)]
    for number in numbers:
        named, _ = _erase(connection, number)
        _sweep(connection, named)
    return len(numbers)


def _sweep(connection: sqlite3.Connection, nodes: Collection[int]) -> None:
    """Take away those of `nodes` that nothing mentions any more."""
    connection.executemany(statements.DROP_LONELY, [(node, node) for node in nodes])
