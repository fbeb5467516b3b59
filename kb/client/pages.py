"""The part of the client for pages as they are seen. `kb.client.Client` gives it as `pages`."""

from __future__ import annotations

from clients import kb_transport
from crds import priority, scope
from kb import api, routes

_SIDES = ("left", "top", "right", "bottom")


class Pages:
    """Which documents get pages, and the search for them."""

    def __init__(self, way: kb_transport.Transport) -> None:
        self._way = way

    async def search(
        self, question: api.PageSearch, *, urgency: priority.Priority = priority.Priority.P3
    ) -> api.PageReply:
        """The best pages, the best first; `client.fetch(scope, page.image.key)` gives the image of one."""
        return await self._way.request(routes.PAGES_SEARCH, body=question, urgency=urgency, repeatable=True)

    async def image(self, viewer: scope.Scope, page_id: str, place: api.Rectangle | None = None) -> bytes:
        """The image of a page, or of a place on it; `Rejected` with code `not_found` where the viewer does not see it
        now."""
        sides = {} if place is None else {side: f"{getattr(place, side):.4f}" for side in _SIDES}
        params = {**viewer.model_dump(by_alias=True), **sides}
        return (await self._way.raw(routes.PAGES_IMAGE, at=(page_id,), params=params)).content

    async def state(self, owner: scope.Scope, source_urn: str) -> api.DocumentPages:
        """How far the pages of a document are; `Rejected` with code `not_found` for one without."""
        query = {**owner.model_dump(by_alias=True), "sourceUrn": source_urn}
        return await self._way.request(routes.PAGES_STATE, params=query)
