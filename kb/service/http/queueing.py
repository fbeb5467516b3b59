"""Ingest by way of the queue, and the queue itself."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from crds import errors as crds_errors
from crds import scope
from kb import api, errors, identity, routes, visibility
from kb.ingest import intake, request_record
from kb.queue import job, worker
from kb.service.http import access, answering, body, openapi

# So many failed documents are tried again by one call; the rest by the next one.
_RETRIED = 1000


class Queueing:
    """The routes of a process that has a queue."""

    def __init__(
        self,
        way: intake.Intake,
        queue: job.Queue,
        workers: worker.Workers,
        intents: request_record.IngestRequestRecords,
    ) -> None:
        self._intake = way
        self._queue = queue
        self._workers = workers
        self._intents = intents

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.INDEX, self.ingest),
            (routes.QUEUE_LIST, self.list),
            (routes.QUEUE_REORDER, self.reorder),
            (routes.QUEUE_PRIORITIZE, self.prioritize),
            (routes.QUEUE_RETRY, self.retry),
        ]

    async def ingest(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest"""
        document = await body.read(request, api.IngestRequest)
        access.concerns(request, identity.document(document.scope, document.source_urn))
        return answering.json(await self._intake.take(document, body.urgency(request)), 202)

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/queue"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=100, most=1000)
        running = self._workers.running
        jobs, total = await self._queue.listed(viewer, limit=limit, running=running)
        failed = await self._intents.failed(viewer, limit=limit)
        return answering.json(
            api.Queue(
                jobs=[_job(one, place, running) for place, one in enumerate(jobs, start=1)],
                total=total,
                failed=[_failure(one) for one in failed],
            )
        )

    async def reorder(self, request: web.Request) -> web.Response:
        """POST /api/v1/queue/reorder"""
        move = await body.read(request, api.Move)
        return await self._moved(request, move.scope, move.id, move.position)

    async def prioritize(self, request: web.Request) -> web.Response:
        """POST /api/v1/queue/prioritize"""
        asked = await body.read(request, api.Prioritize)
        return await self._moved(request, asked.scope, asked.id, 1)

    async def retry(self, request: web.Request) -> web.Response:
        """POST /api/v1/queue/retry"""
        asked = await body.read(request, api.Retry)
        failed = await self._intents.failed(asked.scope, limit=_RETRIED)
        if asked.id is not None:
            failed = [one for one in failed if one.document_id == asked.id]
            if not failed:
                raise errors.NotFound(
                    f"no document that failed has the id {asked.id!r}",
                    field="id",
                    remedy="See `failed` of GET /api/v1/queue for the ids.",
                )
        for owner in {one.owner for one in failed}:
            access.check(request, owner)
        urgency = body.urgency(request)
        retried: list[str] = []
        left: list[api.Failure] = []
        for one in failed[::-1]:  # the oldest first
            try:
                queued = await self._intake.retry(one.document_id, urgency)
                reason = one.reason if one.recorded else f"its request is not kept; send it again: {one.reason}"
            except (crds_errors.Permanent, errors.Crowded) as error:
                queued, reason = False, error.message
            if queued:
                retried.append(one.source_urn)
            else:
                left.append(_failure(replace(one, reason=reason)))
        return answering.json(api.Retried(retried=retried, left=left))

    async def _moved(self, request: web.Request, viewer: scope.Scope, document_id: str, position: int) -> web.Response:
        found = (await self._queue.among([document_id])).get(document_id)
        if found is not None and visibility.sees(viewer, found.owner):
            # Who sees a wider scope's document may not therefore move it.
            access.check(request, found.owner)
        moved = await self._queue.move(viewer, document_id, position)
        if moved is None:
            raise errors.NotFound(
                f"nothing in the queue has the id {document_id!r}",
                field="id",
                remedy="See GET /api/v1/queue for the ids; what is done is no longer in it.",
            )
        running = self._workers.running
        jobs, _ = await self._queue.listed(viewer, limit=1000, running=running)
        at = next((at for at, one in enumerate(jobs) if one.document_id == document_id), None)
        return answering.json(_job(moved, len(jobs), running) if at is None else _job(jobs[at], at + 1, running))


def _failure(one: request_record.IngestRequestRecord) -> api.Failure:
    return api.Failure(
        id=one.document_id,
        scope=one.owner,
        source_urn=one.source_urn,
        reason=one.reason,
        at=one.updated_at,
        retryable=one.recorded,
    )


def _job(one: job.Job, place: int, running: frozenset[str]) -> api.Job:
    running_now = one.document_id in running
    return api.Job(
        id=one.document_id,
        scope=one.owner,
        source_urn=one.source_urn,
        kind=one.kind,
        action=one.action.value,
        state="Running" if running_now else "Postponed" if one.attempts else "Waiting",
        priority=int(one.urgency),
        place=place,
        ahead=one.ahead or 0,
        queue_position=one.position,
        attempts=one.attempts,
        reason=one.reason,
        created_at=one.created_at,
        not_before=one.not_before,
    )
