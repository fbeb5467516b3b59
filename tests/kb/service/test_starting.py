"""One application after the other on one port."""

from __future__ import annotations

import asyncio

import aiohttp
import prometheus_client
import pytest
from aiohttp import web

from kb import errors, metrics
from kb.service import workers
from kb.service.http import starting
from tests import ports

_REQUEST = b"GET /readyz HTTP/1.1\r\nHost: kb\r\n\r\n"


async def _ready(request: web.Request) -> web.Response:
    return web.Response()


async def _first() -> tuple[starting.Port, int]:
    number = ports.free()
    port = starting.Port(workers.listening("127.0.0.1", number), seconds=60)
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    await port.serve(starting.application(lambda: errors.Away("graph", "migrating 1 of 2 rows"), meters))
    return port, number


def _whole() -> web.Application:
    whole = web.Application()
    whole.router.add_get("/readyz", _ready)
    return whole


async def test_a_connection_that_the_first_application_accepted_gets_its_answer() -> None:
    port, number = await _first()
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{number}") as http:
        # Accepted after the one above.
        assert (await http.get("/readyz")).status == 503
        serving = asyncio.create_task(port.serve(_whole()))
        statuses = []
        while 200 not in statuses:
            statuses.append((await http.get("/readyz")).status)
        assert not serving.done()
        writer.write(_REQUEST)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nConnection: close\r\n" in answer
        assert await serving
    writer.close()
    await port.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", number)


async def test_no_connection_outlives_its_first_answer_before_the_whole_application_serves() -> None:
    port, number = await _first()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{number}") as http:
        for path, status in (("/healthz", 200), ("/readyz", 503), ("/nothing", 503)):
            answer = await http.get(path)
            assert (answer.status, answer.headers["Connection"]) == (status, "close"), path
        await port.serve(_whole())
        answer = await http.get("/readyz")
        assert (answer.status, answer.headers.get("Connection")) == (200, None)
    await port.close()
