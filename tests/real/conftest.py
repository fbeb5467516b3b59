"""A real Ollama for all tests of this folder, a router before it, and the processes that ask it."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pymongo
import pytest

from hack import ollama as program
from hack.cluster import progress
from hack.models import catalogue, server, store
from kb.vectors import weaviate
from tests import ports
from tests.kb.conftest import required
from tests.kb.service import program as kb_program
from tests.orchestrator_job import job
from tests.real import serving
from tests.router import process

CHOSEN = os.environ.get("JERVIS_TEST_REAL", "")
"""The chat model: a name of `hack.models.catalogue`."""
MODEL = catalogue.ALL[CHOSEN or catalogue.SMOLLM2.lock].name
PATIENCE = 1800.0
"""Seconds; only bounds a test that fails."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip this folder's tests unless a model is chosen."""
    here = Path(__file__).parent
    for item in items:
        if not CHOSEN and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason="JERVIS_TEST_REAL names no model: see make test-real"))


@pytest.fixture(name="ollama_for_all", scope="session")
def _ollama_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Ollama]:
    report = progress.Progress()
    binary = program.program(report)
    models = [catalogue.ALL[CHOSEN], catalogue.MINILM]
    folder = store.ensure(models, binary, report)
    log = tmp_path_factory.mktemp("ollama") / "log"
    with server.running(binary, folder, log) as url:
        yield serving.Ollama(url, log)


@pytest.fixture(name="ollama")
def _ollama(ollama_for_all: serving.Ollama) -> Iterator[serving.Ollama]:
    """The server; no runner of it dies in a test."""
    before = len(ollama_for_all.crashes())
    yield ollama_for_all
    assert ollama_for_all.crashes()[before:] == []


@pytest.fixture(name="router")
async def _router(tmp_path: Path, ollama: serving.Ollama) -> AsyncIterator[process.Router]:
    """Before it, as a GPU with one slot that gives way in the middle of an answer."""
    specs = [process.spec("real", ollama.url, numParallel=1, maxInFlight=1, preemption="AfterFirstByte")]
    async with process.running(tmp_path, specs) as router:
        yield router


@pytest.fixture(name="asking")
async def _asking(router: process.Router) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the router's that waits for a model on two busy cores."""
    async with httpx.AsyncClient(base_url=router.url, timeout=PATIENCE, trust_env=False, verify=False) as http:
        yield http


@pytest.fixture(name="http")
async def _http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as http:
        yield http


@pytest.fixture(name="results")
def _results() -> Iterator[job.Store]:
    """A database of its own for runs and the knowledge base, dropped afterwards."""
    client: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(
        required("JERVIS_TEST_MONGODB_URI"), tz_aware=True
    )
    name = f"test_real_{uuid.uuid4().hex[:12]}"
    try:
        yield job.Store(client, name)
    finally:
        client.drop_database(name)
        client.close()


@pytest.fixture(name="kb")
async def _kb(tmp_path: Path, router: process.Router, results: job.Store) -> AsyncIterator[kb_program.Program]:
    """The knowledge base as a process, all of whose models are the server's."""
    url, grpc = required("JERVIS_TEST_WEAVIATE_URL"), required("JERVIS_TEST_WEAVIATE_GRPC_PORT")
    settings = {
        "ROUTER_URL": router.url,
        "WEAVIATE_URL": url,
        "WEAVIATE_GRPC_PORT": grpc,
        "MONGODB_URI": required("JERVIS_TEST_MONGODB_URI"),
        "MONGODB_DATABASE": results.name,
        "INDEX": results.name,
        "TIKA_URL": required("JERVIS_TEST_TIKA_URL"),
        "EMBED_MODEL": catalogue.MINILM.name,
        "EXTRACT_MODEL": MODEL,
        "DECISION_MODEL": MODEL,
        "VISION_MODEL": MODEL,
        "RECOVERY_PATIENCE": "3600",
    }
    chosen = {f"JERVIS_KB_{name}": value for name, value in settings.items()}
    async with kb_program.running(tmp_path, ports.free(), chosen) as running:
        yield running
    index = weaviate.Store(url, int(grpc), catalogue.MINILM.name, index=results.name)
    await index.destroy()
    await index.close()


@pytest.fixture(name="task")
def _task(tmp_path: Path, router: process.Router, kb: kb_program.Program, results: job.Store) -> job.Job:
    """A task whose runs ask the real model; the test writes its memory."""
    made = job.Job(tmp_path, required("JERVIS_TEST_MONGODB_URI"), results.name, kb.url, router.url)
    made.environment |= {"JERVIS_MODEL": MODEL, "JERVIS_PLANNER_MODEL": MODEL, "JERVIS_UNAVAILABLE_SECONDS": "120"}
    return made
