"""The parts that a run talks to. Tests that use them are marked `services`."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, rounds, sources, workbench
from tests.orchestrator_job.desk import Desk


@pytest.fixture(scope="session")
def mongodb_uri() -> str:
    """The MongoDB wire under test; missing is a failure, not a skip."""
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    if not uri:
        pytest.fail("JERVIS_TEST_MONGODB_URI is not set: start the data services, or deselect with -m 'not services'")
    return uri


@pytest.fixture(scope="session")
def simulator() -> Iterator[process.Fake]:
    """One simulator for all tests of this folder."""
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
def store(mongodb_uri: str) -> Iterator[job.Store]:
    """A database of its own, dropped afterwards."""
    with job.stored(mongodb_uri, "test_job") as stored:
        yield stored


@pytest.fixture
async def known() -> AsyncIterator[knowledge.Knowledge]:
    """A knowledge base that gives recorded answers."""
    async with knowledge.serving() as serving:
        yield serving


@pytest.fixture
def task(tmp_path: Path, mongodb_uri: str, store: job.Store, known: knowledge.Knowledge, fake: process.Fake) -> job.Job:
    """A task whose memory is written."""
    made = job.Job(tmp_path, mongodb_uri, store.name, known.url, fake.url)
    store.remember(made.memory())
    return made


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as serving:
        yield serving


@pytest.fixture
def desk(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, outside: sources.Sources
) -> Desk:
    """The same task with all that its runs talk to."""
    return Desk(task, store, fake, known, outside)


@pytest.fixture
async def router(fake: process.Fake) -> AsyncIterator[router_client.Client]:
    """The simulator, as the router's client sees it."""
    async with httpx.AsyncClient(transport=router_client.few(), timeout=waiting.PATIENCE) as http:
        yield router_client.Client(fake.url, http)


@pytest.fixture
async def target() -> AsyncIterator[workbench.Target]:
    """Where effects happen."""
    async with workbench.target() as made:
        yield made


@pytest.fixture
def uid() -> str:
    """A task of its own."""
    return uuid.uuid4().hex


@pytest.fixture
def benches(store: job.Store, router: router_client.Client, fake: process.Fake, uid: str) -> workbench.Benches:
    """The processes that work on a task."""
    return workbench.Benches(store, router, fake, uid)


@pytest.fixture
def nodes(
    store: job.Store, router: router_client.Client, known: knowledge.Knowledge, fake: process.Fake, uid: str
) -> rounds.Nodes:
    """The nodes around the delegations of a task."""
    return rounds.Nodes(store, router, known, fake, uid)
