"""The pages of documents as the rest of the knowledge base knows them: wanted, taken, dropped, moved, erased."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from crds import scope
from kb import api, identity
from kb.content import store as content
from kb.graph import store as graph
from kb.visual import book, choice, index, model

MEDIA = ("application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp")
"""What has pages: each image is one."""


class Pages:
    """`clock` gives the current time in UTC. All calls raise `kb.errors.Away`."""

    def __init__(
        self,
        records: book.Book,
        found_by: index.Index,
        kept: content.Store,
        choices: choice.Registry,
        graph_store: graph.Store,
        clock: Callable[[], datetime],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._book = records
        self._index = found_by
        self._content = kept
        self._choices = choices
        self._graph = graph_store
        self._clock = clock
        self._wake = wake

    async def wanted(self, owner: scope.Scope, source_urn: str, media_type: str) -> bool:
        """Whether a document gets pages."""
        return media_type in MEDIA and await choice.of(self._choices, owner, source_urn) != "None"

    async def keep(self, owner: scope.Scope, source_urn: str, raw: bytes, media_type: str) -> api.ContentRef:
        """Keep a file until its pages are made; without `take` it goes with the next look of `keeper.Keeper`."""
        part_of = identity.document(owner, source_urn)
        return await self._content.save(owner, raw, media_type, part_of=part_of)

    async def take(
        self,
        owner: scope.Scope,
        source_urn: str,
        title: str,
        media_type: str,
        file: api.ContentRef,
        chunk_ids: Collection[str],
    ) -> bool:
        """Have pages made of a document that is stored, with these chunks; False when it has been replaced since."""
        document_id = identity.document(owner, source_urn)
        versions = await self._graph.versions(owner, document_id)
        present = next((one for one in versions if one.document.until_ms is None), None)
        if present is None or set(present.chunk_ids) != set(chunk_ids):
            return False
        source = model.Source(owner, document_id, source_urn, title, media_type, present.revision, file.sha256)
        await self._book.open(source, file)
        self._wake()
        return True

    async def drop(self, owner: scope.Scope, document_id: str) -> int:
        """Forget all pages of a document, with their images; how many there were."""
        known = await self._book.stop(document_id)
        await self._content.drop_parts(document_id)
        if not known:
            return 0
        await self._index.drop(owner, document_id)
        # At last: while there are any, a deletion that broke off is gone on with.
        return await self._book.drop(document_id)

    async def erase(self, where: scope.Scope) -> int:
        """Forget what the erasure of a scope takes, their images apart (`kb.content`); how many pages that were."""
        gone = await self._book.erase(where)
        return max(gone, await self._index.erase(where))

    async def regroup(self, owner: scope.Scope) -> int:
        """Let the pages of the owner's project belong to the owner's group; how many rows changed."""
        return await self._book.regroup(owner) + await self._index.regroup(owner)
