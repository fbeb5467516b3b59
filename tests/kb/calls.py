"""Calls of routes for which the client has no method, because nothing but tests makes them, by their row."""

from __future__ import annotations

from datetime import datetime

from crds import scope
from kb import api, routes
from kb.client import Client


def _query(where: scope.Scope, **more: str) -> dict[str, str | list[str]]:
    return {**where.model_dump(by_alias=True), **{name: value for name, value in more.items() if value}}


async def chunk(client: Client, viewer: scope.Scope, chunk_id: str) -> api.ChunkReply:
    """A chunk, and what its sentences say."""
    return await client.transport.request(routes.CHUNKS_SHOW, at=(chunk_id,), params=_query(viewer))


async def relationships(
    client: Client,
    viewer: scope.Scope,
    *,
    source: str = "",
    edge_type: str = "",
    target: str = "",
    as_of: datetime | None = None,
    history: bool = False,
) -> api.RelationshipsReply:
    """Relationships of one or two nodes, with their proof: now, at a moment, or of all versions that are kept."""
    when = {"asOf": as_of.isoformat() if as_of else "", "history": "true" if history else ""}
    query = _query(viewer, source=source, type=edge_type, target=target, **when)
    return await client.transport.request(routes.GRAPH_RELATIONSHIPS, params=query)


async def consistency(client: Client, viewer: scope.Scope) -> api.ConsistencyReply:
    """Whether the stores agree about the scope's data."""
    return await client.transport.request(routes.CONSISTENCY, params=_query(viewer))


async def page_choices(client: Client, viewer: scope.Scope) -> list[api.PageChoice]:
    """The choices that hold in the scope, the most specific first."""
    return (await client.transport.request(routes.PAGES_LIST, params=_query(viewer))).choices


async def choose_pages(client: Client, draft: api.PageChoiceDraft) -> list[api.PageChoice]:
    """Choose for exactly the scope; what holds there then."""
    return (await client.transport.request(routes.PAGES_PUT, body=draft)).choices


async def task_memory(client: Client, viewer: scope.Scope, uid: str) -> api.TaskMemory:
    """What a task knows."""
    return await client.transport.request(routes.MEMORY_TASK, at=(uid,), params=_query(viewer))


async def conversation(client: Client, viewer: scope.Scope, correlation_id: str) -> list[api.TaskMemory]:
    """What the tasks with that correlationId know, as far as the viewer sees them."""
    query = _query(viewer, correlationId=correlation_id)
    return (await client.transport.request(routes.MEMORY_CONVERSATION, params=query)).tasks


async def add_findings(client: Client, uid: str, findings: api.Findings) -> api.TaskMemory:
    """Add structured data to a task's memory."""
    return await client.transport.request(routes.MEMORY_FINDINGS, at=(uid,), body=findings, repeatable=True)


async def remember(client: Client, draft: api.SessionDraft) -> api.SessionEntry:
    """Remember for a week."""
    return await client.transport.request(routes.MEMORY_REMEMBER, body=draft, repeatable=draft.id is not None)


async def prioritize(client: Client, viewer: scope.Scope, job_id: str) -> api.Job:
    """Move a waiting document to the front."""
    asked = api.Prioritize(scope=viewer, id=job_id)
    return await client.transport.request(routes.QUEUE_PRIORITIZE, body=asked)
