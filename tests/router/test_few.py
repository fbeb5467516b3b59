"""What the Job and the command line call with: few calls, each of which may wait for long."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from router import client
from tests import waiting
from tests.router import wire


async def _timers(port: int) -> list[str]:
    """Column `tr` of /proc/net/tcp of the connections to `port`: 02 while a keepalive timer runs."""
    text = await asyncio.to_thread(Path("/proc/net/tcp").read_text)
    rows = [line.split() for line in text.splitlines()[1:]]
    return [row[5][:2] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]


async def test_the_kernel_asks_whether_the_other_side_is_still_there() -> None:
    gate = asyncio.Event()

    async def play(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await gate.wait()
        writer.write(wire.plain(b"{}"))
        return False

    async with wire.backend(play) as server, httpx.AsyncClient(transport=client.few()) as http:
        call = asyncio.create_task(http.get(server.url, timeout=None))  # it ends with the test
        await waiting.eventually(lambda: _timers(server.port), good=lambda seen: seen == ["02"])
        gate.set()
        assert (await call).status_code == 200


@pytest.mark.parametrize(("given", "asked"), [("", True), ("127.0.0.1", False)])
async def test_a_command_calls_through_the_proxy_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, given: str, asked: bool
) -> None:
    async def play(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.plain(message.path.encode()))
        return False

    async with wire.backend(play) as proxy, wire.backend(play) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", given)
        url = f"{server.url}/x"
        async with httpx.AsyncClient(transport=client.few(url)) as http:
            assert (await http.get(url)).text == (url if asked else "/x")
        assert len(proxy.requests) == asked
        # A Job's services are in the cluster: no proxy hears of them.
        async with httpx.AsyncClient(transport=client.few()) as http:
            assert (await http.get(url)).text == "/x"
