"""Something else answers where Weaviate or MongoDB should, or they refuse: to the caller they are away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kb import errors, mongo
from kb.vectors import weaviate
from tests import ports
from tests.kb import imposters, scopes

META = b'{"version": "1.32.0", "modules": {}}'
PAGE = b"<html>not here</html>"
HTTP = {
    "another service": ("404 Not Found", PAGE, "text/html"),
    "a service that takes everything": ("200 OK", b"{}", "application/json"),
    "a web page": ("200 OK", PAGE, "text/html"),
    "a list": ("200 OK", b"[]", "application/json"),
    "a version that is none": ("200 OK", b'{"version": 7}', "application/json"),
    "a redirect": ("302 Found", b"", "text/html"),
    # Its gRPC port is another program's; its collections are of an unknown form.
    "half a Weaviate": ("200 OK", META, "application/json"),
}


@pytest.mark.parametrize("name", HTTP)
async def test_weaviate_is_away_when_another_program_has_its_ports(name: str) -> None:
    status, body, media_type = HTTP[name]
    with imposters.http(status, body, media_type).listening() as web, imposters.saying(PAGE).listening() as grpc:
        store = weaviate.Store(f"http://127.0.0.1:{web.port}", grpc.port, "model")
        try:
            for ask in (store.ready, lambda: store.known(scopes.SHOP, "d"), lambda: store.drop(scopes.SHOP, "d")):
                with pytest.raises(errors.Away, match="weaviate"):
                    await ask()
        finally:
            await store.close()
        assert web.asked >= 3


REFUSALS = {
    "wrong password": {"code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed."},
    "no right": {"code": 13, "codeName": "Unauthorized", "errmsg": "not authorized on db"},
    "disk full": {"code": 14031, "codeName": "OutOfDiskSpace", "errmsg": "Can't take a write lock while out of space"},
    "not primary": {"code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary"},
    "stopping": {"code": 11600, "codeName": "InterruptedAtShutdown", "errmsg": "interrupted at shutdown"},
    "its own store is away": {"code": 1, "codeName": "InternalError", "errmsg": "database is locked"},
    "conflict": {"code": 112, "codeName": "WriteConflict", "errmsg": "conflict"},
}


@pytest.fixture
async def ping() -> AsyncIterator[Callable[..., Any]]:
    """A call to MongoDB as a process makes it."""
    clients: list[mongo.Database] = []

    # Where no server is found that can be spoken to, the call lasts as long as its patience.
    async def ask(port: int, patience: float = 5.0) -> None:
        uri = f"mongodb://127.0.0.1:{port}/?retryReads=false"
        database = mongo.Database(uri, "test", patience=patience)
        clients.append(database)
        with mongo.translated():
            await database["rows"].find_one({"_id": 1})

    yield ask
    for client in clients:
        await client.close()


@pytest.mark.parametrize("name", REFUSALS)
async def test_mongodb_is_away_while_it_refuses_for_reasons_of_its_own(ping: Callable[..., Any], name: str) -> None:
    with imposters.mongodb(REFUSALS[name]).listening() as server:
        with pytest.raises(errors.Away, match="mongodb"):
            await ping(server.port)
        assert server.asked >= 1


@pytest.mark.parametrize("what", [PAGE, b"HTTP/1.1 404 Not Found\r\n\r\n", bytes(500), b""])
async def test_mongodb_is_away_when_another_program_has_its_port(ping: Callable[..., Any], what: bytes) -> None:
    with imposters.saying(what).listening() as server, pytest.raises(errors.Away, match="mongodb"):
        await ping(server.port, patience=0.5)


async def test_mongodb_is_away_when_it_is_too_old_to_be_spoken_to(ping: Callable[..., Any]) -> None:
    too_old = imposters.mongodb(REFUSALS["conflict"], newest=2)
    with too_old.listening() as server, pytest.raises(errors.Away, match="mongodb"):
        await ping(server.port, patience=0.5)


async def test_a_command_of_ours_that_is_wrong_is_a_bug(ping: Callable[..., Any]) -> None:
    refusal = {"code": 2, "codeName": "BadValue", "errmsg": "unknown operator: $nonsense"}
    with imposters.mongodb(refusal).listening() as server:
        with pytest.raises(Exception, match="nonsense") as raised:
            await ping(server.port)
        assert not isinstance(raised.value, errors.Away)


async def test_nothing_listens() -> None:
    store = weaviate.Store(f"http://127.0.0.1:{ports.free()}", ports.free(), "model")
    with pytest.raises(errors.Away, match="weaviate"):
        await store.ready()
    await store.close()
