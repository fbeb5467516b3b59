"""An apiserver whose answers a test gives, and the operator's client of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes import client

import kube
from tests import httpserver


def event(kind: str, raw: dict[str, Any]) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": raw}).encode() + b"\n"


EXPIRED = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
Turn = tuple[list[bytes], str | int]
"""The bytes to send in chunks and how it ends: "end", "close" (without a last chunk), "reset", "hold", or an HTTP
status instead of all."""


class Collection:
    """Lists `pages`, whose objects may be names alone; each watch plays the next of `turns`, after them it holds."""

    def __init__(self, *turns: Turn, pages: Sequence[Sequence[str | dict[str, Any]]] = ([],)) -> None:
        self.pages, self.turns = pages, list(turns)
        self.lists = 0
        self.since: list[str] = []
        self.queries: list[dict[str, str]] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A list or a watch."""
        self.queries.append(dict(request.query))
        if "watch" not in request.query:
            return self._list(request)
        self.since.append(request.query["resourceVersion"])
        said, ending = self.turns.pop(0) if self.turns else ([], "hold")
        if isinstance(ending, int):
            return web.json_response({"message": "no"}, status=ending)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in said:
            await response.write(chunk)
        assert request.transport is not None
        match ending:
            case "hold":
                await asyncio.Event().wait()
            case "close":
                request.transport.close()
            case "reset":
                request.transport.abort()
        return response

    def _list(self, request: web.Request) -> web.Response:
        number = int(request.query.get("continue") or 0)
        self.lists += number == 0
        items = [
            {"metadata": {"name": one, "uid": one, "resourceVersion": "5"}} if isinstance(one, str) else one
            for one in self.pages[number]
        ]
        more = str(number + 1) if number + 1 < len(self.pages) else ""
        return web.json_response(
            {"items": items, "metadata": {"resourceVersion": str(self.lists * 10), "continue": more}}
        )


@asynccontextmanager
async def serving(handler: httpserver.Handler, method: str = "GET") -> AsyncIterator[kube.Kube]:
    """A client without a fence; `handler` answers it, requests by another method are refused."""
    async with httpserver.serving(handler, method=method) as url:
        loaded = configuration(url)
        async with kube.session(loaded) as http:
            yield kube.Kube(loaded, http, fence=lambda: None)


def configuration(url: str) -> Any:
    """That of a client of the apiserver at `url`."""
    loaded: Any = client.Configuration()
    loaded.host = url
    return loaded
