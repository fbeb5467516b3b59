"""What the servers for Jira and Confluence have in common: a site with a clock, on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Self

from aiohttp import web

from tests import httpserver


class Server:
    """`now` is the site's clock; `faults` answer instead of the next requests, by their order; `prefix` is the path of
    the site."""

    prefix = ""

    def __init__(self, dice: random.Random, *, zone: str = "UTC", cloud: bool = True, page: int = 1000) -> None:
        self.dice, self.zone, self.cloud, self.page = dice, zone, cloud, page
        self.now = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
        self.unseen: set[str] = set()
        self.poison: set[int] = set()
        self.lacking: set[int] = set()
        """Things that the list of everything does not have, though it says that it is complete."""
        self.late = timedelta(0)
        self.faults: list[tuple[int, dict[str, str]]] = []
        self.meanwhile: Callable[[], None] | None = None
        self.requests: list[str] = []
        self.url = ""

    def settle(self) -> None:
        """Let search show what is due."""
        raise NotImplementedError

    async def answer(self, request: web.Request, path: str) -> web.Response:
        """That of a request that meets no fault."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        app = web.Application()
        app.router.add_route("*", self.prefix + "/{path:.*}", self._answer)
        async with httpserver.serving(app) as url:
            self.url = url + self.prefix
            yield self

    async def _answer(self, request: web.Request) -> web.Response:
        await asyncio.sleep(0)
        path = request.match_info["path"]
        self.requests.append(path)
        if self.faults:
            status, headers = self.faults.pop(0)
            if status:
                said = {"errorMessages": ["not now"], "message": "not now"}
                return web.json_response(said, status=status, headers=headers)
        if self.meanwhile is not None and self.dice.random() < 0.3:
            self.meanwhile()
        self.settle()
        return await self.answer(request, path)
