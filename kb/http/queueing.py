"""Ingest by way of the queue, and the queue itself."""

from __future__ import annotations

from aiohttp import web

from crds import scope
from kb import errors, visibility, wire, writing
from kb.http import access, answering, body, openapi
from kb.ingest import intake, intent
from kb.queue import job, worker


class Queueing:
    """The routes of a process that has a queue."""

    def __init__(self, way: intake.Intake, queue: job.Queue, workers: worker.Workers, intents: intent.Intents) -> None:
        self._intake = way
        self._queue = queue
        self._workers = workers
        self._intents = intents

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (INGEST, self.ingest),
            (LIST, self.list),
            (REORDER, self.reorder),
            (PRIORITIZE, self.prioritize),
        ]

    async def ingest(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest"""
        document = await body.read(request, wire.IngestRequest)
        return answering.json(await self._intake.take(document, body.urgency(request)), 202)

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/queue"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=100, most=1000)
        jobs, total = await self._queue.listed(viewer, limit=limit)
        failed = await self._intents.failed(viewer, limit=limit)
        running = self._workers.running
        return answering.json(
            writing.Queue(
                jobs=[_job(one, place, running) for place, one in enumerate(jobs, start=1)],
                total=total,
                failed=[
                    writing.Failure(source_urn=one.source_urn, reason=one.reason, at=one.updated_at) for one in failed
                ],
            )
        )

    async def reorder(self, request: web.Request) -> web.Response:
        """POST /api/v1/queue/reorder"""
        move = await body.read(request, writing.Move)
        return await self._moved(request, move.scope, move.id, move.position)

    async def prioritize(self, request: web.Request) -> web.Response:
        """POST /api/v1/queue/prioritize"""
        asked = await body.read(request, writing.Prioritize)
        return await self._moved(request, asked.scope, asked.id, 1)

    async def _moved(self, request: web.Request, viewer: scope.Scope, document_id: str, position: int) -> web.Response:
        found = await self._queue.find(document_id)
        if found is not None and visibility.sees(viewer, found[0].owner):
            # Who sees a wider scope's document may not therefore move it.
            access.check(request, found[0].owner)
        moved = await self._queue.move(viewer, document_id, position)
        if moved is None:
            raise errors.NotFound(
                f"nothing in the queue has the id {document_id!r}",
                field="id",
                remedy="See GET /api/v1/queue for the ids; what is done is no longer in it.",
            )
        jobs, _ = await self._queue.listed(viewer, limit=1000)
        place = next((at for at, one in enumerate(jobs, start=1) if one.document_id == document_id), len(jobs))
        return answering.json(_job(moved, place, self._workers.running))


def _job(one: job.Job, place: int, running: frozenset[str]) -> writing.Job:
    running_now = one.document_id in running
    return writing.Job(
        id=one.document_id,
        scope=one.owner,
        source_urn=one.source_urn,
        kind=one.kind,
        action=one.action.value,
        state="Running" if running_now else "Postponed" if one.attempts else "Waiting",
        priority=int(one.urgency),
        place=place,
        queue_position=one.position,
        attempts=one.attempts,
        reason=one.reason,
        created_at=one.created_at,
        not_before=one.not_before,
    )


INGEST = openapi.Route(
    "POST",
    "/api/v1/ingest",
    "Make a document findable now and extract its entities later",
    status=202,
    body=wire.IngestRequest,
    reply=wire.IndexReply,
)
LIST = openapi.Route(
    "GET",
    "/api/v1/queue",
    "Documents that wait for extraction, and those that failed",
    reply=writing.Queue,
    query=openapi.SCOPE,
    optional=("limit",),
)
REORDER = openapi.Route(
    "POST", "/api/v1/queue/reorder", "Give a waiting document a place", body=writing.Move, reply=writing.Job
)
PRIORITIZE = openapi.Route(
    "POST",
    "/api/v1/queue/prioritize",
    "Move a waiting document to the front",
    body=writing.Prioritize,
    reply=writing.Job,
)
