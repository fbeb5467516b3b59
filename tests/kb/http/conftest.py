"""The whole service as a process, for the tests that need it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlparse

import pymongo
import pytest

from kb.vectors import weaviate
from tests import ports
from tests.fakes.ollama import process
from tests.kb import conftest, forwarder
from tests.kb.http import program


@pytest.fixture
async def links() -> AsyncIterator[dict[str, forwarder.Forwarder]]:
    """Ways to Weaviate (HTTP and gRPC) and MongoDB, all up."""
    vectors = urlparse(conftest.required("JERVIS_TEST_WEAVIATE_URL"))
    mongo = urlparse(conftest.required("JERVIS_TEST_MONGODB_URI"))
    grpc = int(conftest.required("JERVIS_TEST_WEAVIATE_GRPC_PORT"))
    assert vectors.hostname
    assert mongo.hostname
    made = {
        "weaviate": forwarder.Forwarder(vectors.hostname, vectors.port or 80, ports.free()),
        "grpc": forwarder.Forwarder(vectors.hostname, grpc, ports.free()),
        "mongodb": forwarder.Forwarder(mongo.hostname, mongo.port or 27017, ports.free()),
    }
    for link in made.values():
        await link.up()
    yield made
    for link in made.values():
        await link.down()


@pytest.fixture
async def settings(fake: process.Fake, links: dict[str, forwarder.Forwarder]) -> AsyncIterator[dict[str, str]]:
    """Of a service over the links, whose data goes at the end."""
    name = f"test_kb_{uuid.uuid4().hex[:12]}"
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
    store = weaviate.Store(
        conftest.required("JERVIS_TEST_WEAVIATE_URL"),
        int(conftest.required("JERVIS_TEST_WEAVIATE_GRPC_PORT")),
        "qwen3-embedding:8b",
        index=name,
    )
    await store.destroy()
    await store.close()
    with pymongo.MongoClient[dict[str, object]](conftest.required("JERVIS_TEST_MONGODB_URI")) as mongo:
        mongo.drop_database(name)


@pytest.fixture
def run(tmp_path: Path, settings: dict[str, str]) -> program.Running:
    """Starts the service, always with the same port, files and data."""
    port = ports.free()
    return lambda **more: program.running(tmp_path, port, settings | more)
