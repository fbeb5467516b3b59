"""Deletions: a document goes with the files that came with it, from the graph first, then its pages and its vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from crds import scope
from kb import api, identity
from kb.files import inside
from kb.ingest import document, document_locks

FORGET = "forget"
"""In the place of a request, in the record of a document that is being deleted."""


class Deletion:
    """`clock` gives the current time in UTC."""

    def __init__(self, stores: document.Stores, clock: Callable[[], datetime]) -> None:
        self._stores = stores
        self._clock = clock
        self._turns = stores.turns

    async def forget(self, owner: scope.Scope, source_urn: str) -> bool:
        """Delete a document, and before it the files that came with it. True when it was known.

        It is recorded first: what breaks off, or meets an `Operational` error, is finished by `resume`.
        """
        document_id = identity.document(owner, source_urn)
        async with self._turns.take(document_id) as turn:
            return await self.recorded(owner, source_urn, turn)

    async def recorded(self, owner: scope.Scope, source_urn: str, turn: document_locks.Turn) -> bool:
        """`forget`, with the document's turn held already."""
        document_id, now = identity.document(owner, source_urn), self._clock()
        await self._stores.intents.open(document_id, owner, source_urn, FORGET, now, fence=turn.fence)
        return await self.complete(owner, source_urn, turn)

    async def complete(self, owner: scope.Scope, source_urn: str, turn: document_locks.Turn) -> bool:
        """Finish a deletion that is recorded. True when the document was known."""
        await self._drop_attachments(owner, source_urn)
        return await self._drop(owner, identity.document(owner, source_urn), turn)

    async def supersede_attachments(self, request: api.IngestRequest, inner: Collection[str] = ()) -> None:
        """Delete the files of versions before that this one, which is stored, comes without: of those that it sends
        where it names them, and of the images in its text, which are called `inner` now, always."""
        owner, urn = request.scope, request.source_urn
        sent = request.attachments
        await self._drop_attachments(owner, urn, keep=[*(sent or ()), *inner], inner_only=sent is None)

    async def _drop_attachments(
        self, owner: scope.Scope, source_urn: str, *, keep: Collection[str] = (), inner_only: bool = False
    ) -> None:
        """Delete the files that came with exactly this owner's document, but for those of the names in `keep`."""
        beginning = api.attachment_sources(source_urn).removesuffix("*")
        kept = {api.attachment_urn(source_urn, name) for name in keep}
        after = ""
        while True:
            found = await self._stores.graph.documents(owner, api.ATTACHMENT, beginning, after=after)
            for one in found:
                # "mail,name:x" begins like "mail", and its files are not those of "mail".
                if inner_only and not inside.named_so(one.source_urn.removeprefix(beginning)):
                    continue
                if api.came_with(one.source_urn, source_urn) and one.source_urn not in kept:
                    await self.forget(owner, one.source_urn)
            if not found:
                return
            after = found[-1].source_urn

    async def drop(self, owner: scope.Scope, document_id: str) -> bool:
        """Delete one document from the graph, then from the vectors. True when it was known.

        For an erasure, which is recorded itself and begins anew when it breaks off; `forget` is for all others.
        """
        async with self._turns.take(document_id) as turn:
            return await self._drop(owner, document_id, turn)

    async def _drop(self, owner: scope.Scope, document_id: str, turn: document_locks.Turn) -> bool:
        await self._stores.changes.note(owner, [document_id])
        if self._stores.queue is not None:
            # Before the stores: a job that outlived the rest would bring the document back.
            await self._stores.queue.drop(document_id, fence=turn.fence)
        chunks = await self._stores.vectors.known(owner, document_id) if turn.fence else None
        known = await self._stores.graph.remove(owner, document_id, fence=turn.fence)
        turn.check()
        await self._stores.derived.drop(owner, document_id)
        await self._stores.vectors.drop(owner, document_id, known=chunks)
        await self._stores.intents.forget(document_id, fence=turn.fence)
        return known
