"""The memories over HTTP: of a task, of the last days, of procedures."""

from __future__ import annotations

from aiohttp import web

from crds import scope
from kb import api, errors, routes
from kb.memory import procedures, session, task, user
from kb.service.http import access, answering, body, openapi

_OF_ONE_TRIGGER = 10
"""Procedures of one trigger: one of each source."""


class Users:
    """The route of a process that reads."""

    def __init__(self, known: user.Users) -> None:
        self._users = known

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.USER_CONTEXT, self.context)]

    async def context(self, request: web.Request) -> web.Response:
        """GET /api/v1/user-context?clientId=..."""
        return answering.json(await self._users.context(body.owner(request)))


class Memory:
    """The routes of every process."""

    def __init__(self, tasks: task.Tasks, sessions: session.Sessions, ways: procedures.Procedures) -> None:
        self._tasks = tasks
        self._sessions = sessions
        self._procedures = ways

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.MEMORY_TASK, self.task),
            (routes.MEMORY_CONVERSATION, self.conversation),
            (routes.MEMORY_FINDINGS, self.findings),
            (routes.MEMORY_SESSION, self.recent),
            (routes.MEMORY_REMEMBER, self.remember),
            (routes.MEMORY_PROCEDURES, self.ways),
            (routes.MEMORY_SAVE_PROCEDURE, self.save_way),
            (routes.MEMORY_USE_PROCEDURE, self.use_way),
            (routes.MEMORY_FORGET_PROCEDURE, self.forget_way),
        ]

    async def task(self, request: web.Request) -> web.Response:
        """GET /api/v1/memory/task/{uid}"""
        return answering.json(await self._tasks.load(body.owner(request), request.match_info["uid"]))

    async def conversation(self, request: web.Request) -> web.Response:
        """GET /api/v1/memory/task?correlationId=..."""
        named = answering.text(request, "correlationId")
        return answering.json(api.TaskMemories(tasks=await self._tasks.conversation(body.owner(request), named)))

    async def findings(self, request: web.Request) -> web.Response:
        """POST /api/v1/memory/task/{uid}"""
        found = await body.read(request, api.Findings)
        # Who sees a wider scope's task may not therefore write into its memory.
        access.check(request, await self._tasks.owner(found.scope, request.match_info["uid"]))
        return answering.json(await self._tasks.add(found.scope, request.match_info["uid"], found))

    async def recent(self, request: web.Request) -> web.Response:
        """GET /api/v1/memory/session"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=50, most=50)
        if isinstance(viewer, scope.Viewer):
            # An entry does not say who may see what it sums up.
            return answering.json(api.Session(entries=[]))
        return answering.json(api.Session(entries=await self._sessions.recent(viewer, limit=limit)))

    async def remember(self, request: web.Request) -> web.Response:
        """POST /api/v1/memory/session"""
        return answering.json(await self._sessions.add(await body.read(request, api.SessionDraft)), 201)

    async def ways(self, request: web.Request) -> web.Response:
        """GET /api/v1/memory/procedural"""
        client = body.owner(request).client_id
        limit = answering.number(request, "limit", default=20, most=200)
        found = await self._procedures.find(client, request.query.get("trigger"), limit=limit)
        return answering.json(api.Procedures(procedures=found))

    async def save_way(self, request: web.Request) -> web.Response:
        """PUT /api/v1/memory/procedural"""
        draft = await body.read(request, api.ProcedureDraft)
        access.check(request, access.of_client(request, draft.client_id))
        run = access.run(request)
        if draft.source != "learned" and run is not None:
            if not run.teaches:
                raise errors.Forbidden(
                    f"{access.who(request)} has no answer of a user",
                    field="source",
                    remedy="A run writes a procedure as a user's own once a person has answered its question.",
                )
            await self._check_new(draft)
        return answering.json(await self._procedures.put(draft))

    async def _check_new(self, draft: api.ProcedureDraft) -> None:
        """A run writes down what its user has answered; it replaces nothing that a user defined before."""
        steps = [step.model_dump(by_alias=True) for step in draft.procedure_steps]
        for one in await self._procedures.find(draft.client_id, draft.trigger_pattern, limit=_OF_ONE_TRIGGER):
            if one.source == draft.source and one.procedure_steps != steps:
                raise errors.Forbidden(
                    "a run replaces no procedure that a user has defined",
                    field="triggerPattern",
                    remedy="A person changes it with `jervis-kb procedures set`.",
                )

    async def use_way(self, request: web.Request) -> web.Response:
        """POST /api/v1/memory/procedural/uses"""
        use = await body.read(request, api.Use)
        access.check(request, access.of_client(request, use.client_id))
        return answering.json(await self._procedures.used(use))

    async def forget_way(self, request: web.Request) -> web.Response:
        """DELETE /api/v1/memory/procedural?id=...&clientId=..."""
        client = body.owner(request).client_id
        # A procedure is the whole client's, whatever narrower scope the query names.
        access.check(request, scope.Scope(client_id=client))
        await self._procedures.forget(client, answering.text(request, "id"))
        return web.Response(status=204)
