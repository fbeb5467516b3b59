"""Answers within what a viewer may see."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from crds import scope
from kb import selection
from kb.graph import aql, codec, model, traversal
from kb.graph.arango import answers, connection, keys


class Reading(connection.Connection):
    """The part of the port that answers questions."""

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        asked = {"chunks": sorted(chunk_ids), **answers.selected(chosen)}
        rows = await self._ask(aql.COMMITTED, viewer, history=chosen.as_of is not None, **asked)
        return {str(row) for row in rows}

    async def mentioned(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> list[model.Statement]:
        rows = await self._ask(aql.MENTIONED, viewer, history=history, chunks=sorted(chunk_ids))
        return sorted((answers.said(row) for row in rows), key=model.by_place)

    async def bridges(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> list[model.Bridge]:
        rows = await self._ask(aql.BRIDGES, viewer, history=history, chunks=sorted(chunk_ids))
        return sorted({model.Bridge(*row) for row in rows})

    async def leads(
        self,
        viewer: scope.Scope,
        node_keys: Collection[str],
        chosen: selection.Selection = selection.ALL,
        *,
        per_node: int = 50,
    ) -> list[model.Lead]:
        asked = {"nodes": keys.paired(node_keys), "rows": 8 * per_node, **answers.selected(chosen)}
        rows = await self._ask(aql.LEADS, viewer, history=chosen.as_of is not None, **asked)
        salient: dict[str, dict[str, float]] = {}
        for node, chunk_id, salience in rows:
            chunks = salient.setdefault(node, {})
            chunks[chunk_id] = max(chunks.get(chunk_id, 0.0), salience)
        leads = []
        for node, chunks in sorted(salient.items()):
            kept = sorted(chunks.items(), key=lambda pair: (-pair[1], pair[0]))[:per_node]
            leads += [model.Lead(node, chunk_id, salience, len(kept)) for chunk_id, salience in kept]
        return leads

    async def named(
        self, viewer: scope.Scope, names: Collection[str], *, as_of: datetime | None = None
    ) -> dict[str, list[str]]:
        return await self._called(aql.NAMED, viewer, names, as_of)

    async def alike(
        self, viewer: scope.Scope, stems: Collection[str], *, as_of: datetime | None = None
    ) -> dict[str, list[str]]:
        return await self._called(aql.ALIKE, viewer, stems, as_of)

    async def _called(
        self, query: str, viewer: scope.Scope, names: Collection[str], as_of: datetime | None
    ) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for name, key in await self._ask(query, viewer, names=sorted(names), **_when(as_of)):
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
        as_of: datetime | None = None,
        having: tuple[tuple[str, ...], ...] = (),
    ) -> list[model.Node]:
        asked = keys
        if having:
            parts = codec.fragments(having)
            given = {str(key) for key in await self._ask(aql.GIVEN_NODES, viewer, fragments=parts, **_when(as_of))}
            asked = given if keys is None else given.intersection(keys)
        wanted: dict[str, Any] = {
            "keys": None if asked is None else sorted(asked),
            "text": text.casefold() if text else None,
            # Which value of a property is shown depends on all that give it: so it is compared once it is made.
            "limit": max(limit, len(asked or ())) if having else limit,
        }
        types: dict[str, str] = {}
        said: Counter[str] = Counter()
        rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        wanted |= {"type": node_type, "described": model.DESCRIBED}
        if asked is not None:
            # A node that is asked for by its key is there if one document mentions it.
            wanted["hub"] = _EVERYTHING
        for row in await self._ask(aql.NODES, viewer, **wanted, **_when(as_of)):
            types.setdefault(row["key"], row["type"])
            said[row["key"]] += row["said"]
            rows[row["key"]] += row["rows"]
        made = [answers.node(key, kind, said[key], rows[key]) for key, kind in types.items()]
        nodes = [node for node in made if codec.has(node, having)]
        return sorted(nodes, key=lambda node: (-node.mentions, node.key))[:limit]

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], steps: model.Steps, *, as_of: datetime | None = None
    ) -> model.Walk:
        bound = {"types": None if steps.edge_types is None else list(steps.edge_types), **_when(as_of)}
        present = await self._ask(aql.PRESENT, viewer, nodes=keys.paired(start), **_when(as_of))
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
        as_of: datetime | None = None,
        history: bool = False,
    ) -> list[model.Statement]:
        ends = {"source": source, "target": target}
        bound = {name: None if key is None else keys.safe_key(key) for name, key in ends.items()}
        asked = {"type": edge_type, "limit": limit, **bound, **_when(as_of, history=history)}
        said = [answers.said(row) for row in await self._ask(aql.PROOFS, viewer, **asked)]
        return sorted(said, key=model.by_age)[:limit]

    async def proofs(
        self, viewer: scope.Scope, edges: Collection[model.Edge], *, as_of: datetime | None = None, each: int = 50
    ) -> dict[model.Edge, list[model.Statement]]:
        ends: dict[str, list[list[str]]] = {}
        for one in sorted(edges):
            ends.setdefault(keys.safe_key(one.source), []).append([one.type, one.target])
        found: dict[model.Edge, list[model.Statement]] = {}
        for row in await self._ask(aql.PROVEN, viewer, sources=list(ends.items()), rows=each, **_when(as_of)):
            found.setdefault(answers.edge(row), []).append(answers.said(row))
        return {edge: sorted(said, key=model.by_age)[:each] for edge, said in found.items()}

    async def observed(
        self,
        viewer: scope.Scope,
        sources: Collection[str],
        edge_types: Collection[str],
        *,
        as_of: datetime | None = None,
        history: bool = False,
    ) -> list[model.Observed]:
        asked = {"nodes": keys.paired(sources), "types": sorted(edge_types), **_when(as_of, history=history)}
        rows = await self._ask(aql.OBSERVED, viewer, **asked)
        return [model.Observed(answers.edge(row), row["observedMs"]) for row in rows]

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        proven: dict[model.Edge, set[str]] = {}
        for row in await self._ask(aql.EDGES, viewer, limit=limit):
            proven.setdefault(answers.edge(row), set()).update(row["chunks"])
        return [model.Proven(edge, tuple(sorted(proven[edge]))) for edge in sorted(proven)][:limit]

    async def listed(
        self,
        viewer: scope.Scope,
        *,
        kind: str | None = None,
        beginning: str = "",
        after: str = "",
        limit: int = 100,
    ) -> list[model.Listed]:
        bound: dict[str, Any] = {"kind": kind, "beginning": beginning, "after": after, "limit": limit}
        found = [
            model.Listed(
                answers.document(row),
                scope.Scope(
                    client_id="" if row["shared"] else viewer.client_id,
                    project_id=row["projectId"],
                    group_id=row["groupId"],
                ),
                row["chunks"],
            )
            for row in await self._ask(aql.LISTED, viewer, **bound)
        ]
        return sorted(found, key=lambda one: one.document.id)[:limit]

    async def replaced(self, viewer: scope.Scope, document_ids: Collection[str]) -> dict[str, list[model.Document]]:
        found: dict[str, list[model.Document]] = {}
        for row in await self._ask(aql.REPLACED, viewer, history=True, documents=sorted(document_ids)):
            found.setdefault(row["documentId"], []).append(answers.document(row))
        return found

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


_EVERYTHING = 1 << 40


def _when(as_of: datetime | None, *, history: bool = False) -> dict[str, Any]:
    """The moment that is asked for, and whether replaced versions are read."""
    return {"moment": None if as_of is None else selection.millis(as_of), "history": history or as_of is not None}
