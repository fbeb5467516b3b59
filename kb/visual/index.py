"""The port of the index of pages. All calls raise `kb.errors.Away` when it does not answer.

It finds candidates; what of them is shown the graph decides (`kb.visual.search`). Every call takes an owner or a
viewer; `audit` and `discard`, which serve repairs, go by the client alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from crds import scope
from kb.visual import model


class Index(Protocol):
    """Async, safe to call concurrently. All vectors of one index come from one model."""

    async def ready(self) -> None:
        """Return when the index answers."""
        ...

    async def put(self, pages: Sequence[model.Indexed]) -> None:
        """Insert or overwrite by id."""
        ...

    async def by_vectors(
        self,
        viewer: scope.Scope,
        question: model.Array,
        *,
        limit: int,
        seen_only: bool = False,
        sources: Collection[str] | None = None,
    ) -> list[model.Hit]:
        """Best pages by MaxSim over what is stored, best first; `seen_only`: of those that text alone does not tell.

        `sources` are source URNs, or beginnings of them that end with `*`.
        """
        ...

    async def by_words(
        self, viewer: scope.Scope, question: str, *, limit: int, sources: Collection[str] | None = None
    ) -> list[model.Hit]:
        """Best pages by BM25 over their own text, best first."""
        ...

    async def drop(self, owner: scope.Scope, document_id: str, *, keep: str = "") -> int:
        """Delete the pages of a document, but for those of the work `keep`; how many there were."""
        ...

    async def erase(self, where: scope.Scope) -> int:
        """Delete what the erasure of `where` takes, of every model; how many pages that were."""
        ...

    async def regroup(self, owner: scope.Scope) -> int:
        """Let the pages of the owner's project belong to the owner's group; how many changed."""
        ...

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Stored], str | None]:
        """A page of all that the client owns, and where the next one starts (None: none)."""
        ...

    async def held(self, client_id: str, page_ids: Collection[str]) -> set[str]:
        """Those of the given pages that are stored for the client."""
        ...

    async def discard(self, client_id: str, page_ids: Collection[str]) -> None:
        """Delete what nothing refers to."""
        ...

    async def destroy(self) -> None:
        """Delete everything, of every client."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
