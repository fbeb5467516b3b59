"""Aliases over HTTP: list, merge, take back, and what might be one."""

from __future__ import annotations

from aiohttp import web

from kb import api, errors, routes
from kb.aliases import candidates, merge, registry
from kb.extract import reference
from kb.graph import store as graph
from kb.service.http import answering, body, openapi

# Nodes compared for each beginning of a word.
_LOOKED_AT = 500


class Aliases:
    """The routes of a process that writes."""

    def __init__(self, merger: merge.Merger, known: registry.Registry, nodes: graph.Store) -> None:
        self._merger = merger
        self._registry = known
        self._graph = nodes

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.ALIASES_LIST, self.list),
            (routes.ALIASES_MERGE, self.merge),
            (routes.ALIASES_UNMERGE, self.unmerge),
            (routes.ALIASES_CANDIDATES, self.candidates),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/aliases"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=200, most=1000)
        asked = request.query.get("key")
        key = None if asked is None else reference.normalise(asked, viewer) or asked
        found = await self._registry.listed(viewer, key=key, limit=limit)
        return answering.json(api.Aliases(aliases=[_alias(one) for one in found]))

    async def merge(self, request: web.Request) -> web.Response:
        """PUT /api/v1/aliases"""
        asked = await body.read(request, api.Merge)
        made, documents = await self._merger.merge(
            asked.scope, asked.alias, asked.canonical, asked.by, across_types=asked.across_types
        )
        return answering.json(api.MergeReply(alias=made.alias, canonical=made.canonical, documents=documents), 202)

    async def unmerge(self, request: web.Request) -> web.Response:
        """DELETE /api/v1/aliases?alias=...&clientId=..."""
        owner = body.owner(request)
        gone, documents = await self._merger.unmerge(owner, answering.text(request, "alias"))
        return answering.json(api.MergeReply(alias=gone.alias, canonical=gone.canonical, documents=documents), 202)

    async def candidates(self, request: web.Request) -> web.Response:
        """GET /api/v1/aliases/candidates?key=...&clientId=..."""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=20, most=100)
        key = reference.normalise(answering.text(request, "key"), viewer)
        if key is None:
            raise errors.Invalid("key is no key of a node", field="key", remedy="Give type:name, as in user:john.")
        found: set[str] = set()
        for start in candidates.starts(key):
            nodes = await self._graph.nodes(viewer, text=start, node_type=reference.kind_of(key), limit=_LOOKED_AT)
            found |= {node.key for node in nodes}
        ranked = candidates.rank(key, found, limit=limit)
        return answering.json(
            api.Candidates(
                candidates=[api.Candidate(key=key, other=other, likeness=round(score, 3)) for other, score in ranked]
            )
        )


def _alias(one: registry.Alias) -> api.Alias:
    return api.Alias(
        scope=one.owner,
        alias=one.alias,
        canonical=one.canonical,
        area=one.area,
        state=one.state.value,
        seen_count=one.seen_count,
        last_seen_at=one.last_seen_at,
        created_at=one.created_at,
        created_by=one.created_by,
    )
