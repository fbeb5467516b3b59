"""The state of the stores, and moving a project's data into its group."""

from __future__ import annotations

from typing import Literal

from aiohttp import web

from kb import api, errors, routes, visibility
from kb.ingest import changes, request_record
from kb.service.http import answering, body, openapi
from kb.upkeep import check, reconcile

_FINDINGS = 200


class Consistency:
    """The look, and when the background looked."""

    def __init__(
        self, checker: check.Checker, intents: request_record.IngestRequestRecords, noted: changes.Changes
    ) -> None:
        self._checker = checker
        self._intents = intents
        self._changes = noted

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(routes.CONSISTENCY, self.consistency)]

    async def consistency(self, request: web.Request) -> web.Response:
        """GET /api/v1/health/consistency"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=5000, most=100_000)
        look = await self._checker.look(viewer.client_id, after=request.query.get("after"), limit=limit)
        findings = [one for one in look.findings if visibility.sees(viewer, one.owner)]
        unfinished = len(await self._intents.pending(viewer, limit=1000))
        failed = len(await self._intents.failed(viewer, limit=1000))
        passes = sorted((await self._changes.passes()).values(), key=lambda one: one.kind)
        state: Literal["Consistent", "Partial", "Inconsistent"] = "Consistent"
        if findings:
            state = "Inconsistent"
        elif look.next or unfinished or failed:
            state = "Partial"
        return answering.json(
            api.ConsistencyReply(
                state=state,
                documents=len({document for document, _, owner in look.seen if visibility.sees(viewer, owner)}),
                chunks=sum(visibility.sees(viewer, owner) for _, _, owner in look.seen),
                unfinished=unfinished,
                failed=failed,
                findings=[
                    api.Finding(kind=one.kind, source_urn=one.source_urn, subject=one.subject, detail=one.detail)
                    for one in findings[:_FINDINGS]
                ],
                next=look.next,
                passes=[api.Pass(kind=one.kind, begun_at=one.begun_at, ended_at=one.ended_at) for one in passes],
            )
        )


class Upkeep:
    """The route of a process that writes."""

    def __init__(self, reconciler: reconcile.Reconciler) -> None:
        self._reconciler = reconciler

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(routes.PROJECTS_REGROUP, self.regroup)]

    async def regroup(self, request: web.Request) -> web.Response:
        """POST /api/v1/projects/regroup"""
        asked = await body.read(request, api.Regroup)
        if not asked.scope.project_id:
            raise errors.Invalid(
                "scope.projectId is missing", field="scope.projectId", remedy="Name the project that moves."
            )
        documents, vectors = await self._reconciler.regroup(asked.scope)
        return answering.json(api.Regrouped(documents=documents, vectors=vectors))
