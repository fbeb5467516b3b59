"""Large bodies: bounded in bytes and in time, because few of them are taken at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import prometheus_client
import pytest
from aiohttp import test_utils, web

from kb import metrics
from kb.http import body, problems


@pytest.fixture
async def server() -> AsyncIterator[test_utils.TestServer]:
    async def take(request: web.Request) -> web.Response:
        # The time of every body that arrives is beyond what a test takes; one that never does has none to wait for.
        seconds = 0.05 if "stalled" in request.query else None
        return web.Response(body=await body.raw(request, 1000, "Send less.", seconds=seconds))

    guard = problems.middleware(metrics.Metrics(prometheus_client.CollectorRegistry()))
    app = web.Application(middlewares=[guard])
    app.router.add_post("/raw", take)
    started = test_utils.TestServer(app)
    await started.start_server()
    yield started
    await started.close()


async def test_a_body_that_stalls_gives_its_place_back(server: test_utils.TestServer) -> None:
    reading, writing = await asyncio.open_connection(server.host, server.port)
    writing.write(b"POST /raw?stalled=1 HTTP/1.1\r\nHost: kb\r\nContent-Length: 500\r\n\r\nhalf")
    assert b" 408 " in await reading.readline()
    answer = await reading.readuntil(b"}}")
    assert b'"code":"too_slow"' in answer
    assert b'"field":"body"' in answer
    writing.close()
    await writing.wait_closed()


@pytest.mark.parametrize(("size", "status"), [(1, 200), (1000, 200), (1001, 413), (0, 422)])
async def test_its_bytes_are_counted(server: test_utils.TestServer, size: int, status: int) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size):
            yield b"x"

    async with test_utils.TestClient(server) as client:
        assert (await client.post("/raw", data=b"x" * size)).status == status
        assert (await client.post("/raw", data=pieces())).status == status
