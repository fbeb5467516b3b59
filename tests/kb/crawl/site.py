"""A site of a test's own on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests import httpserver


@dataclass
class Site(httpserver.Server):
    """Pages by path; counts who asked for what under which name."""

    method = "GET"
    pages: dict[str, web.Response] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, str], Awaitable[None]] | None = None

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.headers["Host"], request.path))
        if self.before is not None:
            await self.before(request.headers["Host"], request.path)
        made = self.pages.get(request.path)
        if made is None:
            return web.Response(status=404)
        return web.Response(status=made.status, body=made.body, headers=made.headers)


def html(*links: str, text: str = "Some words.", head: str = "") -> web.Response:
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    body = f"<html><head><title>T</title>{head}</head><body><p>{text}</p>{anchors}</body></html>"
    return web.Response(text=body, content_type="text/html")


@asynccontextmanager
async def served(port: int = 0) -> AsyncIterator[Site]:
    """A site without pages, on a port of its own (0: any)."""
    async with Site().serving(port=port) as site:
        yield site


async def everything_here(host: str, port: int) -> Sequence[str]:
    """A resolver for which every name is this machine."""
    return ["127.0.0.1"]
