"""The parts of the client: rules, memories, aliases, the queue, uploads. Each is a few typed calls of one client.

`kb.client.Client` gives them (`client.rules.put(...)`); no other code makes one. Calls raise `kb.client.Unavailable`
or `kb.client.Rejected`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clients import kb_transport
from contracts import http_routes
from crds import priority, scope
from kb import api, routes


def _query(where: scope.Scope, **more: Any) -> dict[str, str]:
    given = {name: str(value) for name, value in more.items() if value is not None}
    return {**where.model_dump(by_alias=True), **given}


class Rules:
    """Hard rules: an agent loads them before it acts."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def in_force(self, viewer: scope.Scope, kind: api.RuleType | None = None) -> list[api.Rule]:
        """Every rule that holds for the viewer, wider ones included."""
        query = _query(viewer, ruleType=kind.value if kind else None)
        return (await self._way.request(routes.RULES_LIST, params=query)).rules

    async def put(self, draft: api.RuleDraft) -> api.Rule:
        """A new version, unless the one in force says the same."""
        return await self._way.request(routes.RULES_PUT, body=draft)

    async def delete(self, owner: scope.Scope, rule_key: str, by: str) -> None:
        """Take a rule out of force; its history stays."""
        await self._way.raw(routes.RULES_DELETE, params=_query(owner, ruleKey=rule_key, deletedBy=by))

    async def history(self, viewer: scope.Scope, rule_key: str) -> list[api.Rule]:
        """Every version, newest first."""
        query = _query(viewer, ruleKey=rule_key)
        return (await self._way.request(routes.RULES_HISTORY, params=query)).rules


class EntityTypes:
    """What a scope's documents are looked through for beside what every extraction knows."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def listed(self, viewer: scope.Scope) -> list[api.EntityType]:
        """The types that count in the scope, wider ones included."""
        return (await self._way.request(routes.ENTITY_TYPES_LIST, params=_query(viewer))).types

    async def put(self, draft: api.EntityTypesDraft) -> list[api.EntityType]:
        """Replace those of exactly the scope; what counts there then."""
        return (await self._way.request(routes.ENTITY_TYPES_PUT, body=draft)).types


class Links:
    """Which links a scope opens, and the reading of one."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def read(
        self, request: api.IngestRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.IngestReply:
        """Read the page of one link, if it may be opened; `link` of the answer says what became of it."""
        return await self._way.request(routes.LINKS_READ, body=request, urgency=urgency, repeatable=True)

    async def patterns(self, viewer: scope.Scope) -> list[api.LinkPattern]:
        """The patterns that hold for the viewer, wider ones included."""
        query = _query(viewer)
        return (await self._way.request(routes.LINKS_LIST, params=query)).patterns

    async def put(self, draft: api.LinkPatternDraft) -> api.LinkPattern:
        """Call links safe or unsafe from now on."""
        return await self._way.request(routes.LINKS_PUT, body=draft)

    async def delete(self, owner: scope.Scope, pattern: str) -> None:
        """Forget a pattern of exactly this owner."""
        await self._way.raw(routes.LINKS_DELETE, params=_query(owner, pattern=pattern))


class Memory:
    """Of a task, of the last days, of procedures, and of the user."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def session(self, viewer: scope.Scope, *, limit: int | None = None) -> list[api.SessionEntry]:
        """What happened lately for exactly this client and project, or this group, newest first."""
        query = _query(viewer, limit=limit)
        return (await self._way.request(routes.MEMORY_SESSION, params=query)).entries

    async def procedures(
        self,
        client_id: str,
        trigger: str | None = None,
        *,
        limit: int | None = None,
        viewer: scope.Scope | None = None,
    ) -> list[api.Procedure]:
        """How a client's tasks are done, best first. `viewer` is a scope of the client as which a run asks, whose token
        opens no other."""
        given = _query(viewer or scope.Scope(client_id=client_id), trigger=trigger, limit=limit)
        return (await self._way.request(routes.MEMORY_PROCEDURES, params=given)).procedures

    async def save_procedure(self, draft: api.ProcedureDraft) -> api.Procedure:
        """Save; the same client, source and trigger is replaced."""
        return await self._way.request(routes.MEMORY_SAVE_PROCEDURE, body=draft)

    async def use_procedure(self, use: api.Use) -> api.Procedure:
        """Count a use."""
        return await self._way.request(routes.MEMORY_USE_PROCEDURE, body=use)

    async def forget_procedure(self, client_id: str, procedure_id: str) -> None:
        """Delete."""
        query = {"clientId": client_id, "id": procedure_id}
        await self._way.raw(routes.MEMORY_FORGET_PROCEDURE, params=query)

    async def user(self, viewer: scope.Scope) -> api.UserContext:
        """What is known about the user, for the start of a conversation."""
        return await self._way.request(routes.USER_CONTEXT, params=_query(viewer))


class Aliases:
    """Which names mean which nodes."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def listed(self, viewer: scope.Scope, *, key: str | None = None) -> list[api.Alias]:
        """Visible aliases; with `key` those that lead from or to it."""
        query = _query(viewer, key=key)
        return (await self._way.request(routes.ALIASES_LIST, params=query)).aliases

    async def candidates(self, viewer: scope.Scope, key: str) -> list[api.Candidate]:
        """Nodes that may be the same thing as `key`, the likest first."""
        query = _query(viewer, key=key)
        return (await self._way.request(routes.ALIASES_CANDIDATES, params=query)).candidates

    async def merge(self, merge: api.Merge) -> api.MergeReply:
        """Let one node's key mean another node."""
        return await self._way.request(routes.ALIASES_MERGE, body=merge)

    async def unmerge(self, owner: scope.Scope, alias: str) -> api.MergeReply:
        """Take a merge back."""
        query = _query(owner, alias=alias)
        return await self._way.request(routes.ALIASES_UNMERGE, params=query)


class Queue:
    """The extraction queue."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def listed(self, viewer: scope.Scope, *, limit: int | None = None) -> api.Queue:
        """The head of the queue, and what failed for good."""
        return await self._way.request(routes.QUEUE_LIST, params=_query(viewer, limit=limit))

    async def reorder(self, viewer: scope.Scope, job_id: str, position: int) -> api.Job:
        """Give a waiting document a place."""
        move = api.Move(scope=viewer, id=job_id, position=position)
        return await self._way.request(routes.QUEUE_REORDER, body=move)

    async def retry(self, viewer: scope.Scope, document_id: str | None = None) -> api.Retried:
        """Queue one failed document, or all that the scope sees, once more."""
        asked = api.Retry(scope=viewer, id=document_id)
        return await self._way.request(routes.QUEUE_RETRY, body=asked)


class Documents:
    """What is known, and how far each document has come."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def listed(
        self,
        viewer: scope.Scope,
        *,
        kind: str | None = None,
        source: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> api.Documents:
        """A page of documents; `source` is the beginning of a source URN, `after` the `next` of the page before."""
        query = _query(viewer, kind=kind, source=source, after=after, limit=limit)
        return await self._way.request(routes.DOCUMENTS_LIST, params=query)


class Erasing:
    """Forgetting a whole scope."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def ask(self, where: scope.Scope, by: str) -> api.Erasure:
        """Forget all that the scope owns; the work goes on after this returns, a running one is answered as it is."""
        draft = api.ErasureDraft(scope=where, by=by)
        return await self._way.request(routes.ERASURES_ASK, body=draft)

    async def listed(self, viewer: scope.Scope) -> list[api.Erasure]:
        """Erasures of the scope and of what lies in it, the latest first."""
        return (await self._way.request(routes.ERASURES_LIST, params=_query(viewer))).erasures

    async def places(self) -> list[api.Place]:
        """The places that can hold text, for which erasures wait."""
        return (await self._way.request(routes.ERASURES_PLACES)).places

    async def forget_place(self, place_id: str, by: str) -> list[api.Place]:
        """Say that the files of a place are gone for good; the places that remain."""
        draft = api.PlaceDraft(id=place_id, by=by)
        return (await self._way.request(routes.ERASURES_FORGET, body=draft)).places


class Reindexing:
    """How far a new embedding model has come."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def status(self) -> api.Reindex | None:
        """The latest reindex, None where there was none."""
        found = (await self._way.request(routes.REINDEX_STATUS)).reindexes
        return found[0] if found else None

    async def drop(self, by: str) -> api.Reindex:
        """Say that the index of the model before is not needed any more."""
        asked = api.ReindexDrop(by=by)
        return (await self._way.request(routes.REINDEX_DROP, body=asked)).reindexes[0]


class Projects:
    """Which group a project is in."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def regroup(self, project: scope.Scope) -> api.Regrouped:
        """Take all data of the project into the scope's group, or out of any; repeating it changes nothing."""
        asked = api.Regroup(scope=project)
        return await self._way.request(routes.PROJECTS_REGROUP, body=asked)


class Learning:
    """Documents, files, pages and lessons that are made findable now and extracted later."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def index(
        self, request: api.IngestRequest, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.IndexReply:
        """Make a document findable now; its entities are extracted later."""
        return await self._way.request(routes.INDEX, body=request, urgency=urgency, repeatable=True)

    async def store(self, said: api.Knowledge, *, urgency: priority.Priority = priority.Priority.P1) -> api.IndexReply:
        """Store something learned from a person."""
        return await self._way.request(routes.STORE, body=said, urgency=urgency, repeatable=True)

    async def outcome(self, task: api.Outcome) -> api.OutcomeReply:
        """Remember what a finished task taught, if it is worth it."""
        return await self._way.request(routes.OUTCOMES, body=task, repeatable=True)

    async def file(
        self,
        owner: scope.Scope,
        body: bytes,
        *,
        filename: str = "",
        source_urn: str | None = None,
        metadata: Mapping[str, str | list[str]] | None = None,
        urgency: priority.Priority = priority.Priority.P3,
    ) -> api.FileReply:
        """Make a file known; its type is what its content says. `metadata` is the sender's own, to narrow by."""
        return await self._upload(routes.UPLOAD_FILE, owner, body, filename, source_urn, metadata, urgency)

    async def image(
        self,
        owner: scope.Scope,
        body: bytes,
        *,
        filename: str = "",
        source_urn: str | None = None,
        metadata: Mapping[str, str | list[str]] | None = None,
        urgency: priority.Priority = priority.Priority.P2,
    ) -> api.FileReply:
        """Make an image known by what a vision model sees in it; `metadata` as with `file`."""
        return await self._upload(routes.UPLOAD_IMAGE, owner, body, filename, source_urn, metadata, urgency)

    async def attachment(
        self, draft: api.AttachmentDraft, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.FileReply:
        """Make a stored file known that came with a document."""
        return await self._way.request(routes.UPLOAD_ATTACHMENT, body=draft, urgency=urgency, repeatable=True)

    async def crawl(self, crawl: api.Crawl, *, urgency: priority.Priority = priority.Priority.P3) -> api.CrawlReply:
        """Make the pages of a site known."""
        return await self._way.request(routes.CRAWL, body=crawl, urgency=urgency)

    async def _upload(
        self,
        route: http_routes.Route[api.FileReply],
        owner: scope.Scope,
        body: bytes,
        filename: str,
        source_urn: str | None,
        metadata: Mapping[str, str | list[str]] | None,
        urgency: priority.Priority,
    ) -> api.FileReply:
        headers = {"Content-Type": "application/octet-stream"}
        query: dict[str, str | list[str]] = {**_query(owner, filename=filename or None, sourceUrn=source_urn)}
        query |= {f"metadata.{key}": value for key, value in (metadata or {}).items()}
        answer = await self._way.raw(
            route, params=query, headers=headers, content=body, urgency=urgency, repeatable=True
        )
        return kb_transport.parse(answer, route.reply_model)
