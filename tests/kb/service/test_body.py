"""Large bodies: bounded in bytes and in time, because few of them are taken at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import prometheus_client
import pytest
from aiohttp import test_utils, web

from crds import priority, scope
from kb import api, errors, metrics
from kb.service.http import body, buffers, problems
from tests import waiting


@pytest.fixture
async def server() -> AsyncIterator[test_utils.TestServer]:
    async def take(request: web.Request) -> web.Response:
        # The time of every body that arrives is beyond what a test takes; one that never does has none to wait for.
        seconds = 0.05 if "stalled" in request.query else None
        return web.Response(body=await body.raw(request, 1000, "Send less.", seconds=seconds))

    async def read(request: web.Request) -> web.Response:
        seconds = 0.05 if "stalled" in request.query else None
        return web.json_response((await body.read(request, scope.Scope, seconds=seconds)).model_dump())

    guard = problems.middleware(metrics.Metrics(prometheus_client.CollectorRegistry()))
    app = web.Application(middlewares=[guard])
    app.router.add_post("/raw", take)
    app.router.add_post("/json", read)
    started = test_utils.TestServer(app)
    await started.start_server()
    yield started
    await started.close()


_JSON = {"Content-Type": "application/json"}
_HALF = b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\nhalf"


@pytest.mark.parametrize("path", ["raw", "json"])
async def test_a_body_that_stalls_gives_its_place_back(server: test_utils.TestServer, path: str) -> None:
    reading, writing = await asyncio.open_connection(server.host, server.port)
    writing.write(f"POST /{path}?stalled=1 HTTP/1.1".encode() + b"\r\nHost: kb\r\n" + _HALF)
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


class Text(api.Request):
    """A body of any size that belongs to a client."""

    scope: scope.Scope
    text: str


class Held:
    """Requests that stay unanswered until they are let go, over `limit` bytes of bodies."""

    def __init__(self, limit: int) -> None:
        self.meters = metrics.Metrics(prometheus_client.CollectorRegistry())
        self.go = asyncio.Event()
        self.inside = 0

        async def read(request: web.Request) -> web.Response:
            await body.read(request, Text)
            self.inside += 1
            await self.go.wait()
            return web.Response()

        guards = [problems.middleware(self.meters), buffers.middleware(buffers.Buffers(limit, self.meters))]
        self.app = web.Application(middlewares=guards)
        self.app.router.add_post("/", read)

    def bytes(self) -> float | None:
        return self.meters.registry.get_sample_value("jervis_kb_buffered_bytes")


def of(client: str, size: int) -> bytes:
    """A JSON body of so many bytes."""
    text = orjson.dumps({"scope": {"clientId": client}, "text": ""})
    return text.replace(b'"text":""', b'"text":"' + b"x" * (size - len(text)) + b'"')


async def test_what_waits_is_bounded_in_bytes() -> None:
    held = Held(10_000)
    async with test_utils.TestClient(test_utils.TestServer(held.app)) as client:
        waits = [asyncio.create_task(client.post("/", data=of(name, 2400), headers=_JSON)) for name in "abc"]

        def all_wait() -> bool:
            return held.inside == len(waits)

        await waiting.eventually(all_wait)
        assert held.bytes() == 7200
        refused = await client.post("/", data=of("d", 400), headers=_JSON)
        problem = (await refused.json())["error"]
        assert (refused.status, problem["code"], problem["field"]) == (429, "crowded", "body")
        assert "of 7500 that may" in problem["message"]
        assert "JERVIS_KB_MAX_BUFFERED_BYTES" in problem["remedy"]
        assert refused.headers["Retry-After"] == "5"
        # The last quarter is for what a person waits for; half of all is for one client.
        person = _JSON | {priority.HEADER: "P0"}
        one_client = await client.post("/", data=of("a", 2700), headers=person)
        assert "client 'a'" in (await one_client.json())["error"]["message"]
        waits.append(asyncio.create_task(client.post("/", data=of("d", 2500), headers=person)))
        await waiting.eventually(all_wait)
        assert (await client.post("/", data=of("e", 400), headers=person)).status == 429
        held.go.set()
        assert [(await one).status for one in waits] == [200] * 4
        assert held.bytes() == 0
        assert (await client.post("/", data=of("d", 7400), headers=_JSON)).status == 200


async def test_large_bodies_have_few_slots_and_one_client_half_of_them() -> None:
    slots = buffers.Slots(width=4, waiting=6)
    inside: list[str] = []
    go = asyncio.Event()

    async def send(name: str) -> None:
        async with slots.enter(name):
            inside.append(name)
            await go.wait()

    sends = [asyncio.create_task(send(name)) for name in ("a", "a", "a", "a", "b", "c", "d")]
    await asyncio.sleep(0.01)
    assert inside == ["a", "a", "b", "c"]
    sends.append(asyncio.create_task(send("a")))
    await asyncio.sleep(0.01)
    with pytest.raises(errors.Crowded):
        await send("a")
    sends += [asyncio.create_task(send(name)) for name in ("e", "g")]
    await asyncio.sleep(0.01)
    with pytest.raises(errors.Crowded, match="6 requests wait"):
        await send("f")
    sends[-1].cancel()
    go.set()
    await asyncio.gather(*sends[:-1])
    assert sorted(inside) == ["a"] * 5 + ["b", "c", "d", "e"]
    await send("f")
