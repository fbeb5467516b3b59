"""Pages as they are seen over HTTP: the search, the choice which documents get them, and how far they are."""

from __future__ import annotations

from aiohttp import web

from crds import scope
from kb import api, errors, identity
from kb.http import answering, body, openapi
from kb.visual import book, choice, search


class Searching:
    """The route of a process that reads."""

    def __init__(self, finder: search.Search) -> None:
        self._search = finder

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(SEARCH, self.search)]

    async def search(self, request: web.Request) -> web.Response:
        """POST /api/v1/search/pages"""
        return answering.json(await self._search.find(await body.read(request, api.PageSearch)))


class Choosing:
    """The routes of every process."""

    def __init__(self, registry: choice.Registry, records: book.Book) -> None:
        self._registry = registry
        self._book = records

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(LIST, self.list), (PUT, self.put), (STATE, self.state)]

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/page-choices?clientId=..."""
        return await self._listed(body.owner(request))

    async def put(self, request: web.Request) -> web.Response:
        """PUT /api/v1/page-choices"""
        asked = await body.read(request, api.PageChoiceDraft)
        await self._registry.put(asked.scope, asked.pages, asked.sources, asked.by)
        return await self._listed(asked.scope)

    async def state(self, request: web.Request) -> web.Response:
        """GET /api/v1/documents/pages?sourceUrn=...&clientId=..."""
        owner, source_urn = body.owner(request), answering.text(request, "sourceUrn")
        found = await self._book.find(identity.document(owner, source_urn))
        if found is None:
            raise errors.NotFound(
                f"no pages of {source_urn!r} in this scope",
                field="sourceUrn",
                remedy="Choose pages for the scope (PUT /api/v1/page-choices) and send the file again.",
            )
        return answering.json(
            api.DocumentPages.model_validate(
                {
                    "source_urn": source_urn,
                    "state": found.state,
                    "model": found.model,
                    "count": found.count,
                    "done": found.done,
                    "problems": [*found.problems, *([found.waits] if found.waits else [])],
                }
            )
        )

    async def _listed(self, where: scope.Scope) -> web.Response:
        shown = [
            api.PageChoice(scope=one.owner, pages=one.which, sources=list(one.sources), by=one.by, at=one.at)
            for one in await self._registry.holding(where)
        ]
        return answering.json(api.PageChoices(choices=shown))


SEARCH = openapi.Route(
    "POST",
    "/api/v1/search/pages",
    "Pages of PDFs and images for a question: words first, then what they look like",
    body=api.PageSearch,
    reply=api.PageReply,
)
LIST = openapi.Route(
    "GET",
    "/api/v1/page-choices",
    "Which documents of a scope get pages that are found as images",
    reply=api.PageChoices,
    query=openapi.SCOPE,
)
PUT = openapi.Route(
    "PUT",
    "/api/v1/page-choices",
    "Choose which documents of exactly this scope get pages; it holds for what is sent from now on",
    body=api.PageChoiceDraft,
    reply=api.PageChoices,
)
STATE = openapi.Route(
    "GET",
    "/api/v1/documents/pages",
    "How far the pages of a document are",
    reply=api.DocumentPages,
    query=("sourceUrn", *openapi.SCOPE),
)
