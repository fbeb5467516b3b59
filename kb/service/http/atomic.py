"""The atomic tools that store and search, over HTTP. They write by the intake of all documents, and answer ids.

What a tool refers to must be of exactly the scope of the call: a document of a wider scope would not take with it what
is stored beside it. What another scope has is answered like what is not there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import pydantic
from aiohttp import web

from crds import errors as root
from crds import scope
from kb import api, errors, identity, metrics, routes
from kb.extract.tools import storing
from kb.graph import store as graph
from kb.ingest import delete, intake, request_record
from kb.rules import calling, enforce
from kb.service.http import access, answering, body, exploring, openapi, problems
from kb.vectors import model
from kb.vectors import store as vectors

_Asked = TypeVar("_Asked", bound=pydantic.BaseModel)
_MOST_KNOWN = 1000


class _Tools:
    def __init__(self, rules: enforce.Port, meters: metrics.Metrics) -> None:
        self._rules = rules
        self._meters = meters

    def _tool(self, name: str, handler: Callable[[web.Request], Awaitable[web.Response]]) -> problems.Handler:
        """Counts a call that did not come by /mcp, which counts its own."""

        async def counted(request: web.Request) -> web.StreamResponse:
            if body.GIVEN in request:
                return await handler(request)
            try:
                response = await handler(request)
            except root.JervisError as error:
                self._meters.tools.labels(name, problems.code(error)).inc()
                raise
            self._meters.tools.labels(name, "ok").inc()
            return response

        return counted

    async def _asked(self, request: web.Request, shape: type[_Asked], tool: str) -> _Asked:
        """The arguments, when the caller's token and the hard rules allow the call."""
        asked = await body.read(request, shape)
        where = getattr(asked, "scope", None)
        assert isinstance(where, scope.Scope)
        await calling.permit(self._rules, where, tool)
        return asked


class Searching(_Tools):
    """The tool of a process that reads."""

    def __init__(self, found: exploring.Exploring, rules: enforce.Port, meters: metrics.Metrics) -> None:
        super().__init__(rules, meters)
        self._exploring = found

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(routes.TOOL_SEARCH_HYBRID, self._tool("searchHybrid", self.search))]

    async def search(self, request: web.Request) -> web.Response:
        """POST /api/v1/tools/searchHybrid"""
        asked = await self._asked(request, api.SearchHybridRequest, "searchHybrid")
        question = api.HybridRequest(
            scope=asked.scope,
            query=asked.query,
            alpha=asked.alpha,
            limit=asked.max_results,
            kinds=asked.knowledge_types,
        )
        reply = await self._exploring.found(question, body.urgency(request))
        found = [
            api.Found(
                chunk_id=hit.chunk.chunk_id,
                document_id=hit.chunk.source_urn,
                kind=hit.chunk.kind,
                score=hit.score,
                graph_refs=hit.chunk.graph_refs,
            )
            for hit in reply.hits
        ]
        return answering.json(api.SearchResult(found=found))


class Storing(_Tools):
    """The tools of a process that writes."""

    def __init__(
        self,
        way: intake.Intake,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        intents: request_record.IngestRequestRecords,
        rules: enforce.Port,
        meters: metrics.Metrics,
    ) -> None:
        super().__init__(rules, meters)
        self._intake = way
        self._graph = graph_store
        self._vectors = vector_store
        self._intents = intents

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.TOOL_STORE_CHUNK, self._tool("storeChunk", self.chunk)),
            (routes.TOOL_INDEX_DOCUMENT, self._tool("indexDocument", self.document)),
            (routes.TOOL_CREATE_NODE, self._tool("createNodeWithRagLinks", self.node)),
            (routes.TOOL_CREATE_RELATIONSHIP, self._tool("createRelationship", self.relationship)),
        ]

    async def chunk(self, request: web.Request) -> web.Response:
        """POST /api/v1/tools/storeChunk"""
        asked = await self._asked(request, api.StoreChunkRequest, "storeChunk")
        parent = await self._document(asked.scope, asked.document_id, "documentId")
        made = storing.chunk(asked, parent)
        said = await self._take(request, asked.scope, [(parent.source_urn, made)])
        return answering.json(api.Stored(call_id=_call(asked, "storeChunk"), **said))

    async def document(self, request: web.Request) -> web.Response:
        """POST /api/v1/tools/indexDocument"""
        asked = await self._asked(request, api.IndexDocumentRequest, "indexDocument")
        related = [
            await self._document(asked.scope, urn, f"relatedDocs.{number}")
            for number, urn in enumerate(asked.related_docs)
        ]
        said = await self._take(request, asked.scope, [("", storing.document(asked, related))])
        return answering.json(api.Stored(call_id=_call(asked, "indexDocument"), **said))

    async def node(self, request: web.Request) -> web.Response:
        """POST /api/v1/tools/createNodeWithRagLinks"""
        asked = await self._asked(request, api.CreateNodeRequest, "createNodeWithRagLinks")
        chunks = await self._chunks(asked.scope, asked.rag_chunk_ids)
        key, made = storing.node(asked, chunks)
        parents = list(dict.fromkeys(one.source_urn for one in chunks))
        said = await self._take(request, asked.scope, list(zip(parents, made, strict=True)))
        call = _call(asked, "createNodeWithRagLinks")
        linked = [one.chunk_id for one in chunks]
        return answering.json(api.NodeStored(call_id=call, node_key=key, rag_chunk_ids=linked, **said))

    async def relationship(self, request: web.Request) -> web.Response:
        """POST /api/v1/tools/createRelationship"""
        asked = await self._asked(request, api.CreateRelationshipRequest, "createRelationship")
        chunks = await self._chunks(asked.scope, asked.rag_chunk_ids)
        (source, kind, target), proof, made = storing.relationship(asked, chunks)
        said = await self._take(request, asked.scope, [(proof.source_urn, made)])
        return answering.json(
            api.RelationshipStored(
                call_id=_call(asked, "createRelationship"),
                from_key=source,
                edge_type=kind,
                to_key=target,
                rag_chunk_id=proof.chunk_id,
                **said,
            )
        )

    async def _document(self, owner: scope.Scope, source_urn: str, field: str) -> storing.Seen:
        """The first chunk of a document of exactly this owner. Raises `kb.errors.NotFound`."""
        known = await self._vectors.known(owner, identity.document(owner, source_urn))
        shown = await self._graph.committed(owner, sorted(known)[:_MOST_KNOWN])
        chunks = await self._vectors.chunks(owner, sorted(shown)[:1])
        if not chunks:
            raise errors.NotFound(
                "no such document in exactly this scope",
                field=field,
                remedy="Give the sourceUrn and the scope of a document that is known.",
            )
        return _seen(next(iter(chunks.values())))

    async def _chunks(self, owner: scope.Scope, chunk_ids: Sequence[str]) -> list[storing.Seen]:
        """Raises `kb.errors.NotFound` for one that is not of a document of exactly this owner."""
        wanted = list(dict.fromkeys(chunk_ids))
        found = await self._vectors.chunks(owner, wanted)
        shown = await self._graph.committed(owner, list(found))
        for number, one in enumerate(wanted):
            own = found.get(one)
            if own is None or one not in shown or own.document_id != identity.document(owner, own.source_urn):
                raise errors.NotFound(
                    "no such chunk of a document of exactly this scope",
                    field=f"ragChunkIds.{number}",
                    remedy="Use a chunkId that a search in this scope gave.",
                )
        return [_seen(found[one]) for one in wanted]

    async def _take(
        self, request: web.Request, owner: scope.Scope, made: Sequence[tuple[str, api.IngestRequest]]
    ) -> dict[str, Any]:
        """Store documents, each beside the one of the URN before it ("": none)."""
        replies: list[api.IndexReply] = []
        for parent, document in made:
            access.concerns(request, identity.document(owner, document.source_urn))
            replies.append(await self._intake.take(document, body.urgency(request)))
            if parent and await self._left(owner, parent):
                await self._intake.forget(owner, document.source_urn)
                raise errors.NotFound(
                    "the document was deleted meanwhile", remedy="Nothing was stored; go on without it."
                )
        return {
            "source_urns": [one.source_urn for one in replies],
            "chunk_ids": [chunk_id for one in replies for chunk_id in one.chunk_ids],
            "replaced": any(one.replaced for one in replies),
            "indexed": all(one.indexed for one in replies),
        }

    async def _left(self, owner: scope.Scope, source_urn: str) -> bool:
        """Whether a document is gone, or going: its deletion is recorded before it looks what is beside it."""
        document_id = identity.document(owner, source_urn)
        found = await self._intents.find(document_id)
        going = found is not None and found[1] == delete.FORGET
        return going or not await self._vectors.known(owner, document_id)


def _seen(one: model.Chunk) -> storing.Seen:
    observed = datetime.fromisoformat(one.observed_at) if one.observed_at else None
    return storing.Seen(one.id, one.source_urn, one.kind, one.title, one.text, observed)


def _call(asked: pydantic.BaseModel, tool: str) -> str:
    where = getattr(asked, "scope", None)
    assert isinstance(where, scope.Scope)
    return storing.call_id(asked, identity.owner(where), tool)
