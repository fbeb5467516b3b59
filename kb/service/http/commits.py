"""Commits of a Git repository over HTTP."""

from __future__ import annotations

from aiohttp import web

from kb import api, identity, routes
from kb.ingest import commits, lanes, observers
from kb.service.http import access, answering, body, observing, openapi, problems


class Commits:
    """The route of a process that writes; no model is waited for, so its lanes are those of other writers."""

    def __init__(self, works: commits.Commits, writers: lanes.Lanes, known: observers.Observers | None = None) -> None:
        self._works = works
        self._lanes = writers
        self._observers = known

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(routes.GIT_COMMITS, self.take)]

    async def take(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/git-commits"""
        urgency = body.urgency(request)
        sent = await body.read(request, api.GitCommits)
        hashes = [*(one.hash for one in sent.commits), *sent.removed]
        urns = [sent.repository.source_urn(one) for one in hashes]
        access.concerns(request, *(identity.document(sent.scope, one) for one in urns))
        based = observing.based(self._observers, request, sent.scope)
        async with self._lanes.enter(urgency, sent.scope.client_id), based:
            reply = await self._works.take(sent, answering.or_background(urgency), problems.code)
        return answering.json(reply)
