"""The atomic tools that store and search, as agents call them at `/mcp`: forms of the routes of `atomic`.

The answer has ids and URNs alone, in the text as in the data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pydantic

from contracts import http_routes
from kb import api, prompt_escape, routes
from kb.extract.tools import registry
from kb.service.http import tools


def _stores(
    route: http_routes.Route[Any], reply: type[api.Stored]
) -> Callable[[pydantic.BaseModel, tools.Call], Awaitable[tools.Answer]]:
    async def work(asked: pydantic.BaseModel, call: tools.Call) -> tools.Answer:
        made = await call(route, reply, given=asked.model_dump(mode="json", by_alias=True, exclude_none=True))
        if not made.indexed:
            return tools.Answer("A hard rule forbids to store it. Nothing was stored.", _data(made))
        said = "Stored again" if made.replaced else "Stored"
        # A URN has words of a document.
        text = prompt_escape.document("\n".join(made.source_urns))
        return tools.Answer(f"{said}. Chunks: {', '.join(made.chunk_ids)}\n{text}", _data(made))

    return work


async def _search(asked: api.SearchHybrid, call: tools.Call) -> tools.Answer:
    given = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
    reply = await call(routes.TOOL_SEARCH_HYBRID, api.SearchResult, given=given)
    if not reply.found:
        return tools.Answer("Nothing is known about that in this scope.", _data(reply))
    lines = [f"{one.chunk_id} {one.score:.2f} {one.kind} {' '.join(one.document_id.split())}" for one in reply.found]
    return tools.Answer(prompt_escape.document("\n".join(lines)), _data(reply))


def _tool(name: str, title: str, route: http_routes.Route[Any], work: Any, *, writes: bool = True) -> tools.Tool:
    known = registry.NAMED[name]
    return tools.Tool(name, title, known.description, known.arguments, (route,), work, writes=writes)


def _data(reply: pydantic.BaseModel) -> dict[str, Any]:
    return reply.model_dump(mode="json", by_alias=True)


ALL = (
    _tool("searchHybrid", "Find chunks by reference", routes.TOOL_SEARCH_HYBRID, _search, writes=False),
    _tool(
        "storeChunk", "Store an extracted text", routes.TOOL_STORE_CHUNK, _stores(routes.TOOL_STORE_CHUNK, api.Stored)
    ),
    _tool(
        "indexDocument", "Store a document", routes.TOOL_INDEX_DOCUMENT, _stores(routes.TOOL_INDEX_DOCUMENT, api.Stored)
    ),
    _tool(
        "createNodeWithRagLinks",
        "Make a node",
        routes.TOOL_CREATE_NODE,
        _stores(routes.TOOL_CREATE_NODE, api.NodeStored),
    ),
    _tool(
        "createRelationship",
        "Make a relationship",
        routes.TOOL_CREATE_RELATIONSHIP,
        _stores(routes.TOOL_CREATE_RELATIONSHIP, api.RelationshipStored),
    ),
)
"""Every tool, in the order in which they are listed."""
