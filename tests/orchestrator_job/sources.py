"""The sources process as a run sees it on the wire: effects by key, done once each, and counted."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from sources.effects import wire
from tests import httpserver


class Sources:
    """`done`: what was asked for by each key; `attempts` counts requests by key, `effects` what happened. Of the next
    `unsure` effects it is not known whether they did."""

    def __init__(self) -> None:
        self.url, self.unsure = "", 0
        self.done: dict[str, wire.Outcome] = {}
        self.arguments: dict[str, dict[str, Any]] = {}
        self.attempts: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        every = ("sendMail", "addComment", "createIssue", "updateIssue", "editPage", "pushBranch")
        kinds = {"office": every[:1], "tracker": every[1:4], "wiki": every[4:5], "storage": every[5:]}
        self.connections = tuple(wire.Named(name=name, type="", uses=uses) for name, uses in kinds.items())

    async def post(self, request: web.Request) -> web.Response:
        """POST /api/v1/effects/{tool}"""
        asked = wire.Request.model_validate_json(await request.read())
        key = f"{request.headers.get('Authorization', '')} {asked.key}"
        self.attempts[key] += 1
        if key not in self.done:
            self.effects[key] += 1
            self.arguments[key] = asked.arguments
            lost, self.unsure = self.unsure > 0, max(0, self.unsure - 1)
            self.done[key] = wire.Outcome(
                key=asked.key,
                tool=request.match_info["name"],
                connection=asked.connection,
                state=wire.State.UNKNOWN if lost else wire.State.DONE,
                result={} if lost else {"messageId": "<1@example.com>"},
                asked_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
            )
        return web.json_response(text=self.done[key].model_dump_json(by_alias=True))

    async def listed(self, request: web.Request) -> web.Response:
        """GET /api/v1/connections"""
        return web.json_response(text=wire.Connections(connections=self.connections).model_dump_json(by_alias=True))

    async def get(self, request: web.Request) -> web.Response:
        """GET /api/v1/effects/{key}"""
        key = f"{request.headers.get('Authorization', '')} {request.match_info['name']}"
        if key not in self.done:
            problem = {"error": {"code": "not_found", "message": "no such key", "field": "key"}}
            return web.json_response(problem, status=404)
        return web.json_response(text=self.done[key].model_dump_json(by_alias=True))


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Sources]:
    """A sources process on a free port of loopback. The tokens distinguish its tasks."""
    sources = Sources()
    app = web.Application()
    app.router.add_post("/api/v1/effects/{name}", sources.post)
    app.router.add_get("/api/v1/effects/{name}", sources.get)
    app.router.add_get("/api/v1/connections", sources.listed)
    async with httpserver.serving(app) as sources.url:
        yield sources
