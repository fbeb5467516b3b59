"""Pages as they are seen over HTTP: the search, the choice which documents get them, and how far they are."""

from __future__ import annotations

from aiohttp import web

from crds import scope
from kb import api, errors, identity, routes
from kb.service.http import answering, body, buffers, content, openapi
from kb.visual import book, choice, evidence, search


class Searching:
    """The routes of a process that reads."""

    def __init__(self, finder: search.Search) -> None:
        self._search = finder
        self._slots = buffers.Slots()

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.PAGES_SEARCH, self.search), (routes.PAGES_IMAGE, self.image)]

    async def search(self, request: web.Request) -> web.Response:
        """POST /api/v1/search/pages"""
        return answering.json(await self._search.find(await body.read(request, api.PageSearch)))

    async def image(self, request: web.Request) -> web.StreamResponse:
        """GET /api/v1/search/pages/{pageId}/image?clientId=..."""
        viewer, place = body.owner(request), _place(request)
        async with self._slots.enter(viewer.client_id):
            return await content.send(request, await self._search.image(viewer, request.match_info["pageId"], place))


class Choosing:
    """The routes of every process."""

    def __init__(self, registry: choice.Registry, records: book.Book) -> None:
        self._registry = registry
        self._book = records

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.PAGES_LIST, self.list), (routes.PAGES_PUT, self.put), (routes.PAGES_STATE, self.state)]

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


def _place(request: web.Request) -> evidence.Rectangle | None:
    """Four shares of the page's sides, all or none. Raises `kb.errors.Invalid`."""
    given = [request.query.get(side) for side in _SIDES]
    if not any(given):
        return None
    try:
        left, top, right, bottom = (round(float(one or "") * evidence.UNIT) for one in given)
    except (ValueError, OverflowError):
        left = top = right = bottom = -1
    if not (0 <= left < right <= evidence.UNIT and 0 <= top < bottom <= evidence.UNIT):
        raise errors.Invalid(
            "left, top, right and bottom are no place on a page",
            field="left",
            remedy="Give all four as shares of its sides, from 0 to 1, such as those of `place`.",
        )
    return evidence.Rectangle(left, top, right, bottom)


_SIDES = ("left", "top", "right", "bottom")
