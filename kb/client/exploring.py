"""The client's questions: hybrid search, chunks, nodes, walks, relationships, consistency.

`kb.client.Client` gives it as `client.looking`. Calls raise `kb.client.Unavailable` or `kb.client.Rejected`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clients import kb_transport
from crds import priority, scope
from kb import api, routes


class Exploring:
    """The read endpoints beside `/retrieve`."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def search(
        self, request: api.HybridRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.HybridReply:
        """Chunks by vectors and by keywords, best first."""
        return await self._way.request(routes.SEARCH_HYBRID, body=request, urgency=urgency, repeatable=True)

    async def by_kind(self, request: api.ByKindRequest) -> api.ChunksReply:
        """Chunks of documents of some kinds, newest first."""
        return await self._way.request(routes.CHUNKS_BY_KIND, body=request, repeatable=True)

    async def nodes(
        self,
        viewer: scope.Scope,
        *,
        text: str = "",
        node_type: str = "",
        properties: Sequence[str] = (),
        limit: int = 50,
        as_of: datetime | None = None,
    ) -> api.NodesReply:
        """Nodes whose key contains `text`, of a type, the most mentioned first; `properties` (NAME=VALUE) they have."""
        given = _query(viewer, q=text, type=node_type, limit=str(limit), asOf=as_of.isoformat() if as_of else "")
        query: dict[str, str | list[str]] = {**given, "property": list(properties)}
        return await self._way.request(routes.GRAPH_NODES, params=query)

    async def traverse(self, request: api.TraverseRequest) -> api.TraverseReply:
        """A walk over relationships."""
        return await self._way.request(routes.GRAPH_TRAVERSE, body=request, repeatable=True)


def _query(where: scope.Scope, **more: str) -> dict[str, str]:
    return {**where.model_dump(by_alias=True), **{name: value for name, value in more.items() if value}}
