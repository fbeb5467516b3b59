"""What people and tasks taught, over HTTP: /store and /outcomes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from kb import api, identity, routes
from kb.ingest import intake
from kb.outcome import learn
from kb.service.http import access, answering, body, openapi


class Learning:
    """The routes of a process that writes. `clock` gives the time in UTC."""

    def __init__(self, way: intake.Intake, learner: learn.Learner, clock: Callable[[], datetime]) -> None:
        self._intake = way
        self._learner = learner
        self._clock = clock

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.STORE, self.store), (routes.OUTCOMES, self.outcome)]

    async def store(self, request: web.Request) -> web.Response:
        """POST /api/v1/store"""
        said = await body.read(request, api.Knowledge)
        document = knowledge(said, self._clock())
        access.concerns(request, identity.document(document.scope, document.source_urn))
        reply = await self._intake.take(document, body.urgency(request))
        return answering.json(reply, 202)

    async def outcome(self, request: web.Request) -> web.Response:
        """POST /api/v1/outcomes"""
        return answering.json(await self._learner.learn(await body.read(request, api.Outcome)))


def knowledge(said: api.Knowledge, now: datetime) -> api.IngestRequest:
    """The document of what a person said (seed 001 "User Context Auto-Prefetch").

    The seed ends the URN with a timestamp; here it is the hash of subject and content, so that a repeated call, or the
    same sentence in another conversation, is the same document with a newer date. No word of a person is in it: URNs
    are shown where documents are not.
    """
    words = identity.digest(f"{said.subject}\n{said.content}")[:32]
    return api.IngestRequest(
        scope=said.scope,
        source_urn=f"user-knowledge:{said.category.value}:{words}",
        kind=said.category.kind,
        title=said.subject,
        content=said.content,
        observed_at=now,
    )
