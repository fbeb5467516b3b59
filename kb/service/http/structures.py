"""The structure of a repository's branches over HTTP."""

from __future__ import annotations

from aiohttp import web

from codegraph import api, routes
from kb import errors, identity
from kb.ingest import lanes, observers, structures
from kb.service.http import access, answering, body, observing, openapi, problems


class Structures:
    """The route of a process that writes; no model is waited for, so its lanes are those of other writers."""

    def __init__(
        self, works: structures.Structures, writers: lanes.Lanes, known: observers.Observers | None = None
    ) -> None:
        self._works = works
        self._lanes = writers
        self._observers = known

    def routes(self) -> list[openapi.Served]:
        """The routes with their handlers."""
        return [(routes.GIT_STRUCTURE, self.take), (routes.CPG, self.enrich)]

    async def take(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/git-structure"""
        urgency = body.urgency(request)
        sent = await body.read(request, api.GitStructure)
        _concerns(request, sent)
        _within(request, sent)
        based = observing.based(self._observers, request, sent.scope)
        async with self._lanes.enter(urgency, sent.scope.client_id), based:
            reply = await self._works.take(sent, answering.or_background(urgency), problems.code)
        return answering.json(reply)

    async def enrich(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/cpg"""
        urgency = body.urgency(request)
        sent = await body.read(request, api.Cpg)
        _concerns(request, sent)
        _within(request, sent)
        async with self._lanes.enter(urgency, sent.scope.client_id):
            reply = await self._works.enrich(sent, answering.or_background(urgency), problems.code)
        return answering.json(reply)


def _concerns(request: web.Request, sent: api.GitStructure | api.Cpg) -> None:
    """Record the branch in the audit."""
    access.concerns(request, identity.document(sent.scope, sent.repository.branch_urn(sent.branch)))


def _within(request: web.Request, sent: api.GitStructure | api.Cpg) -> None:
    """The Job of an analysis says what is in its own repository. Where that is, who may see it and that a branch is
    gone, its Connection says. Raises `errors.Forbidden`."""
    claims = access.run(request)
    if claims is None:
        return
    if sent.repository.path != claims.repository:
        raise errors.Forbidden(
            f"this token is for the analysis of {claims.repository}",
            field="repository",
            remedy="Send what was found in that repository.",
        )
    odd = next((name for name in _OF_THE_CONNECTION if getattr(sent, name, None)), None)
    if odd is not None:
        raise errors.Forbidden(
            f"an analysis does not say {odd}", field=odd, remedy="Leave it out; the Connection that reads it says it."
        )


_OF_THE_CONNECTION = ("removed", "moved", "host", "access")
