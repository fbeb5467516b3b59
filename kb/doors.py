"""The rooms behind the door: rules, memories, aliases, the queue, uploads. Each is a few typed calls of one client.

`kb.client.Client` gives them (`client.rules.put(...)`); nobody else makes one. Calls raise `kb.client.Unavailable`
or `kb.client.Rejected`.
"""

from __future__ import annotations

from typing import Any

from crds import priority, scope
from kb import transport, wire, writing


def _query(where: scope.Scope, **more: Any) -> dict[str, str]:
    given = {name: str(value) for name, value in more.items() if value is not None}
    return {**where.model_dump(by_alias=True), **given}


class Rules:
    """Hard rules: an agent loads them before it acts."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def in_force(self, viewer: scope.Scope, kind: writing.RuleType | None = None) -> list[writing.Rule]:
        """Every rule that holds for the viewer, wider ones included."""
        query = _query(viewer, ruleType=kind.value if kind else None)
        return (await self._way.call("GET", "/api/v1/rules", writing.Rules, params=query)).rules

    async def put(self, draft: writing.RuleDraft) -> writing.Rule:
        """A new version, unless the one in force says the same."""
        return await self._way.call("PUT", "/api/v1/rules", writing.Rule, body=draft)

    async def delete(self, owner: scope.Scope, rule_key: str, by: str) -> None:
        """Take a rule out of force; its history stays."""
        await self._way.send("DELETE", "/api/v1/rules", params=_query(owner, ruleKey=rule_key, deletedBy=by))

    async def history(self, viewer: scope.Scope, rule_key: str) -> list[writing.Rule]:
        """Every version, newest first."""
        query = _query(viewer, ruleKey=rule_key)
        return (await self._way.call("GET", "/api/v1/rules/history", writing.Rules, params=query)).rules


class Memory:
    """Of a task, of the last days, of procedures, and of the user."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def task(self, viewer: scope.Scope, uid: str) -> writing.TaskMemory:
        """What a task knows."""
        return await self._way.call("GET", f"/api/v1/memory/task/{uid}", writing.TaskMemory, params=_query(viewer))

    async def add_findings(self, uid: str, findings: writing.Findings) -> writing.TaskMemory:
        """Add structured data to a task's memory."""
        return await self._way.call("POST", f"/api/v1/memory/task/{uid}", writing.TaskMemory, body=findings)

    async def session(self, viewer: scope.Scope, *, limit: int | None = None) -> list[writing.SessionEntry]:
        """What happened lately for exactly this client and project, newest first."""
        query = _query(viewer, limit=limit)
        return (await self._way.call("GET", "/api/v1/memory/session", writing.Session, params=query)).entries

    async def remember(self, draft: writing.SessionDraft) -> writing.SessionEntry:
        """Remember for a week."""
        return await self._way.call("POST", "/api/v1/memory/session", writing.SessionEntry, body=draft)

    async def procedures(
        self, client_id: str, trigger: str | None = None, *, limit: int | None = None
    ) -> list[writing.Procedure]:
        """How a client's tasks are done, best first."""
        query = {"clientId": client_id, "trigger": trigger, "limit": None if limit is None else str(limit)}
        given = {name: value for name, value in query.items() if value is not None}
        return (await self._way.call("GET", "/api/v1/memory/procedural", writing.Procedures, params=given)).procedures

    async def save_procedure(self, draft: writing.ProcedureDraft) -> writing.Procedure:
        """Save; the same client, source and trigger is replaced."""
        return await self._way.call("PUT", "/api/v1/memory/procedural", writing.Procedure, body=draft)

    async def use_procedure(self, use: writing.Use) -> writing.Procedure:
        """Count a use."""
        return await self._way.call("POST", "/api/v1/memory/procedural/uses", writing.Procedure, body=use)

    async def forget_procedure(self, client_id: str, procedure_id: str) -> None:
        """Delete."""
        query = {"clientId": client_id, "id": procedure_id}
        await self._way.send("DELETE", "/api/v1/memory/procedural", params=query)

    async def user(self, viewer: scope.Scope) -> writing.UserContext:
        """What is known about the user, for the start of a conversation."""
        return await self._way.call("GET", "/api/v1/user-context", writing.UserContext, params=_query(viewer))


class Aliases:
    """Which names mean which nodes."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def listed(self, viewer: scope.Scope, *, key: str | None = None) -> list[writing.Alias]:
        """Visible aliases; with `key` those that lead from or to it."""
        query = _query(viewer, key=key)
        return (await self._way.call("GET", "/api/v1/aliases", writing.Aliases, params=query)).aliases

    async def candidates(self, viewer: scope.Scope, key: str) -> list[writing.Candidate]:
        """Nodes that may be the same thing as `key`, the likest first."""
        query = _query(viewer, key=key)
        return (await self._way.call("GET", "/api/v1/aliases/candidates", writing.Candidates, params=query)).candidates

    async def merge(self, merge: writing.Merge) -> writing.MergeReply:
        """Let one node's key mean another node."""
        return await self._way.call("PUT", "/api/v1/aliases", writing.MergeReply, body=merge)

    async def unmerge(self, owner: scope.Scope, alias: str) -> writing.MergeReply:
        """Take a merge back."""
        query = _query(owner, alias=alias)
        return await self._way.call("DELETE", "/api/v1/aliases", writing.MergeReply, params=query)


class Queue:
    """The extraction queue."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def listed(self, viewer: scope.Scope, *, limit: int | None = None) -> writing.Queue:
        """The head of the queue, and what failed for good."""
        return await self._way.call("GET", "/api/v1/queue", writing.Queue, params=_query(viewer, limit=limit))

    async def reorder(self, viewer: scope.Scope, job_id: str, position: int) -> writing.Job:
        """Give a waiting document a place."""
        move = writing.Move(scope=viewer, id=job_id, position=position)
        return await self._way.call("POST", "/api/v1/queue/reorder", writing.Job, body=move)

    async def prioritize(self, viewer: scope.Scope, job_id: str) -> writing.Job:
        """Move a waiting document to the front."""
        asked = writing.Prioritize(scope=viewer, id=job_id)
        return await self._way.call("POST", "/api/v1/queue/prioritize", writing.Job, body=asked)


class Erasing:
    """Forgetting a whole scope."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def ask(self, where: scope.Scope, by: str) -> writing.Erasure:
        """Forget all that the scope owns; the work goes on after this returns, a running one is answered as it is."""
        draft = writing.ErasureDraft(scope=where, by=by)
        return await self._way.call("POST", "/api/v1/erasures", writing.Erasure, body=draft)

    async def listed(self, viewer: scope.Scope) -> list[writing.Erasure]:
        """Erasures of the scope and of what lies in it, the latest first."""
        return (await self._way.call("GET", "/api/v1/erasures", writing.Erasures, params=_query(viewer))).erasures


class Learning:
    """Documents, files, pages and lessons that are made findable now and extracted later."""

    def __init__(self, way: transport.Transport) -> None:
        self._way = way

    async def index(
        self, request: wire.IngestRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> wire.IndexReply:
        """Make a document findable now; its entities are extracted later."""
        return await self._way.call("POST", "/api/v1/ingest", wire.IndexReply, body=request, urgency=urgency)

    async def store(
        self, said: writing.Knowledge, *, urgency: priority.Priority = priority.Priority.P1
    ) -> wire.IndexReply:
        """Store something learned from a person."""
        return await self._way.call("POST", "/api/v1/store", wire.IndexReply, body=said, urgency=urgency)

    async def outcome(self, task: writing.Outcome) -> writing.OutcomeReply:
        """Remember what a finished task taught, if it is worth it."""
        return await self._way.call("POST", "/api/v1/outcomes", writing.OutcomeReply, body=task)

    async def file(
        self,
        owner: scope.Scope,
        body: bytes,
        *,
        filename: str = "",
        source_urn: str | None = None,
        urgency: priority.Priority = priority.Priority.P3,
    ) -> writing.FileReply:
        """Make a file known; its type is what its content says."""
        return await self._upload("/api/v1/ingest/file", owner, body, filename, source_urn, urgency)

    async def image(
        self,
        owner: scope.Scope,
        body: bytes,
        *,
        filename: str = "",
        source_urn: str | None = None,
        urgency: priority.Priority = priority.Priority.P2,
    ) -> writing.FileReply:
        """Make an image known by what a vision model sees in it."""
        return await self._upload("/api/v1/ingest/image", owner, body, filename, source_urn, urgency)

    async def attachment(
        self, draft: writing.AttachmentDraft, *, urgency: priority.Priority = priority.Priority.P3
    ) -> writing.FileReply:
        """Make a stored file known that came with a document."""
        path = "/api/v1/ingest/attachment"
        return await self._way.call("POST", path, writing.FileReply, body=draft, urgency=urgency)

    async def crawl(
        self, crawl: writing.Crawl, *, urgency: priority.Priority = priority.Priority.P3
    ) -> writing.CrawlReply:
        """Make the pages of a site known."""
        return await self._way.call("POST", "/api/v1/crawl", writing.CrawlReply, body=crawl, urgency=urgency)

    async def _upload(
        self,
        path: str,
        owner: scope.Scope,
        body: bytes,
        filename: str,
        source_urn: str | None,
        urgency: priority.Priority,
    ) -> writing.FileReply:
        headers = {"Content-Type": "application/octet-stream", priority.HEADER: str(int(urgency))}
        query = _query(owner, filename=filename or None, sourceUrn=source_urn)
        answer = await self._way.send("POST", path, params=query, headers=headers, content=body)
        return transport.parse(answer, writing.FileReply)
