"""A call leaves nothing for the collector of cycles, which would come late: each holds a whole document."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from crds.priority import Priority
from kb import transport
from router import client
from tests.router import wire

_CALLS = 20


@pytest.fixture(name="uncollected", autouse=True)
def _uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(name="http", params=["httpx", "aiohttp"])
async def _http(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    beneath = client.transport() if request.param == "aiohttp" else None
    async with httpx.AsyncClient(transport=beneath, verify=False, trust_env=False) as made:
        yield made


def _answering(raw: bytes) -> wire.Script:
    async def play(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(raw)
        return True

    return play


def _left() -> list[httpx.Response]:
    return [one for one in gc.get_objects() if isinstance(one, httpx.Response)]


async def test_of_the_routers_door(http: httpx.AsyncClient) -> None:
    async with wire.backend(_answering(wire.plain(b'{"embeddings":[[1.0]]}'))) as server:
        door = client.Client(server.url, http)
        for _ in range(_CALLS):
            await door.embed("m", ["a long text"], Priority.P3)
    assert not _left()


async def test_of_the_knowledge_bases_door(http: httpx.AsyncClient) -> None:
    async with wire.backend(_answering(wire.plain(b"{}"))) as server:
        door = transport.Transport(server.url, http)
        for _ in range(_CALLS):
            await door.send("POST", "/api/v1/ingest", content=b"a long text")
    assert not _left()
