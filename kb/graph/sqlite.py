"""The embedded graph store: one SQLite file, for a knowledge base on one machine.

Two tables carry the graph: `mentions` (node <- sentence) and `evidence` (edge <- sentence). Nodes and edges are the
distinct keys of these, so that taking a document's rows away leaves exactly what the others say.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from crds import scope
from kb import selection, sqlite
from kb.graph import codec, model, statements, traversal


class Store:
    """Implements `kb.graph.store.Store` over `path`."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite.Database(
            path, statements.SCHEMA, version=statements.VERSION, migrations={1: _from_version_1, 2: _from_version_2}
        )

    async def prepare(self) -> None:
        await self._database.prepare()

    async def ready(self) -> None:
        await self._database.read(lambda connection: connection.execute("SELECT 1").fetchone())

    async def replace(self, owner: scope.Scope, patch: model.Patch) -> None:
        rows = codec.Rows(owner, patch)
        await self._database.write(functools.partial(_replace, rows=rows))

    async def remove(self, owner: scope.Scope, document_id: str) -> bool:
        document = codec.number(owner.client_id, document_id)

        def work(connection: sqlite3.Connection) -> bool:
            named, found = _erase(connection, document)
            _sweep(connection, named)
            return found

        return await self._database.write(work)

    async def regroup(self, owner: scope.Scope) -> list[str]:
        bound = {"client": owner.client_id, "project": owner.project_id, "grp": owner.group_id}
        rows = await self._database.write(lambda connection: connection.execute(statements.REGROUP, bound).fetchall())
        return sorted(row["document_id"] for row in rows)

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        rows = await self._rows(
            statements.COMMITTED, viewer, chunks=codec.numbers(chunk_ids), **codec.selection_of(chosen)
        )
        return {row["chunk_id"] for row in rows}

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Said]:
        rows = await self._rows(statements.MENTIONED, viewer, chunks=codec.numbers(chunk_ids))
        return codec.all_said(rows)

    async def bridges(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Bridge]:
        rows = await self._rows(statements.BRIDGES, viewer, chunks=codec.numbers(chunk_ids))
        return sorted(map(model.Bridge._make, rows))

    async def leads(
        self,
        viewer: scope.Scope,
        node_keys: Collection[str],
        chosen: selection.Selection = selection.ALL,
        *,
        per_node: int = 50,
    ) -> list[model.Lead]:
        bound = {**codec.viewer_of(viewer), **codec.selection_of(chosen), "nodes": codec.listed(node_keys)}

        def work(connection: sqlite3.Connection) -> list[model.Lead]:
            salient: dict[str, dict[str, float]] = {}
            for node, key in connection.execute(statements.NODE_IDS, bound).fetchall():
                # A chunk may mention a node in several sentences; eight at most (kb.ingest.weave).
                values = {**bound, "node": node, "rows": 8 * per_node}
                found = salient.setdefault(key, {})
                for chunk_id, salience in connection.execute(statements.LEADS, values):
                    if len(found) == per_node and chunk_id not in found:
                        break
                    found[chunk_id] = max(found.get(chunk_id, 0.0), salience)
            return [
                model.Lead(key, chunk_id, salience, len(found))
                for key, found in sorted(salient.items())
                for chunk_id, salience in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:per_node]
            ]

        return await self._database.read(work)

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, key in await self._rows(statements.NAMED, viewer, names=codec.listed(names)):
            found.setdefault(name, []).append(key)
        return found

    async def nodes(
        self,
        viewer: scope.Scope,
        *,
        keys: Collection[str] | None = None,
        text: str | None = None,
        node_type: str | None = None,
        limit: int = 50,
    ) -> list[model.Node]:
        wanted = {"nodes": None if keys is None else codec.listed(keys), "type": node_type, "limit": limit}
        bound = {**codec.viewer_of(viewer), **wanted, "text": text.casefold() if text else None}

        def work(connection: sqlite3.Connection) -> list[model.Node]:
            found = connection.execute(statements.SEARCH_NODES, bound).fetchall()
            named = {**bound, "nodes": codec.listed(row["node_key"] for row in found)}
            described: dict[str, list[sqlite3.Row]] = {}
            for row in connection.execute(statements.DESCRIBE, named):
                described.setdefault(row["node_key"], []).append(row)
            return [codec.node_of(row, described.get(row["node_key"], [])) for row in found]

        return await self._database.read(work)

    async def traverse(
        self,
        viewer: scope.Scope,
        start: Collection[str],
        steps: model.Steps,
        *,
        as_of: datetime | None = None,
    ) -> model.Walk:
        types = None if steps.edge_types is None else json.dumps(list(steps.edge_types))
        latest = None if as_of is None else selection.millis(as_of)
        bound = {**codec.viewer_of(viewer), "types": types, "latest": latest}

        def around(connection: sqlite3.Connection, keys: Sequence[str]) -> Iterable[tuple[str, list[model.Edge]]]:
            """The edges at each of the nodes, one more than may be followed."""
            ids: dict[str, list[int]] = {}
            for node, key in connection.execute(statements.NODE_IDS, {**bound, "nodes": codec.listed(keys)}):
                ids.setdefault(key, []).append(node)
            for key in sorted(ids):
                values = {**bound, "limit": steps.fan_out + 1}
                found = {
                    codec.edge_of(row)
                    for node in ids[key]
                    for row in connection.execute(statements.AROUND, {**values, "node": node})
                }
                yield key, sorted(found)

        def work(connection: sqlite3.Connection) -> model.Walk:
            present = connection.execute(statements.PRESENT, {**bound, "nodes": codec.listed(start)}).fetchall()
            walk = traversal.Traversal(steps, [row["node_key"] for row in present])
            while frontier := walk.frontier():
                walk.step(around(connection, frontier))
            among = {**bound, "nodes": codec.listed(walk.seen()), "limit": traversal.EDGES + 1}
            edges = [codec.edge_of(row) for row in connection.execute(statements.AMONG, among)]
            return walk.finish(edges)

        return await self._database.read(work)

    async def relationships(
        self,
        viewer: scope.Scope,
        *,
        source: str | None = None,
        edge_type: str | None = None,
        target: str | None = None,
        limit: int = 200,
    ) -> list[model.Said]:
        bound = {"source": source, "type": edge_type, "target": target, "limit": limit}
        return codec.all_said(await self._rows(statements.PROOFS, viewer, **bound))

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        rows = await self._rows(statements.EDGES, viewer, limit=limit)
        return [model.Proven(codec.edge_of(row), tuple(sorted(json.loads(row["chunks"])))) for row in rows]

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
        last = beginning + _LAST_CHARACTER * _URN_CHARS
        bound = {"kind": kind, "beginning": beginning, "last": last, "after": after, "limit": limit}
        return [codec.document_of(row) for row in await self._rows(statements.DOCUMENTS, owner, **bound)]

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        rows = await self._rows(statements.COUNTS, viewer)
        return model.Counts(*rows[0])

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Committed], str | None]:
        bound = {"client": client_id, "after": int(after) if after else _FIRST, "limit": limit, "chunks": None}

        def work(connection: sqlite3.Connection) -> tuple[list[model.Committed], str | None]:
            page, last = _audited(connection, bound)
            return page, str(last) if len(page) == limit else None

        return await self._database.read(work)

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Committed]:
        bound = {"client": client_id, "after": _FIRST, "limit": -1, "chunks": codec.numbers(chunk_ids)}
        page, _ = await self._database.read(lambda connection: _audited(connection, bound))
        return {one.chunk_id: one for one in page}

    async def clients(self) -> list[str]:
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT DISTINCT client FROM documents ORDER BY 1").fetchall()
        )
        return [row["client"] for row in rows]

    async def close(self) -> None:
        await self._database.close()

    async def _rows(self, statement: str, viewer: scope.Scope, **values: Any) -> list[sqlite3.Row]:
        bound = {**codec.viewer_of(viewer), **values}
        return await self._database.read(lambda connection: connection.execute(statement, bound).fetchall())


# The least number that SQLite has for a row.
_FIRST = -(1 << 63)
_LAST_CHARACTER, _URN_CHARS = chr(0x10FFFF), 1024


def _replace(connection: sqlite3.Connection, rows: codec.Rows) -> None:
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


def _sweep(connection: sqlite3.Connection, nodes: Collection[int]) -> None:
    """Take away those of `nodes` that nothing mentions any more."""
    connection.executemany(statements.DROP_LONELY, [(node, node) for node in nodes])


def _audited(connection: sqlite3.Connection, bound: dict[str, Any]) -> tuple[list[model.Committed], int | None]:
    """What the graph holds of a client's chunks, and the row of the last of them."""
    rows = connection.execute(statements.AUDIT, bound).fetchall()
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


def _from_version_1(connection: sqlite3.Connection) -> None:
    connection.create_function("number", -1, codec.number, deterministic=True)
    connection.create_function("salience", 2, model.salience, deterministic=True)
    connection.create_function("name_of", 1, model.name_of, deterministic=True)
    for script in (statements.MOVE_ASIDE, statements.SCHEMA, statements.CARRY_OVER):
        for statement in script.split(";"):
            connection.execute(statement)


def _from_version_2(connection: sqlite3.Connection) -> None:
    for statement in statements.INDEX_SOURCES:
        connection.execute(statement)


def _gathered(pairs: Iterable[tuple[int, str]]) -> dict[int, set[str]]:
    gathered: dict[int, set[str]] = {}
    for place, text in pairs:
        gathered.setdefault(place, set()).add(text)
    return gathered
