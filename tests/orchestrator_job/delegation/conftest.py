"""What whole loops need."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge
from tests.orchestrator_job.delegation import rounds, workbench


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
