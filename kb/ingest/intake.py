"""The way in for documents that need no hints: through the writer's lane, indexed at once, extracted by the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crds import priority, scope
from kb import api
from kb.files import inside
from kb.ingest import lanes, pipeline


class Intake:
    """`notify` wakes the workers of the queue."""

    def __init__(self, pipe: pipeline.Pipeline, writers: lanes.Lanes, notify: Callable[[], None]) -> None:
        self._pipeline = pipe
        self._lanes = writers
        self._notify = notify

    async def forget(self, owner: scope.Scope, source_urn: str) -> bool:
        """Delete a document as `Pipeline.forget` does; True when it was known."""
        return await self._pipeline.forget(owner, source_urn)

    async def take(
        self, request: api.IngestRequest, urgency: priority.Priority | None, inner: Sequence[inside.Image] = ()
    ) -> api.IndexReply:
        """Make the document findable, and `inner`, the images of its file that were looked at. Raises what
        `Lanes.enter` and `Pipeline.index` raise."""
        async with self._lanes.enter(urgency, request.scope.client_id):
            reply = await self._pipeline.index(request, priority.Priority.P3 if urgency is None else urgency, inner)
        if reply.queued:
            self._notify()
        return reply

    async def retry(self, document_id: str, urgency: priority.Priority | None) -> bool:
        """Queue a failed document once more. Raises what `Pipeline.retry` raises."""
        queued = await self._pipeline.retry(document_id, priority.Priority.P3 if urgency is None else urgency)
        if queued:
            self._notify()
        return queued
