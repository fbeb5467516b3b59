"""The knowledge base's fixtures beside those of the Job, and the means of a run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb import metrics
from kb import mongo as kb_mongo
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb.conftest import clock, database, meters, router
from tests.orchestrator_job import job
from tests.orchestrator_job.effects.tools import parts

__all__ = ["clock", "database", "meters", "router"]


@pytest.fixture
def opening(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics,
    database: kb_mongo.Database, store: job.Store,
) -> parts.Opening:  # fmt: skip
    """Opens the means of a run, which may be named."""
    (tmp_path / "kb").mkdir()
    return functools.partial(parts.parts, tmp_path, router, clock, meters, database, store)


@pytest.fixture
async def made(opening: parts.Opening) -> AsyncIterator[parts.Parts]:
    """The means of a run without a sources process."""
    async with opening() as one:
        yield one
