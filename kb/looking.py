"""Looking around behind the door: hybrid search, chunks, nodes, walks, relationships, consistency.

`kb.client.Client` gives it as `client.looking`. Calls raise `kb.client.Unavailable` or `kb.client.Rejected`.
"""

from __future__ import annotations

from crds import priority, scope
from kb import reading, transport


class Looking:
    """The read endpoints beside `/retrieve`."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def search(
        self, request: reading.HybridRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> reading.HybridReply:
        """Chunks by meaning and by letter, best first."""
        return await self._way.call("POST", "/api/v1/search/hybrid", reading.HybridReply, body=request, urgency=urgency)

    async def by_kind(self, request: reading.ByKindRequest) -> reading.ChunksReply:
        """Chunks of documents of some kinds, newest first."""
        return await self._way.call("POST", "/api/v1/chunks/by-kind", reading.ChunksReply, body=request)

    async def chunk(self, viewer: scope.Scope, chunk_id: str) -> reading.ChunkReply:
        """A chunk, and what its sentences say."""
        return await self._way.call("GET", f"/api/v1/chunks/{chunk_id}", reading.ChunkReply, params=_query(viewer))

    async def nodes(
        self, viewer: scope.Scope, *, text: str = "", node_type: str = "", limit: int = 50
    ) -> reading.NodesReply:
        """Nodes whose key contains `text`, of a type, the most mentioned first."""
        query = _query(viewer, q=text, type=node_type, limit=str(limit))
        return await self._way.call("GET", "/api/v1/graph/nodes", reading.NodesReply, params=query)

    async def traverse(self, request: reading.TraverseRequest) -> reading.TraverseReply:
        """A walk over relationships."""
        return await self._way.call("POST", "/api/v1/graph/traverse", reading.TraverseReply, body=request)

    async def relationships(
        self, viewer: scope.Scope, *, source: str = "", edge_type: str = "", target: str = ""
    ) -> reading.RelationshipsReply:
        """Relationships of one or two nodes, with their proof."""
        query = _query(viewer, source=source, type=edge_type, target=target)
        return await self._way.call("GET", "/api/v1/graph/relationship", reading.RelationshipsReply, params=query)

    async def consistency(self, viewer: scope.Scope, *, after: str = "") -> reading.ConsistencyReply:
        """Whether the stores agree about the scope's data."""
        query = _query(viewer, after=after)
        return await self._way.call("GET", "/api/v1/health/consistency", reading.ConsistencyReply, params=query)


def _query(where: scope.Scope, **more: str) -> dict[str, str]:
    return {**where.model_dump(by_alias=True), **{name: value for name, value in more.items() if value}}
