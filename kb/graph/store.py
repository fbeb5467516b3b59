"""The port that every graph store implements; `tests/kb/graph/contract.py` is its meaning.

Every call takes an owner or a viewer (`crds.scope.Scope`); what a viewer may see is `kb.visibility.sees`, applied to
every row that a hop touches and not to the result. Only `audit`, `held` and `clients`, which serve the repair of the
stores, go by the client alone; what they answer says whose each row is.

Versions that were replaced lie apart (decision 0059): a question reads them only where it gives `as_of`, which narrows
it to what was known then, or `history`, which does not narrow. All calls raise `kb.errors.Away` when the store
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

    async def replace(self, owner: scope.Scope, patch: model.Patch, *, fence: int = 0) -> None:
        """Make `patch` all that its document says. Atomic; repeating it changes nothing.

        With `patch.keep` what it replaces goes into the history, in the same write: chunks and sentences under the ids
        that `kb.identity.past` makes.
        `fence` is that of the document's turn (`kb.ingest.document_locks`); 0 where one process writes, and nothing is
        compared.
        Raises `kb.errors.Outrun` when a newer owner of the document has replaced or removed it before.
        """
        ...

    async def remove(self, owner: scope.Scope, document_id: str, *, fence: int = 0) -> bool:
        """Forget a document and its history; edges and nodes without other proof go too. True when it was there.

        `fence` as in `replace`. It is remembered: an older owner cannot bring the document back.
        """
        ...

    async def forget_fences(self, before: int) -> int:
        """Forget fences less than `before`, whose owners are long gone; how many there were."""
        ...

    async def versions(self, owner: scope.Scope, document_id: str) -> list[model.Version]:
        """The version in the present, if there is one, and those it replaced, the latest first."""
        ...

    async def expire(self, client_id: str, before_ms: int, *, document_id: str | None = None, fence: int = 0) -> int:
        """Forget versions that were replaced before then, of one document or of all of a client's; how many.

        `fence` as in `replace`, where one document is meant.
        """
        ...

    async def vacate(self, client_id: str) -> None:
        """Let go of what is kept for a client that owns nothing, its collections; does nothing while it owns data."""
        ...

    async def regroup(self, owner: scope.Scope) -> list[str]:
        """Let all data of the owner's project belong to the owner's group; the ids of the documents that changed."""
        ...

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        """Those of `chunk_ids` that belong to a committed, visible and chosen document."""
        ...

    async def mentioned(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> list[model.Statement]:
        """The sentences of the given chunks that mention a node or prove an edge."""
        ...

    async def bridges(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> list[model.Bridge]:
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

    async def named(
        self, viewer: scope.Scope, names: Collection[str], *, as_of: datetime | None = None
    ) -> dict[str, list[str]]:
        """Name -> keys of the visible nodes that are called so (`kb.graph.model.name_of`)."""
        ...

    async def alike(
        self, viewer: scope.Scope, stems: Collection[str], *, as_of: datetime | None = None
    ) -> dict[str, list[str]]:
        """Stem -> keys of the visible nodes whose name has it (`kb.graph.model.stem_of`)."""
        ...

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
        """Visible nodes, the most mentioned first: these keys, or those whose key contains `text` whatever its case.

        `having`: groups of labels (`kb.selection.labels`) of which the shown properties of a node must have one each.
        """
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
        as_of: datetime | None = None,
        history: bool = False,
    ) -> list[model.Statement]:
        """The visible proofs of the edges that match everything given, by edge and then newest first."""
        ...

    async def proofs(
        self, viewer: scope.Scope, edges: Collection[model.Edge], *, as_of: datetime | None = None, each: int = 50
    ) -> dict[model.Edge, list[model.Statement]]:
        """The visible proofs of each of the edges, the newest first, `each` at most."""
        ...

    async def observed(
        self,
        viewer: scope.Scope,
        sources: Collection[str],
        edge_types: Collection[str],
        *,
        as_of: datetime | None = None,
        history: bool = False,
    ) -> list[model.Observed]:
        """Every edge of these types from these nodes with each time at which a visible document states it."""
        ...

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        """The visible edges in order of their keys, each with the visible chunks that prove it."""
        ...

    async def naming(
        self, owner: scope.Scope, node_key: str, *, after: str = "", limit: int = 500
    ) -> list[tuple[model.Document, scope.Scope]]:
        """Documents of the owner's client that mention the node and whose own owner sees `owner`'s data.

        For their repair, not for answers: with a client's scope these are all of its projects' documents.
        In order of their ids, those after `after`; each with its owner.
        """
        ...

    async def documents(
        self, owner: scope.Scope, kind: str, beginning: str, *, after: str = "", limit: int = 500
    ) -> list[model.Document]:
        """Documents of exactly this owner and kind whose source URN begins so, in order of it, those after `after`."""
        ...

    async def listed(
        self,
        viewer: scope.Scope,
        *,
        kind: str | None = None,
        beginning: str = "",
        after: str = "",
        limit: int = 100,
    ) -> list[model.Listed]:
        """The visible documents, in order of their ids, those after `after`; of a kind, and whose URN begins so."""
        ...

    async def replaced(self, viewer: scope.Scope, document_ids: Collection[str]) -> dict[str, list[model.Document]]:
        """The visible versions of each of the documents that were replaced, the latest first; none: no entry."""
        ...

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        """How much the viewer can see."""
        ...

    async def audit(
        self,
        client_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        document_ids: Collection[str] | None = None,
    ) -> tuple[list[model.Committed], str | None]:
        """A page of all that the client owns, its history too, and where the next one starts (None: no more).

        With `document_ids` these documents alone are read.
        """
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
