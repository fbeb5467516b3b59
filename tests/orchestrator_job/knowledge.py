"""The knowledge base as the Job sees it on the wire: an HTTP server that gives fixed answers and counts the questions.

The service itself is tested in `tests/kb`; `test_real_kb.py` runs the Job against it. Replies are built from
`kb.api`, so that they cannot drift from what the service answers. The paths on which the operator writes are in
`tests/operator/knowledge.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from kb import api
from tests import httpserver


def hit(content: str, source_urn: str = "email::<plan@example.org>", title: str = "Plan") -> api.EvidenceItem:
    """One item of evidence, found by its vector."""
    return api.EvidenceItem(
        source="RAG",
        content=content,
        confidence=0.8,
        provenance=api.Provenance(source_urn=source_urn, title=title, chunk_id=f"chunk-{abs(hash(content))}"),
    )


class Knowledge:
    """What the server knows and what it was asked. `refusals` are (status, body) answered before anything else."""

    def __init__(self) -> None:
        self.url = ""
        self.items: Sequence[api.EvidenceItem] = [hit("The release of the router is on Friday."), hit("Ann tests it.")]
        self.refused: set[str] = set()
        """Questions that are wrong."""
        self.contents: dict[str, bytes] = {}
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.priorities: list[str | None] = []
        self.parents: list[str | None] = []
        self.rules: list[api.Rule] = []
        self.user = api.UserContext(markdown="", categories={})
        self.session: list[api.SessionEntry] = []
        self.together: set[str] = set()
        """What is answered once all of it was asked for."""
        self.absent: dict[str, int] = {}
        """What is refused with this status."""
        self._asked_for = asyncio.Condition()
        self.procedures: list[api.Procedure] = []
        self.saved: list[dict[str, Any]] = []
        self.remembered: list[dict[str, Any]] = []
        self.used: list[dict[str, Any]] = []
        self.closed = False
        """Set it: every request is answered with 503."""
        self.found: dict[str, Sequence[api.EvidenceItem]] = {}
        """Question -> what is found for it, in place of `items`."""
        self.tokens: list[str | None] = []
        """Authorization of every request."""
        self.loaded: list[tuple[str, dict[str, str]]] = []
        self.answers = asyncio.Event()
        """Clear it to hold questions back."""
        self.answers.set()

    async def retrieve(self, request: web.Request) -> web.Response:
        """POST /api/v1/retrieve"""
        if self.refusals:
            status, body = self.refusals.pop(0)
            return web.json_response({"error": body}, status=status, headers={"Retry-After": "0"})
        question = api.RetrieveRequest.model_validate_json(await request.read())
        if question.query in self.refused:
            return web.json_response({"error": {"code": "invalid", "message": "no question"}}, status=422)
        self.asked.append(question.model_dump(by_alias=True))
        self.priorities.append(request.headers.get("X-Ollama-Priority"))
        self.parents.append(request.headers.get("traceparent"))
        await self.answers.wait()
        items = list(self.found.get(question.query, self.items))
        reply = api.RetrieveReply(items=items, summary=f"{len(items)} items")
        return web.json_response(text=reply.model_dump_json(by_alias=True))

    async def traverse(self, request: web.Request) -> web.Response:
        """POST /api/v1/graph/traverse"""
        edge = api.Related(source="person::eve", type="owns", target="product::till")
        return web.json_response(text=api.TraverseReply(nodes=[], edges=[edge]).model_dump_json(by_alias=True))

    async def save_way(self, request: web.Request) -> web.Response:
        """PUT /api/v1/memory/procedural"""
        self.saved.append(await request.json())
        return self._way(self.saved[-1]["triggerPattern"])

    async def use_way(self, request: web.Request) -> web.Response:
        """POST /api/v1/memory/procedural/uses"""
        self.used.append(await request.json())
        return self._way(self.used[-1]["id"])

    async def store(self, request: web.Request) -> web.Response:
        """POST /api/v1/store"""
        self.remembered.append(await request.json())
        made = api.IndexReply(
            id="1", source_urn="user::coffee", replaced=False, chunk_ids=[], queued=False, priority=3
        )  # fmt: skip
        return web.json_response(text=made.model_dump_json(by_alias=True))

    def _way(self, name: str) -> web.Response:
        made = api.Procedure(
            id=name, client_id="acme", trigger_pattern=name, procedure_steps=[], success_rate=1.0, usage_count=1,
            source="learned", score=1.0,
        )  # fmt: skip
        return web.json_response(text=made.model_dump_json(by_alias=True))

    async def load(self, request: web.Request) -> web.Response:
        """GET /api/v1/rules, /api/v1/user-context, /api/v1/memory/session, /api/v1/memory/procedural"""
        name = request.path.rpartition("/")[2]
        replies = {
            "rules": api.Rules(rules=self.rules),
            "user-context": self.user,
            "session": api.Session(entries=self.session),
            "procedural": api.Procedures(procedures=self.procedures),
        }
        self.loaded.append((name, dict(request.query)))
        if name in self.together:
            async with self._asked_for:
                self._asked_for.notify_all()
                await self._asked_for.wait_for(lambda: self.together <= {one for one, _ in self.loaded})
        if name in self.absent:
            problem = {"error": {"code": "absent", "message": "absent"}}
            return web.json_response(problem, status=self.absent[name], headers={"Retry-After": "0"})
        return web.json_response(text=replies[name].model_dump_json(by_alias=True))

    async def content(self, request: web.Request) -> web.Response:
        """GET /api/v1/content/{key}"""
        body = self.contents.get(request.match_info["key"])
        if body is None:
            problem = {"error": {"code": "not_found", "message": "no such content", "field": "key"}}
            return web.json_response(problem, status=404)
        return web.Response(body=body)


@asynccontextmanager
async def serving() -> AsyncIterator[Knowledge]:
    """A knowledge base on a free port of loopback."""
    knowledge = Knowledge()

    @web.middleware
    async def record(request: web.Request, handler: Any) -> web.StreamResponse:
        knowledge.tokens.append(request.headers.get("Authorization"))
        if knowledge.closed:
            problem = {"error": {"code": "away", "message": "away"}}
            return web.json_response(problem, status=503, headers={"Retry-After": "0"})
        answer: web.StreamResponse = await handler(request)
        return answer

    app = web.Application(middlewares=[record])
    app.router.add_post("/api/v1/retrieve", knowledge.retrieve)
    app.router.add_post("/api/v1/graph/traverse", knowledge.traverse)
    for path in ("rules", "user-context", "memory/session", "memory/procedural"):
        app.router.add_get(f"/api/v1/{path}", knowledge.load)
    app.router.add_put("/api/v1/memory/procedural", knowledge.save_way)
    app.router.add_post("/api/v1/memory/procedural/uses", knowledge.use_way)
    app.router.add_post("/api/v1/store", knowledge.store)
    app.router.add_get("/api/v1/content/{key}", knowledge.content)
    async with httpserver.serving(app) as knowledge.url:
        yield knowledge
