"""Fixtures: an apiserver of this suite's own (it is killed), a MongoDB wire, and stages on them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from hack.cluster import jars, process, progress, services, standalone
from tests import ports
from tests.faults import server as servers
from tests.faults.stage import BRIEF, Stage, stage


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Server]:
    with servers.running(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture(scope="session")
def mongodb_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MongoDB wire of this suite's own: tests beside it stop the one that all share."""
    directory, port = tmp_path_factory.mktemp("mongodb"), ports.free()
    daemon = process.Daemon("mongodb", directory)
    command = [*jars.mongodb(progress.Progress()), "127.0.0.1", str(port), str(directory / "data.mv")]
    daemon.start(command, prefix=("setpriv", "--pdeathsig", "KILL", "--"))
    try:
        daemon.wait(lambda: services.answers_ping("127.0.0.1", port), 60)
        yield f"mongodb://127.0.0.1:{port}"
    finally:
        daemon.stop()


@pytest.fixture
def begin(
    server: standalone.Server, mongodb_uri: str, tmp_path: Path
) -> Callable[[], AbstractAsyncContextManager[Stage]]:
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
