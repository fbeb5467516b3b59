"""The port that every graph store implements; `tests/kb/graph/contract.py` is its meaning.

Every call takes an owner or a viewer (`crds.scope.Scope`); what a viewer may see is `kb.visibility.sees`, applied to
every row that a hop touches and not to the result. Only `audit`, `held` and `clients`, which serve whoever repairs the
stores, go by the client alone; what they answer says whose each row is. All calls raise `kb.errors.Away` when the store
does not answer.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from crds import scope
from kb import selection
from kb.graph import model


class Store(Protocol):
    """Async, safe to call concurrently."""

    async def prepare(self) -> None:
        """Create what is missing, and bring an older schema up to date; idempotent."""
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

    async def regroup(self, owner: scope.Scope) -> list[str]:
        """Let all data of the owner's project belong to the owner's group; the ids of the documents that changed."""
        ...

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        """Those of `chunk_ids` that belong to a committed, visible and chosen document."""
        ...

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Said]:
        """The sentences of the given chunks that mention a node or prove an edge."""
        ...

    async def bridges(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Bridge]:
        """Which nodes the given chunks mention, and by which sentences."""
        ...

    async def leads(
        self,
        viewer: scope.Scope,
        node_keys: Collection[str],
        chosen: selection.Selection = selection.ALL,
        *,
        per_node: int = 50,
    ) -> list[model.Lead]:
        """The chunks of chosen documents that mention the given nodes, the most salient first.

        `per_node` caps the chunks taken, and read, at one node: a hub would drown the rest.
        """
        ...

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> dict[str, list[str]]:
        """Name -> keys of the visible nodes that are called so (`kb.graph.model.name_of`)."""
        ...

    async def nodes(
        self,
        viewer: scope.Scope,
        *,
        keys: Collection[str] | None = None,
        text: str | None = None,
        node_type: str | None = None,
        limit: int = 50,
    ) -> list[model.Node]:
        """Visible nodes, the most mentioned first: these keys, or those whose key contains `text` whatever its case."""
        ...

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], steps: model.Steps, *, as_of: datetime | None = None
    ) -> model.Walk:
        """Breadth first over edges in both directions, from the visible nodes of `start` (`kb.graph.traversal`).

        With `as_of`, edges that only later documents prove are not there.
        """
        ...

    async def relationships(
        self,
        viewer: scope.Scope,
        *,
        source: str | None = None,
        edge_type: str | None = None,
        target: str | None = None,
        limit: int = 200,
    ) -> list[model.Said]:
        """The visible proofs of the edges that match everything given, by edge and then newest first."""
        ...

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        """The visible edges in order of their keys, each with the visible chunks that prove it."""
        ...

    async def naming(
        self, owner: scope.Scope, node_key: str, *, after: str = "", limit: int = 500
    ) -> list[tuple[model.Document, scope.Scope]]:
        """Documents of the owner's client that mention the node and whose own owner sees `owner`'s data.

        For whoever has to mend them, not for answers: with a client's scope these are all of its projects' documents.
        In order of their ids, those after `after`; each with its owner.
        """
        ...

    async def documents(
        self, owner: scope.Scope, kind: str, beginning: str, *, after: str = "", limit: int = 500
    ) -> list[model.Document]:
        """Documents of exactly this owner and kind whose source URN begins so, in order of it, those after `after`."""
        ...

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        """How much the viewer can see."""
        ...

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Committed], str | None]:
        """A page of everything that the client owns, and where the next one starts (None: this was the last)."""
        ...

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Committed]:
        """The same of the given chunks, by their ids."""
        ...

    async def clients(self) -> list[str]:
        """The clients that own anything; "" is the global scope."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
