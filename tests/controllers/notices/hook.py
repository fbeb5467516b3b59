"""A webhook of a test's own on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from aiohttp import web

from tests import httpserver


class Hook(httpserver.Recorder):
    """Answers `status`, after `stall` seconds or once it is `released`; remembers what came."""

    def __init__(self) -> None:
        super().__init__(self._answer, method="POST")
        self.status, self.stall, self.released = 204, 0.0, threading.Event()

    def taken(self) -> list[str]:
        """The ids of what was taken, in order."""
        return [request.headers["Jervis-Delivery"] for request in self.requests]

    async def _answer(self, _: web.Request) -> web.Response:
        await asyncio.to_thread(self.released.wait, self.stall)
        return web.Response(status=self.status, headers={"Location": f"{self.url}/elsewhere"})


@pytest.fixture
def hook() -> Iterator[Hook]:
    """In a thread of its own; at the end no caller waits any more."""
    with Hook().in_thread() as running:
        try:
            yield running
        finally:
            running.released.set()
