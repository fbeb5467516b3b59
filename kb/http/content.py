"""Large content over HTTP: the raw body in, a contentRef out."""

from __future__ import annotations

from aiohttp import web

from kb import errors
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
        if request.content_length is not None and request.content_length > self._limit:
            raise self._too_large()
        raw = bytearray()
        # Not request.read(): its limit is that of the JSON bodies, which are far smaller.
        async for piece in request.content.iter_chunked(1 << 16):
            raw += piece
            if len(raw) > self._limit:
                raise self._too_large()
        if not raw:
            raise errors.Invalid("the body is empty", field="body", remedy="Send the content as the raw body.")
        reference = await self._store.save(owner, bytes(raw), request.content_type)
        return web.Response(status=201, text=reference.model_dump_json(by_alias=True), content_type="application/json")

    async def load(self, request: web.Request) -> web.Response:
        """GET /api/v1/content/{key}?clientId=..."""
        raw = await self._store.load(body.owner(request), request.match_info["key"])
        # Never the stored media type: hostile HTML must not run in the service's origin.
        headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
        return web.Response(body=raw, content_type="application/octet-stream", headers=headers)

    def _too_large(self) -> errors.TooLarge:
        return errors.TooLarge(
            f"the body is larger than {self._limit} bytes",
            field="body",
            remedy="Split the content, or raise JERVIS_KB_MAX_CONTENT_BYTES.",
        )
