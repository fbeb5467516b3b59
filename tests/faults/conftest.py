"""Fixtures: an apiserver of this suite's own (it is killed), and stages on it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hack.cluster import standalone
from tests.faults import server as servers
from tests.faults.campaigns import Begin
from tests.faults.stage import BRIEF, Stage, stage


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Server]:
    with servers.running(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture
def mongodb_uri() -> str:
    uri = os.environ.get("JERVIS_TEST_MONGODB_URI")
    assert uri, "JERVIS_TEST_MONGODB_URI is not set; `python -m hack.cluster services-up`, or -m 'not services'"
    return uri


@pytest.fixture
def begin(server: standalone.Server, mongodb_uri: str, tmp_path: Path) -> Begin:
    """Makes stages; finished tasks are archived and deleted within seconds on them."""
    numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Stage]:
        number = next(numbers)
        logs = tmp_path / f"stage-{number}"
        logs.mkdir()
        async with stage(server, mongodb_uri, logs, number, **BRIEF) as on:
            yield on

    return made
