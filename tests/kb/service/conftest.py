"""The service over a world of the test, and the whole of it as a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlparse

import httpx
import pytest

from kb import client, metrics
from kb.vectors import weaviate
from tests import ports
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import conftest, forwarder, world
from tests.kb.service import callers, program, whole


@pytest.fixture
async def served(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    """The service that writes, over `kb`: its typed client and a raw one. Files whose tests are about another one
    override it."""
    async with whole.over(kb, meters, clock) as pair:
        yield pair


@pytest.fixture
def kb_client(served: tuple[client.Client, httpx.AsyncClient]) -> client.Client:
    return served[0]


@pytest.fixture
def http(served: tuple[client.Client, httpx.AsyncClient]) -> httpx.AsyncClient:
    return served[1]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """The file of the usual tokens."""
    return callers.write(tmp_path)


@pytest.fixture
async def links() -> AsyncIterator[dict[str, forwarder.Forwarder]]:
    """Ways to Weaviate (HTTP and gRPC) and MongoDB, all up."""
    weaviate_url, grpc, mongodb = conftest.stores()
    vectors, mongo = urlparse(weaviate_url), urlparse(mongodb)
    assert vectors.hostname
    assert mongo.hostname
    ways = {
        "weaviate": forwarder.Forwarder(vectors.hostname, vectors.port or 80, ports.free()),
        "grpc": forwarder.Forwarder(vectors.hostname, grpc, ports.free()),
        "mongodb": forwarder.Forwarder(mongo.hostname, mongo.port or 27017, ports.free()),
    }
    for way in ways.values():
        await way.up()
    yield ways
    for way in ways.values():
        await way.down()


@pytest.fixture
async def settings(fake: process.Fake, links: dict[str, forwarder.Forwarder]) -> AsyncIterator[dict[str, str]]:
    """Of a service over the links, whose data goes at the end."""
    weaviate_url, grpc, _ = conftest.stores()
    with conftest.scratch() as (_, name):
        yield {
            "JERVIS_KB_ROUTER_URL": fake.url,
            "JERVIS_KB_WEAVIATE_URL": f"http://127.0.0.1:{links['weaviate'].port}",
            "JERVIS_KB_WEAVIATE_GRPC_PORT": str(links["grpc"].port),
            "JERVIS_KB_MONGODB_URI": f"mongodb://127.0.0.1:{links['mongodb'].port}",
            "JERVIS_KB_MONGODB_DATABASE": name,
            # A tag makes an index of its own, so that no test meets another's vectors.
            "JERVIS_KB_EMBED_MODEL": "qwen3-embedding:8b",
            "JERVIS_KB_INDEX": name,
            "JERVIS_KB_TIKA_URL": conftest.required("JERVIS_TEST_TIKA_URL"),
            # The simulator has no model of its own for pictures; it answers what the schema asks for.
            "JERVIS_KB_VISION_MODEL": "qwen2.5:7b",
            "JERVIS_KB_CHUNK_CHARS": "900",
            "JERVIS_KB_RECOVERY_INTERVAL": "0.2",
            "JERVIS_KB_RECOVERY_PATIENCE": "0",
            "JERVIS_KB_ERASURE_INTERVAL": "0.2",
        }
        store = weaviate.Store(weaviate_url, grpc, "qwen3-embedding:8b", index=name)
        await store.destroy()
        await store.close()


@pytest.fixture
def run(tmp_path: Path, settings: dict[str, str]) -> program.Running:
    """Starts the service, always with the same port, files and data."""
    port = ports.free()
    return lambda **more: program.running(tmp_path, port, settings | more)
