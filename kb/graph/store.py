"""The port that every graph store implements; `tests/kb/graph/contract.py` is its meaning.

Every call takes an owner or a viewer (`crds.scope.Scope`); what a viewer may see is `kb.visibility.sees`, applied to
every row that a hop touches and not to the result. All calls raise `kb.errors.Away` when the store does not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from crds import scope
from kb.graph import model


class Store(Protocol):
    """Async, safe to call concurrently."""

    async def prepare(self) -> None:
        """Create what is missing; idempotent."""
        ...

    async def ready(self) -> None:
        """Return when the store answers."""
        ...

    async def replace(self, owner: scope.Scope, patch: model.Patch) -> None:
        """Make `patch` all that its document says. Atomic; repeating it changes nothing."""
        ...

    async def remove(self, owner: scope.Scope, document_id: str) -> bool:
        """Forget a document; edges and nodes that nothing else proves go with it. True when it was there."""
        ...

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], kinds: Sequence[str] | None = None
    ) -> set[str]:
        """Those of `chunk_ids` that belong to a committed, visible document (of one of `kinds`)."""
        ...

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Reach]:
        """The sentences of the given chunks that mention a node or prove an edge."""
        ...

    async def reach(
        self,
        viewer: scope.Scope,
        chunk_ids: Collection[str],
        *,
        kinds: Sequence[str] | None = None,
        per_node: int = 50,
        limit: int = 1000,
    ) -> list[model.Reach]:
        """One hop: other chunks that mention a node of the given chunks, or a neighbour of such a node.

        `per_node` caps the chunks taken at one node (a hub would drown the rest), `limit` all of them.
        """
        ...

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], *, hops: int = 2, limit: int = 500
    ) -> list[model.Visit]:
        """Breadth first, over edges in both directions, from the visible nodes of `start`; each once, nearest first."""
        ...

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        """The visible edges in order of their keys, each with the visible chunks that prove it."""
        ...

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        """How much the viewer can see."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
