"""Trees of a branch as a source sends them, and a service that takes them and answers questions about them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codegraph import api
from codegraph.branch import analyst
from codegraph.extract import budget
from kb import client, metrics, mongo
from kb.code import book, history, service
from kb.ingest import lanes
from kb.service.http import code as code_http
from kb.service.http import openapi, structures
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.service import whole

SHAPE = 'class Shape:\n    """A thing with an area."""\n\n    def area(self) -> float:\n        return 0.0\n'
SQUARE = (
    "from app.shape import Shape\n\n\nclass Square(Shape):\n    def area(self) -> float:\n        return side()\n\n\n"
    "def side() -> float:\n    return 1.0\n"
)
FILES = {"app/__init__.py": "", "app/shape.py": SHAPE, "app/square.py": SQUARE}


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[world.ObservedState]:
    """Not by `opening`: tests of other folders use it, too."""
    open_world = world.Opening(tmp_path, router, clock, meters)
    async with open_world(aliases=aliases_memory.Registry(clock)) as opened_world:
        yield opened_world


@asynccontextmanager
async def opened(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> AsyncIterator[tuple[client.Client, str]]:
    """The typed client, and the address of the service."""
    async with AsyncExitStack() as stack:
        more = routes(kb, meters, clock, database, stack)
        async with whole.over(kb, meters, clock, more=more) as (typed, raw):
            yield typed, str(raw.base_url)


def routes(
    kb: world.ObservedState,
    meters: metrics.Metrics,
    clock: clocks.Clock,
    database: mongo.Database,
    stack: AsyncExitStack,
) -> list[openapi.Served]:
    """Of trees and of questions about them; `stack` ends what they use."""
    analysts = analyst.Analyst()
    stack.callback(analysts.close)
    known = book.Book(database, clock)
    works = structures.Structures(kb.pipeline.structures(known, analysts, budget.Budget()), lanes.Lanes(meters))
    asks = service.Questions(known, analysts)
    return [*works.routes(), *code_http.Code(asks, history.History(asks, kb.graph)).routes()]


@pytest.fixture
async def site(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> AsyncIterator[tuple[client.Client, str]]:
    async with opened(kb, meters, clock, database) as pair:
        yield pair


@pytest.fixture
async def served(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> AsyncIterator[client.Client]:
    async with opened(kb, meters, clock, database) as (typed, _):
        yield typed


def tree(files: Mapping[str, str], *, contents: bool = True, branch: str = "main", **more: Any) -> api.GitStructure:
    rows = [
        {"path": path, "blob": hashlib.sha1(text.encode()).hexdigest(), "size": len(text)}
        | ({"content": text} if contents else {})
        for path, text in files.items()
    ]
    filled = {
        "scope": scopes.SHOP,
        "repository": {"org": "acme", "name": "shop", "defaultBranch": "main"},
        "branch": branch,
        "commit": "a" * 40,
        "files": rows,
    }
    return api.GitStructure.model_validate(filled | more)


def gone(branch: str = "main") -> api.GitStructure:
    return tree({}, branch=branch, commit=None, removed=True)
