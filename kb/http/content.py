"""Large content over HTTP: the raw body in, a contentRef out."""

from __future__ import annotations

from aiohttp import web

from kb.content import store
from kb.http import body


class Content:
    """The routes of stored content. `limit` is the largest body in bytes."""

    def __init__(self, kept: store.Store, *, limit: int) -> None:
        self._store = kept
        self._limit = limit

    async def save(self, request: web.Request) -> web.Response:
        """POST /api/v1/content?clientId=..."""
        owner = body.owner(request)
        raw = await body.raw(request, self._limit, "Split the content, or raise JERVIS_KB_MAX_CONTENT_BYTES.")
        reference = await self._store.save(owner, raw, request.content_type)
        return web.Response(status=201, text=reference.model_dump_json(by_alias=True), content_type="application/json")

    async def load(self, request: web.Request) -> web.Response:
        """GET /api/v1/content/{key}?clientId=..."""
        raw = await self._store.load(body.owner(request), request.match_info["key"])
        # Never the stored media type: hostile HTML must not run in the service's origin.
        headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
        return web.Response(body=raw, content_type="application/octet-stream", headers=headers)
