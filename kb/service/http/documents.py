"""The list of documents: what the graph shows, what is being done, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aiohttp import web

from kb import api, routes
from kb.graph import model
from kb.graph import store as graph
from kb.ingest import request_record
from kb.queue import job
from kb.service.http import answering, body, openapi


class Documents:
    """The route of a process that writes: others do not know what is unfinished."""

    def __init__(
        self, graph_store: graph.Store, intents: request_record.IngestRequestRecords, queue: job.Queue
    ) -> None:
        self._graph = graph_store
        self._intents = intents
        self._queue = queue

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(routes.DOCUMENTS_LIST, self.list)]

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/documents"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=100, most=1000)
        kind, after = request.query.get("kind") or None, request.query.get("after", "")
        beginning = request.query.get("source", "")
        shown = await self._graph.listed(viewer, kind=kind, beginning=beginning, after=after, limit=limit)
        # What was never committed has no kind yet.
        begun = [] if kind else await self._intents.listed(viewer, beginning=beginning, after=after, limit=limit)
        held = {one.document.id: one for one in shown}
        page = sorted({*held, *(one.document_id for one in begun)})[:limit]
        records = await self._intents.among(page)
        jobs = await self._queue.among(page)
        replaced = await self._graph.replaced(viewer, [key for key in page if key in held])
        # A document that was finished or deleted since it was listed is in neither any more.
        listed = [key for key in page if key in held or key in records]
        return answering.json(
            api.Documents(
                documents=[
                    _document(key, held.get(key), records.get(key), jobs.get(key), replaced.get(key, ()))
                    for key in listed
                ],
                next=page[-1] if len(page) == limit else None,
            )
        )


def _document(
    document_id: str,
    shown: model.Listed | None,
    record: request_record.IngestRequestRecord | None,
    waits: job.Job | None,
    replaced: Sequence[model.Document],
) -> api.Document:
    state: api.State = "Extracted"
    reason = ""
    if record is not None:
        state = "Failed" if record.state is request_record.State.FAILED else "Unfinished"
        reason = record.reason
    elif waits is not None:
        state, reason = "Indexed", waits.reason
    if shown is None:
        assert record is not None
        return api.Document(
            id=document_id,
            scope=record.owner,
            source_urn=record.source_urn,
            kind="",
            title="",
            state=state,
            chunks=0,
            reason=reason,
        )
    return api.Document(
        id=document_id,
        scope=shown.owner,
        source_urn=shown.document.source_urn,
        kind=shown.document.kind,
        title=shown.document.title,
        state=state,
        chunks=shown.chunks,
        reason=reason,
        observed_at=_moment(shown.document.observed_ms),
        valid_from=_moment(shown.document.start_ms),
        versions=[
            api.DocumentVersion(title=one.title, valid_from=_moment(one.start_ms), valid_until=_moment(one.until_ms))
            for one in replaced
        ],
    )


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
