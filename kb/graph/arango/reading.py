"""Answers within what a viewer may see."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from crds import scope
from kb import selection
from kb.graph import aql, model, traversal
from kb.graph.arango import answers, connection, keys


class Reading(connection.Connection):
    """The part of the port that answers questions."""

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        rows = await self._ask(aql.COMMITTED, viewer, chunks=sorted(chunk_ids), **answers.selected(chosen))
        return {str(row) for row in rows}

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Said]:
        rows = await self._ask(aql.MENTIONED, viewer, chunks=sorted(chunk_ids))
        return sorted((answers.said(row) for row in rows), key=answers.by_place)

    async def bridges(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Bridge]:
        rows = await self._ask(aql.BRIDGES, viewer, chunks=sorted(chunk_ids))
        return sorted({model.Bridge(*row) for row in rows})

    async def leads(
        self,
        viewer: scope.Scope,
        node_keys: Collection[str],
        chosen: selection.Selection = selection.ALL,
        *,
        per_node: int = 50,
    ) -> list[model.Lead]:
        rows = await self._ask(
            aql.LEADS, viewer, nodes=keys.paired(node_keys), rows=8 * per_node, **answers.selected(chosen)
        )
        salient: dict[str, dict[str, float]] = {}
        for node, chunk_id, salience in rows:
            chunks = salient.setdefault(node, {})
            chunks[chunk_id] = max(chunks.get(chunk_id, 0.0), salience)
        leads = []
        for node, chunks in sorted(salient.items()):
            kept = sorted(chunks.items(), key=lambda pair: (-pair[1], pair[0]))[:per_node]
            leads += [model.Lead(node, chunk_id, salience, len(kept)) for chunk_id, salience in kept]
        return leads

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for name, key in await self._ask(aql.NAMED, viewer, names=sorted(names)):
            found.setdefault(name, set()).add(key)
        return {name: sorted(keys) for name, keys in found.items()}

    async def nodes(
        self,
        viewer: scope.Scope,
        *,
        keys: Collection[str] | None = None,
        text: str | None = None,
        node_type: str | None = None,
        limit: int = 50,
    ) -> list[model.Node]:
        wanted = {"keys": None if keys is None else sorted(keys), "text": text.casefold() if text else None}
        found: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        for row in await self._ask(aql.NODES, viewer, type=node_type, limit=limit, **wanted):
            found.setdefault(row["key"], (row["type"], []))[1].extend(row["rows"])
        nodes = [answers.node(key, kind, rows) for key, (kind, rows) in found.items()]
        return sorted(nodes, key=lambda node: (-node.mentions, node.key))[:limit]

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], steps: model.Steps, *, as_of: datetime | None = None
    ) -> model.Walk:
        bound = {
            "types": None if steps.edge_types is None else list(steps.edge_types),
            "latest": None if as_of is None else selection.millis(as_of),
        }
        present = await self._ask(aql.PRESENT, viewer, nodes=keys.paired(start))
        walk = traversal.Traversal(steps, [str(row) for row in present])
        while frontier := walk.frontier():
            around: dict[str, set[model.Edge]] = {}
            asked = {"nodes": keys.paired(frontier), "limit": steps.fan_out + 1, **bound}
            for row in await self._ask(aql.AROUND, viewer, **asked):
                around.setdefault(row["node"], set()).add(answers.edge(row))
            walk.step((node, sorted(edges)) for node, edges in around.items())
        met = walk.seen()
        among = await self._ask(aql.AMONG, viewer, nodes=keys.paired(met), keys=met, limit=traversal.EDGES + 1, **bound)
        return walk.finish([answers.edge(row) for row in among])

    async def relationships(
        self,
        viewer: scope.Scope,
        *,
        source: str | None = None,
        edge_type: str | None = None,
        target: str | None = None,
        limit: int = 200,
    ) -> list[model.Said]:
        ends = {"source": source, "target": target}
        bound = {name: None if key is None else keys.safe_key(key) for name, key in ends.items()}
        said = [answers.said(row) for row in await self._ask(aql.PROOFS, viewer, type=edge_type, limit=limit, **bound)]
        return sorted(said, key=answers.by_age)[:limit]

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        proven: dict[model.Edge, set[str]] = {}
        for row in await self._ask(aql.EDGES, viewer, limit=limit):
            proven.setdefault(answers.edge(row), set()).update(row["chunks"])
        return [model.Proven(edge, tuple(sorted(proven[edge]))) for edge in sorted(proven)][:limit]

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        documents = chunks = mentions = 0
        nodes: set[str] = set()
        edges: set[str] = set()
        for row in await self._ask(aql.COUNTS, viewer):
            documents += row["documents"]
            chunks += row["chunks"]
            mentions += row["mentions"]
            nodes.update(row["nodes"])
            edges.update(json.dumps(edge) for edge in row["edges"])
        return model.Counts(documents, chunks, len(nodes), len(edges), mentions)
