"""Answers within what a viewer may see."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from crds import scope
from kb import selection, sqlite
from kb.graph import codec, model, statements, traversal
from kb.graph.sqlite import file

_EVERYTHING = -1


class Reading(file.File):
    """The part of the port that answers questions."""

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        asked: dict[str, Any] = {"chunks": codec.numbers(chunk_ids), **codec.selection_of(chosen)}
        rows = await self._rows(statements.COMMITTED, viewer, history=chosen.as_of is not None, **asked)
        return {row["chunk_id"] for row in rows}

    async def mentioned(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> list[model.Statement]:
        rows = await self._rows(statements.MENTIONED, viewer, history=history, chunks=codec.numbers(chunk_ids))
        return sorted(codec.all_said(rows), key=model.by_place) if history else codec.all_said(rows)

    async def bridges(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> list[model.Bridge]:
        views = file.views(viewer, history=history)
        numbers = codec.numbers(chunk_ids)

        def work(connection: sqlite3.Connection) -> list[model.Bridge]:
            cursor = sqlite.plain(connection)
            chunks = _admitted(cursor, selection.ALL, views, numbers)
            rows = cursor.execute(statements.MENTIONS_IN, (json.dumps(list(chunks)),)).fetchall()
            nodes = _looked_up(cursor, statements.NODE_KEYS, {node for _, node, _ in rows})
            sentences = _looked_up(cursor, statements.SENTENCE_IDS, {sentence for *_, sentence in rows})
            return sorted(
                model.Bridge(nodes[node], chunks[chunk], sentences[sentence]) for chunk, node, sentence in rows
            )

        return await self._database.read(work)

    async def leads(
        self,
        viewer: scope.Scope,
        node_keys: Collection[str],
        chosen: selection.Selection = selection.ALL,
        *,
        per_node: int = 50,
    ) -> list[model.Lead]:
        bound = {"nodes": codec.listed(node_keys), "most": min(per_node, self._hub), **codec.selection_of(chosen)}
        views = file.views(viewer, history=chosen.as_of is not None)

        def work(connection: sqlite3.Connection) -> list[model.Lead]:
            salient: dict[str, dict[str, float]] = {}
            few: dict[int, str] = {}
            cursor = sqlite.plain(connection)
            for asked in ({**bound, **view} for view in views):
                for node, key, crowded in cursor.execute(statements.CROWDS, asked).fetchall():
                    if not crowded:
                        few[node] = key
                        continue
                    # A chunk may mention a node in several sentences; eight at most (kb.ingest.build).
                    values = {**asked, "node": node, "rows": 8 * per_node, "hub": self._hub}
                    found: dict[str, float] = {}
                    for chunk_id, salience in cursor.execute(statements.LEADS, values):
                        if len(found) == per_node and chunk_id not in found:
                            break
                        found[chunk_id] = max(found.get(chunk_id, 0.0), salience)
                    salient.setdefault(key, {}).update(found)
            rows = cursor.execute(statements.MENTIONS_OF, (json.dumps(list(few)),)).fetchall()
            chunks = _admitted(cursor, chosen, views, json.dumps(list({chunk for _, chunk, _ in rows})))
            for node, chunk, salience in rows:
                if (chunk_id := chunks.get(chunk)) is not None:
                    found = salient.setdefault(few[node], {})
                    if salience > found.get(chunk_id, -1.0):
                        found[chunk_id] = salience
            return [
                model.Lead(key, chunk_id, salience, min(len(found), per_node))
                for key, found in sorted(salient.items())
                for chunk_id, salience in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:per_node]
            ]

        return await self._database.read(work)

    async def named(
        self, viewer: scope.Scope, names: Collection[str], *, as_of: datetime | None = None
    ) -> dict[str, list[str]]:
        return await self._called(statements.NAMED, viewer, names, as_of)

    async def alike(
        self, viewer: scope.Scope, stems: Collection[str], *, as_of: datetime | None = None
    ) -> dict[str, list[str]]:
        return await self._called(statements.ALIKE, viewer, stems, as_of)

    async def nodes(
        self,
        viewer: scope.Scope,
        *,
        keys: Collection[str] | None = None,
        text: str | None = None,
        node_type: str | None = None,
        limit: int = 50,
        as_of: datetime | None = None,
        having: tuple[tuple[str, ...], ...] = (),
    ) -> list[model.Node]:
        bound: dict[str, Any] = {
            "type": node_type,
            "limit": -1 if having else limit,
            "text": text.casefold() if text else None,
            "moment": _moment(as_of),
            # A node that is asked for by its key is found with a single mention.
            "hub": self._hub if keys is None else _EVERYTHING,
            "described": model.DESCRIBED,
            "fragments": json.dumps(codec.fragments(having)),
        }
        views = file.views(viewer, history=as_of is not None)

        def asked(connection: sqlite3.Connection) -> str | None:
            if not having:
                return None if keys is None else codec.listed(keys)
            given = {key for view in views for (key,) in connection.execute(statements.GIVEN_NODES, {**bound, **view})}
            return codec.listed(given if keys is None else given.intersection(keys))

        def described(connection: sqlite3.Connection, best: Sequence[str]) -> dict[str, list[sqlite3.Row]]:
            found: dict[str, list[sqlite3.Row]] = {}
            for view in views:
                named = {**bound, **view, "nodes": codec.listed(best)}
                for node, key in connection.execute(statements.NODE_IDS, named).fetchall():
                    found.setdefault(key, []).extend(connection.execute(statements.DESCRIBE, {**named, "node": node}))
            return found

        def work(connection: sqlite3.Connection) -> list[model.Node]:
            types: dict[str, str] = {}
            mentions: Counter[str] = Counter()
            wanted = {**bound, "nodes": asked(connection)}
            for view in views:
                for key, kind, said in connection.execute(statements.SEARCH_NODES, {**wanted, **view}):
                    types.setdefault(key, kind)
                    mentions[key] += said
            best = sorted(mentions, key=lambda key: (-mentions[key], key))
            nodes: list[model.Node] = []
            # Which value of a property is shown depends on all that give it: so it is compared once it is made.
            while best and len(nodes) < limit:
                page, best = best[:limit], best[limit:]
                rows = described(connection, page)
                made = [codec.node_of(key, types[key], mentions[key], rows.get(key, [])) for key in page]
                nodes += [node for node in made if codec.has(node, having)]
            return nodes[:limit]

        return await self._database.read(work, broad=True)

    async def traverse(
        self,
        viewer: scope.Scope,
        start: Collection[str],
        steps: model.Steps,
        *,
        as_of: datetime | None = None,
    ) -> model.Walk:
        types = None if steps.edge_types is None else json.dumps(list(steps.edge_types))
        views = [
            {**view, "types": types, "moment": _moment(as_of)} for view in file.views(viewer, history=as_of is not None)
        ]

        def rows(connection: sqlite3.Connection, statement: str, keys: Collection[str], **values: Any) -> list[Any]:
            nodes = {"nodes": codec.listed(keys), **values}
            return [row for view in views for row in connection.execute(statement, {**view, **nodes})]

        def around(connection: sqlite3.Connection, keys: Sequence[str]) -> Iterable[tuple[str, list[model.Edge]]]:
            """The edges at each of the nodes, one more than may be followed."""
            found: dict[str, set[model.Edge]] = {}
            for view in views:
                for node, key in connection.execute(
                    statements.NODE_IDS, {**view, "nodes": codec.listed(keys)}
                ).fetchall():
                    values = {**view, "node": node, "limit": steps.fan_out + 1, "hub": self._hub}
                    edges = connection.execute(statements.AROUND, values)
                    found.setdefault(key, set()).update(map(codec.edge_of, edges))
            return ((key, sorted(edges)) for key, edges in sorted(found.items()))

        def work(connection: sqlite3.Connection) -> model.Walk:
            present = {row["node_key"] for row in rows(connection, statements.PRESENT, start)}
            walk = traversal.Traversal(steps, sorted(present))
            while frontier := walk.frontier():
                walk.step(around(connection, frontier))
            among = rows(connection, statements.AMONG, walk.seen(), limit=traversal.EDGES + 1)
            return walk.finish([codec.edge_of(row) for row in among])

        return await self._database.read(work, broad=True)

    async def relationships(
        self,
        viewer: scope.Scope,
        *,
        source: str | None = None,
        edge_type: str | None = None,
        target: str | None = None,
        limit: int = 200,
        as_of: datetime | None = None,
        history: bool = False,
    ) -> list[model.Statement]:
        bound: dict[str, Any] = {"source": source, "type": edge_type, "target": target, "limit": limit}
        bound["moment"] = _moment(as_of)
        said = codec.all_said(
            await self._rows(statements.PROOFS, viewer, broad=True, history=history or as_of is not None, **bound)
        )
        return sorted(said, key=model.by_age)[:limit]

    async def proofs(
        self, viewer: scope.Scope, edges: Collection[model.Edge], *, as_of: datetime | None = None, each: int = 50
    ) -> dict[model.Edge, list[model.Statement]]:
        views = file.views(viewer, history=as_of is not None)

        def work(connection: sqlite3.Connection) -> dict[model.Edge, list[model.Statement]]:
            found: dict[model.Edge, list[model.Statement]] = {}
            for edge in sorted(edges):
                rows: list[sqlite3.Row] = []
                for view in views:
                    for client in sorted({view["world"], view["client"]}):
                        ends = {
                            "source": codec.number(client, edge.source),
                            "target": codec.number(client, edge.target),
                        }
                        bound = {**view, **ends, "type": edge.type, "limit": each, "moment": _moment(as_of)}
                        rows += connection.execute(statements.PROVEN, bound).fetchall()
                if rows:
                    found[edge] = sorted(codec.all_said(rows), key=model.by_age)[:each]
            return found

        return await self._database.read(work)

    async def observed(
        self,
        viewer: scope.Scope,
        sources: Collection[str],
        edge_types: Collection[str],
        *,
        as_of: datetime | None = None,
        history: bool = False,
    ) -> list[model.Observed]:
        bound: dict[str, Any] = {"nodes": codec.listed(sources), "types": codec.listed(edge_types)}
        bound["moment"] = _moment(as_of)
        rows = await self._rows(statements.OBSERVED, viewer, broad=True, history=history or as_of is not None, **bound)
        return [model.Observed(codec.edge_of(row), row["observed"]) for row in rows]

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        rows = await self._rows(statements.EDGES, viewer, broad=True, limit=limit)
        return [model.Proven(codec.edge_of(row), tuple(sorted(json.loads(row["chunks"])))) for row in rows]

    async def listed(
        self,
        viewer: scope.Scope,
        *,
        kind: str | None = None,
        beginning: str = "",
        after: str = "",
        limit: int = 100,
    ) -> list[model.Listed]:
        last = file.last(beginning)
        bound: dict[str, Any] = {"kind": kind, "beginning": beginning, "last": last, "after": after, "limit": limit}
        return [
            model.Listed(
                codec.document_of(row),
                scope.Scope(client_id=row["client"], project_id=row["project"], group_id=row["grp"]),
                row["chunks"],
            )
            for row in await self._rows(statements.LISTED, viewer, **bound)
        ]

    async def replaced(self, viewer: scope.Scope, document_ids: Collection[str]) -> dict[str, list[model.Document]]:
        found: dict[str, list[model.Document]] = {}
        rows = await self._rows(statements.REPLACED, viewer, history=True, documents=codec.listed(document_ids))
        for row in rows:
            found.setdefault(row["document_id"], []).append(codec.document_of(row))
        return found

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        rows = await self._rows(statements.COUNTS, viewer, broad=True)
        return model.Counts(*rows[0])

    async def _called(
        self, statement: str, viewer: scope.Scope, names: Collection[str], as_of: datetime | None
    ) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        asked: dict[str, Any] = {"names": codec.listed(names), "moment": _moment(as_of)}
        for name, key in await self._rows(statement, viewer, history=as_of is not None, **asked):
            found.setdefault(name, set()).add(key)
        return {name: sorted(keys) for name, keys in found.items()}


def _admitted(
    cursor: sqlite3.Cursor, chosen: selection.Selection, views: Sequence[dict[str, Any]], chunks: str
) -> dict[int, str]:
    """Those of the chunks, row ids as a JSON array, whose document is visible and chosen, with what they are called."""
    bound = {**codec.selection_of(chosen), "chunks": chunks}
    return {
        number: chunk_id for view in views for number, chunk_id in cursor.execute(statements.COMMITTED, bound | view)
    }


def _looked_up(cursor: sqlite3.Cursor, statement: str, numbers: Collection[int]) -> dict[int, str]:
    """What the rows with these numbers are called."""
    return dict(cursor.execute(statement, (json.dumps(list(numbers)),)))


def _moment(as_of: datetime | None) -> int | None:
    return None if as_of is None else selection.millis(as_of)
