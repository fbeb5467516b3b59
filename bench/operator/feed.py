"""A watch with a clock: every event of a collection, stamped when it arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp
import orjson

import kube

Received = Callable[[str, kube.Object, float], None]
"""(event type, object, monotonic second of its arrival)."""


class Feed:
    """Watches one collection from now on and calls `received`. Resumes where it ended when the server closes it."""

    def __init__(self, loaded: object, http: aiohttp.ClientSession, path: str, received: Received) -> None:
        self._loaded, self._http, self._path, self._received = loaded, http, path, received
        self._version = ""
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Returns when the starting point is known; nothing after it is missed."""
        listed = await self._http.get(f"{self._loaded.host}{self._path}", params={"limit": "1"})  # type: ignore[attr-defined]  # kubernetes ships no types
        self._version = orjson.loads(await listed.read())["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._run(), name=f"feed {self._path}")

    async def end(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            params = {"watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
            async with self._http.get(
                f"{self._loaded.host}{self._path}",  # type: ignore[attr-defined]  # kubernetes ships no types
                params=params,
                timeout=aiohttp.ClientTimeout(total=None, sock_read=None),
            ) as response:
                rest = b""
                async for chunk in response.content.iter_any():
                    now = time.monotonic()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = orjson.loads(line)
                        if event["type"] == "ERROR":
                            raise RuntimeError(f"watch of {self._path}: {event['object']}")
                        self._version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._received(event["type"], event["object"], now)
