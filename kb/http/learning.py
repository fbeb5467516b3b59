"""What people and tasks taught, over HTTP: /store and /outcomes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from aiohttp import web

from kb import identity, wire, writing
from kb.http import answering, body, openapi
from kb.ingest import intake
from kb.outcome import learn


class Learning:
    """The routes of a process that writes. `clock` gives the time in UTC."""

    def __init__(self, way: intake.Intake, learner: learn.Learner, clock: Callable[[], datetime]) -> None:
        self._intake = way
        self._learner = learner
        self._clock = clock

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(STORE, self.store), (OUTCOME, self.outcome)]

    async def store(self, request: web.Request) -> web.Response:
        """POST /api/v1/store"""
        said = await body.read(request, writing.Knowledge)
        document = knowledge(said, self._clock())
        return answering.json(await self._intake.take(document, body.urgency(request)), 202)

    async def outcome(self, request: web.Request) -> web.Response:
        """POST /api/v1/outcomes"""
        return answering.json(await self._learner.learn(await body.read(request, writing.Outcome)))


def knowledge(said: writing.Knowledge, now: datetime) -> wire.IngestRequest:
    """The document of what a person said (seed 001 "User Context Auto-Prefetch").

    The seed ends the URN with a timestamp; here it is the hash of the content, so that a repeated call, or the same
    sentence in another conversation, is the same document with a newer date.
    """
    place = f"{said.category.value}:{said.subject}"
    return wire.IngestRequest(
        scope=said.scope,
        source_urn=f"user-knowledge:{place}:{identity.digest(said.content)[:16]}",
        kind=said.category.kind,
        title=said.subject,
        content=said.content,
        observed_at=now,
    )


STORE = openapi.Route(
    "POST",
    "/api/v1/store",
    "Store something learned from a person",
    status=202,
    body=writing.Knowledge,
    reply=wire.IndexReply,
)
OUTCOME = openapi.Route(
    "POST",
    "/api/v1/outcomes",
    "Remember what a finished task taught",
    body=writing.Outcome,
    reply=writing.OutcomeReply,
)
