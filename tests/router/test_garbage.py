"""A call leaves nothing for the collector of cycles, which would come late: each holds a whole document."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx
import pytest

from clients import kb_transport
from crds.priority import Priority
from router import client
from router.proxy import reading
from router.proxy.message import Request as Message
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


def _left() -> list[httpx.Response]:
    # By its type: to ask a proxy of `weakref` for its class raises ReferenceError where what it stood for is gone.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), httpx.Response)]


async def test_of_the_routers_door(http: httpx.AsyncClient) -> None:
    async with wire.backend(wire.answering(wire.plain(b'{"embeddings":[[1.0]]}'))) as server:
        door = client.Client(server.url, http)
        for _ in range(_CALLS):
            await door.embed("m", ["a long text"], Priority.P3)
    assert not _left()


async def test_of_the_knowledge_bases_door(http: httpx.AsyncClient) -> None:
    async with wire.backend(wire.answering()) as server:
        door = kb_transport.Transport(server.url, http)
        for _ in range(_CALLS):
            await door.send("POST", "/api/v1/ingest", content=b"a long text")
    assert not _left()


class _Link:
    """A client's connection as its reader knows it; it keeps the reader, as the real one does."""

    def __init__(self) -> None:
        self.reader = reading.Reader(cast(Any, self))
        self.heads = 0

    def head(self, request: Message, length: int) -> bool:
        """A head was read."""
        self.heads += 1
        return True

    def arrived(self, request: Message) -> None:
        """A request was read."""


def test_of_a_client_that_hangs_up() -> None:
    """One in twenty clients may: what was read of it held two kilobytes until the collector came."""
    link = _Link()
    for _ in range(3):  # the second one is recognised as the same again
        link.reader.feed(wire.request("GET", "/api/tags"))
    assert link.heads == 3
    gone = weakref.ref(link)
    link.reader.close()
    del link
    assert gone() is None
