"""An index of pages on a real Weaviate, and what is needed to make pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crds import scope
from kb import identity, metrics, mongo
from kb.visual import maxsim, model
from kb.visual.weaviate import schema, store
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb.visual import place as places

DIMENSION = 16
Opened = Callable[..., store.Store]


def vectors(seed: int, count: int = 6) -> model.Array:
    """Random unit vectors, the same for the same seed."""
    return maxsim.unit(np.random.default_rng(seed).normal(size=(count, DIMENSION)))


def source(owner: scope.Scope, urn: str = "file::a", *, revision: str = "r1", digest: str = "d1") -> model.Source:
    """A version of a document."""
    return model.Source(owner, identity.document(owner, urn), urn, urn, "application/pdf", revision, digest)


def indexed(of: model.Source, number: int, text: str = "", *, seen_only: bool = True, seed: int = 0) -> model.Indexed:
    """A page of it."""
    made = vectors(seed or number)
    return model.Indexed(of.page_id(number), of, number, text, seen_only, made)


def numbers(hits: Sequence[model.Hit], of: model.Source, most: int = 20) -> list[int]:
    """Which pages were found."""
    known = {of.page_id(number): number for number in range(1, most)}
    return [known[hit.page_id] for hit in hits if hit.page_id in known]


@pytest.fixture(params=["muvera", ""], ids=["muvera", "plain"])
async def index(request: pytest.FixtureRequest, opened: Opened) -> store.Store:
    """A collection of this test alone, in each encoding."""
    return opened(layout=schema.Layout(encoding=request.param))


@pytest.fixture
async def pages_index(weaviate_server: tuple[str, int], weaviate_index: str) -> AsyncIterator[store.Store]:
    """The index of a service with pages, of this test alone."""
    async with _stores(weaviate_server, weaviate_index) as make:
        yield make("glyphs-128")


@pytest.fixture
async def opened(weaviate_server: tuple[str, int], weaviate_index: str) -> AsyncIterator[Opened]:
    """Stores of an index of this test alone, as several processes have them."""
    async with _stores(weaviate_server, weaviate_index) as make:
        yield make


@asynccontextmanager
async def _stores(server: tuple[str, int], index_name: str) -> AsyncIterator[Opened]:
    stores: list[store.Store] = []

    def make(model_name: str = index_name, **more: Any) -> store.Store:
        stores.append(store.Store(*server, model_name, index=index_name, **more))
        return stores[-1]

    yield make
    await stores[0].destroy()
    for one in stores:
        await one.close()


@pytest.fixture
async def place(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
    pages_index: store.Store,
) -> AsyncIterator[places.Place]:
    """A service with pages."""
    async with places.opened(tmp_path, router, clock, meters, database, pages_index) as made:
        yield made
