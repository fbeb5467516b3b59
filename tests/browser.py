"""A page in a real browser: headless Chromium (Debian package `chromium`), driven over the DevTools protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests import needs, waiting

_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


class Tab:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """One command and its answer; events in between are skipped."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=waiting.PATIENCE)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        said = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until the expression is true."""
        await waiting.eventually(lambda: self.evaluate(expression), expression)


@asynccontextmanager
async def opened(directory: Path, url: str) -> AsyncIterator[Tab]:
    """A browser with a fresh profile in `directory` and one tab at `url`."""
    program = needs.browser()
    profile = directory / "profile"
    options = [*_OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    quiet = asyncio.subprocess.DEVNULL
    running = await asyncio.create_subprocess_exec(program, *options, stdout=quiet, stderr=quiet)
    port = profile / "DevToolsActivePort"
    try:
        await waiting.eventually(lambda: port.exists() and "\n" in port.read_text(), "the browser's port")
        debugging = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        async with aiohttp.ClientSession() as http, http.get(f"{debugging}/json/list") as answer:
            [page] = [tab for tab in await answer.json() if tab["type"] == "page"]
            async with http.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                await tab.call("Page.enable")
                await tab.call("Page.navigate", url=url)
                # The answer comes before the document is there.
                await tab.until("location.protocol !== 'about:' && document.readyState === 'complete'")
                yield tab
    finally:
        # Not asked to end: one that is about to start may wait for its own helpers for ever.
        running.kill()
        await running.wait()
