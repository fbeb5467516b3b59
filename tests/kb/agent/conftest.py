"""A world with a manual, the agent over it, and the agent as a service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from kb import client, metrics, mongo
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import world
from tests.kb.agent import rig

NewSite = Callable[..., rig.Questions]


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    """It knows the manual of a pump."""
    async with open_world() as opened:
        await opened.ingest(world.request(rig.MANUAL, urn=rig.FENCED, kind="manual", title="Pump manual"))
        yield opened


@pytest.fixture
def desk(
    kb: world.ObservedState, router: router_client.Client, fake: process.Fake, meters: metrics.Metrics
) -> rig.Desk:
    return rig.Desk(kb, router, fake, meters)


@pytest.fixture
def new_site(
    kb: world.ObservedState, router: router_client.Client, database: mongo.Database, meters: metrics.Metrics
) -> NewSite:
    """One process that serves the agent over `kb`, on a database that may be another one."""

    def made(name: str = "a", on: mongo.Database = database, **more: Any) -> rig.Questions:
        orchestrator = rig.agent(rig.tools(kb, router), router, meters)
        return rig.Questions(orchestrator, on, meters, kb.graph.committed, name=name, **more)

    return made


@pytest.fixture
def site(new_site: NewSite) -> rig.Questions:
    return new_site()


@pytest.fixture
async def served(site: rig.Questions) -> AsyncIterator[rig.Questions]:
    async with site.over():
        yield site


@pytest.fixture
def kb_client(served: rig.Questions) -> client.Client:
    return served.client


@pytest.fixture
def http(served: rig.Questions) -> httpx.AsyncClient:
    return served.http
