"""What the knowledge base's tests stand on: a clock that the test owns, a simulated Ollama, and the data services."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import prometheus_client
import pymongo
import pytest

from kb import metrics
from kb import mongo as kb_mongo
from kb.content import mongo
from kb.vectors import weaviate as vectors_weaviate
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import instructions, world

pytest.register_assert_rewrite(
    "tests.kb.aliases.contract",
    "tests.kb.content.contract",
    "tests.kb.graph.contract",
    "tests.kb.ingest.ledger_contract",
    "tests.kb.ingest.locks_contract",
    "tests.kb.queue.contract",
    "tests.kb.vectors.contract",
)


def required(name: str) -> str:
    """A variable of the test environment; missing is a failure, never a skip."""
    value = os.environ.get(name)
    if not value:
        pytest.fail(f"{name} is not set: start the data services, or deselect these tests with -m 'not services'")
    return value


def stores() -> tuple[str, int, str]:
    """The places of the real stores: Weaviate's URL and port of gRPC, MongoDB's URI."""
    port = int(required("JERVIS_TEST_WEAVIATE_GRPC_PORT"))
    return required("JERVIS_TEST_WEAVIATE_URL"), port, required("JERVIS_TEST_MONGODB_URI")


@contextlib.contextmanager
def scratch() -> Iterator[tuple[str, str]]:
    """URI and name of a database that is gone afterwards."""
    uri, name = required("JERVIS_TEST_MONGODB_URI"), f"test_kb_{uuid.uuid4().hex[:12]}"
    yield uri, name
    with pymongo.MongoClient[dict[str, object]](uri) as client:
        client.drop_database(name)


@pytest.fixture
def clock() -> clocks.Clock:
    """2026-03-02 09:00 UTC until the test says otherwise."""
    return clocks.Clock()


@pytest.fixture
def meters() -> metrics.Metrics:
    """Meters of this test alone."""
    return metrics.Metrics(prometheus_client.CollectorRegistry())


@pytest.fixture
def effort(monkeypatch: pytest.MonkeyPatch) -> instructions.Counter:
    """What SQLite does on the connections that are opened from now on."""
    counted = instructions.Counter()
    monkeypatch.setattr(sqlite3, "connect", counted.connect)
    return counted


@pytest.fixture(scope="session")
def simulator() -> Iterator[process.Fake]:
    """One simulated Ollama for all tests of this folder."""
    with process.running(num_parallel=8) as fake:
        yield fake


@pytest.fixture
def fake(simulator: process.Fake) -> Iterator[process.Fake]:
    """The simulator with nothing asked, no script and no faults."""
    simulator.forget()
    yield simulator
    simulator.set_script({})
    simulator.set_faults([])


@pytest.fixture
async def router(fake: process.Fake) -> AsyncIterator[router_client.Client]:
    """The router's client, pointed straight at the simulator."""
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        yield router_client.Client(fake.url, http)


@pytest.fixture
def open_world(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> world.Opening:
    """Worlds in the folder of the test."""
    return world.Opening(tmp_path, router, clock, meters)


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    """A knowledge base with its stores in memory."""
    async with open_world() as opened:
        yield opened


@pytest.fixture(scope="session")
def weaviate_server() -> tuple[str, int]:
    """URL and gRPC port of a real Weaviate."""
    return stores()[:2]


@pytest.fixture
def weaviate_index() -> str:
    """The name of the index of `weaviate_store`, and of its model."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
async def weaviate_store(
    weaviate_server: tuple[str, int], weaviate_index: str
) -> AsyncIterator[vectors_weaviate.Store]:
    """A real Weaviate with collections of this test alone."""
    # An index of its own as well: who drops a document looks at the collections of every model of the index.
    store = vectors_weaviate.Store(*weaviate_server, weaviate_index, index=weaviate_index)
    yield store
    await store.destroy()
    await store.close()


@pytest.fixture
async def database() -> AsyncIterator[kb_mongo.Database]:
    """A database of this test alone, for the small collections."""
    with scratch() as (uri, name):
        opened = kb_mongo.Database(uri, name)
        yield opened
        await opened.close()


@pytest.fixture
def mongo_store(database: kb_mongo.Database) -> mongo.Store:
    """Contents in the database of this test alone."""
    return mongo.Store(database)
