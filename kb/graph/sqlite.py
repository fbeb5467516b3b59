"""The embedded graph store: one SQLite file, for a knowledge base on one machine.

Two tables carry the graph: `mentions` (node <- sentence) and `evidence` (edge <- sentence). Nodes and edges are the
distinct keys of these, so that taking a document's rows away leaves exactly what the others say.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from crds import scope
from kb import sqlite
from kb.graph import model, statements


class Store:
    """Implements `kb.graph.store.Store` over `path`."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite.Database(path, statements.SCHEMA, version=1)

    async def prepare(self) -> None:
        await self._database.prepare()

    async def ready(self) -> None:
        await self._database.read(lambda connection: connection.execute("SELECT 1").fetchone())

    async def replace(self, owner: scope.Scope, patch: model.Patch) -> None:
        def work(connection: sqlite3.Connection) -> None:
            document = patch.document
            client = owner.client_id
            _erase(connection, client, document.id)
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    client,
                    document.id,
                    owner.project_id,
                    owner.group_id,
                    document.source_urn,
                    document.kind,
                    document.title,
                ),
            )
            connection.executemany(
                "INSERT INTO chunks VALUES (?, ?, ?)", [(client, chunk_id, document.id) for chunk_id in patch.chunk_ids]
            )
            connection.executemany(
                "INSERT INTO mentions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(client, m.node_key, m.chunk_id, m.sentence_id, document.id, *_said(m)) for m in patch.mentions],
            )
            connection.executemany(
                "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (client, e.source, e.type, e.target, e.chunk_id, e.sentence_id, document.id, e.sentence)
                    for e in patch.evidence
                ],
            )

        await self._database.write(work)

    async def remove(self, owner: scope.Scope, document_id: str) -> bool:
        return await self._database.write(lambda connection: _erase(connection, owner.client_id, document_id))

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], kinds: Sequence[str] | None = None
    ) -> set[str]:
        rows = await self._rows(statements.COMMITTED, viewer, chunks=_list(chunk_ids), kinds=_kinds(kinds))
        return {row["chunk_id"] for row in rows}

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Reach]:
        rows = await self._rows(statements.MENTIONED, viewer, chunks=_list(chunk_ids))
        return [_reach(row, _edge(row) if row["source"] else None) for row in rows]

    async def reach(
        self,
        viewer: scope.Scope,
        chunk_ids: Collection[str],
        *,
        kinds: Sequence[str] | None = None,
        per_node: int = 50,
        limit: int = 1000,
    ) -> list[model.Reach]:
        chunks = _list(chunk_ids)
        start = await self.mentioned(viewer, chunk_ids)
        nodes = sorted({mention.node_key for mention in start})
        around = await self._rows(statements.AROUND, viewer, nodes=json.dumps(nodes), limit=limit)
        crossed: dict[str, model.Edge | None] = dict.fromkeys(nodes)
        for row in around:
            edge = _edge(row)
            for node in (edge.source, edge.target):
                crossed.setdefault(node, edge)
        rows = await self._rows(
            statements.ELSEWHERE,
            viewer,
            nodes=json.dumps(sorted(crossed)),
            chunks=chunks,
            kinds=_kinds(kinds),
            per_node=per_node,
            limit=limit,
        )
        return [_reach(row, crossed[row["node_key"]]) for row in rows]

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], *, hops: int = 2, limit: int = 500
    ) -> list[model.Visit]:
        present = await self._rows(statements.PRESENT, viewer, nodes=_list(start))
        visits = [model.Visit(row["node_key"], 0, None) for row in present][:limit]
        seen = {visit.node_key for visit in visits}
        frontier = sorted(seen)
        for hop in range(1, hops + 1):
            if not frontier or len(visits) >= limit:
                break
            # Twice the room: an edge back to a node already seen takes a row too.
            rows = await self._rows(statements.AROUND, viewer, nodes=json.dumps(frontier), limit=2 * limit)
            met: dict[str, model.Edge] = {}
            for edge in map(_edge, rows):
                for node in (edge.source, edge.target):
                    if node not in seen:
                        met.setdefault(node, edge)
            frontier = sorted(met)[: limit - len(visits)]
            visits += [model.Visit(node, hop, met[node]) for node in frontier]
            seen.update(frontier)
        return visits

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        rows = await self._rows(statements.EDGES, viewer, limit=limit)
        return [model.Proven(_edge(row), tuple(sorted(json.loads(row["chunks"])))) for row in rows]

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        rows = await self._rows(statements.COUNTS, viewer)
        return model.Counts(*rows[0])

    async def close(self) -> None:
        await self._database.close()

    async def _rows(self, statement: str, viewer: scope.Scope, **values: Any) -> list[sqlite3.Row]:
        bound = {"client": viewer.client_id, "project": viewer.project_id, "grp": viewer.group_id, **values}
        return await self._database.read(lambda connection: connection.execute(statement, bound).fetchall())


def _erase(connection: sqlite3.Connection, client: str, document_id: str) -> bool:
    found = connection.execute("DELETE FROM documents WHERE client = ? AND document_id = ?", (client, document_id))
    for table in ("chunks", "mentions", "evidence"):
        # The table's name is one of the three above.
        connection.execute(f"DELETE FROM {table} WHERE client = ? AND document_id = ?", (client, document_id))  # noqa: S608
    return found.rowcount > 0


def _said(mention: model.Mention) -> tuple[str, str, str, str]:
    return mention.sentence, mention.node_type, mention.name, mention.description


def _reach(row: sqlite3.Row, edge: model.Edge | None) -> model.Reach:
    document = model.Document(row["document_id"], row["source_urn"], row["kind"], row["title"])
    return model.Reach(row["chunk_id"], document, row["node_key"], edge, row["sentence_id"], row["sentence"])


def _edge(row: sqlite3.Row) -> model.Edge:
    return model.Edge(row["source"], row["type"], row["target"])


def _list(values: Collection[str]) -> str:
    return json.dumps(sorted(values))


def _kinds(kinds: Sequence[str] | None) -> str | None:
    return None if kinds is None else json.dumps(list(kinds))
