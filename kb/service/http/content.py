"""Large content over HTTP: the raw body in, a contentRef out."""

from __future__ import annotations

import asyncio

from aiohttp import web

from kb.content import store
from kb.service.http import body, buffers

_PIECE = 1 << 18


class Content:
    """The routes of stored content. `limit` is the largest body in bytes; few are in memory at once."""

    def __init__(self, kept: store.Store, *, limit: int) -> None:
        self._store = kept
        self._limit = limit
        self._slots = buffers.Slots()

    async def save(self, request: web.Request) -> web.Response:
        """POST /api/v1/content?clientId=..."""
        owner = body.owner(request)
        async with self._slots.enter(owner.client_id):
            raw = await body.raw(request, self._limit, "Split the content, or raise JERVIS_KB_MAX_CONTENT_BYTES.")
            reference = await self._store.save(owner, raw, request.content_type)
        return web.Response(status=201, text=reference.model_dump_json(by_alias=True), content_type="application/json")

    async def load(self, request: web.Request) -> web.StreamResponse:
        """GET /api/v1/content/{key}?clientId=..."""
        viewer = body.owner(request)
        async with self._slots.enter(viewer.client_id):
            return await send(request, await self._store.load(viewer, request.match_info["key"]))


async def send(request: web.Request, raw: bytes) -> web.StreamResponse:
    """Send bytes while the slot is held; a reader that is slower than the slowest sender may be is cut off."""
    # Never the stored media type: hostile HTML must not run in the service's origin.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    response = web.StreamResponse(headers=headers)
    response.content_type, response.content_length = "application/octet-stream", len(raw)
    await response.prepare(request)
    try:
        async with asyncio.timeout(body.patience(len(raw))):
            for start in range(0, len(raw), _PIECE):
                await response.write(raw[start : start + _PIECE])
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response
