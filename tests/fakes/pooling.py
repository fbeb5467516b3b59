"""A server that speaks vLLM's pooling API (`POST /pooling`) as its documentation has it, over `tests.fakes.glyphs`.

`single`: one vector for an image or a text, as of a model without late interaction. `fault` is answered instead: a
status, or a body that is no answer. `trickles`: a byte comes now and then, for ever.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests import httpserver
from tests.fakes import glyphs


@dataclass
class Fake:
    """What was asked, and how it answers."""

    url: str = ""
    single: bool = False
    fault: tuple[int, str] | None = None
    trickles: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)


@asynccontextmanager
async def serving() -> AsyncIterator[Fake]:
    """The server, at `url`."""
    fake, embedder = Fake(), glyphs.Glyphs()

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        fake.asked.append(body)
        fake.tokens.append(request.headers.get("Authorization"))
        if fake.trickles:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                try:
                    await response.write(b" ")
                    await asyncio.sleep(0.05)
                except ConnectionError:
                    return response
        if fake.fault is not None:
            return web.Response(status=fake.fault[0], text=fake.fault[1], content_type="application/json")
        if "messages" in body:
            [message] = body["messages"]
            url = next(one["image_url"]["url"] for one in message["content"] if one["type"] == "image_url")
            picture = base64.b64decode(url.partition(";base64,")[2])
            [made] = await embedder.embed_pages([picture])
            vectors = made.vectors
        else:
            vectors = (await embedder.embed_query(body["input"][0])).vectors
        # Not of length 1: some servers normalise, others do not.
        data: Any = (2 * vectors.mean(axis=0)).tolist() if fake.single else (2 * vectors).tolist()
        return web.json_response({"object": "list", "data": [{"index": 0, "object": "pooling", "data": data}]})

    application = web.Application(client_max_size=64 << 20)
    application.router.add_post("/pooling", answer)
    async with httpserver.serving(application) as fake.url:
        yield fake
