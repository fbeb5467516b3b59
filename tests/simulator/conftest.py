"""Simulators as real processes on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests import waiting
from tests.fakes.ollama import process

MODELS = ["small:1b", "other:1b", "third:1b", "qwen3-embedding:8b"]


Starter = Callable[..., process.Fake]
"""Start another simulator, with flags; it is stopped when the test ends."""


@pytest.fixture(scope="session")
def shared() -> Iterator[process.Fake]:
    """One simulator for the tests that need no settings of their own."""
    with process.running(models=MODELS) as fake:
        yield fake


@pytest.fixture
def fake(shared: process.Fake) -> Iterator[process.Fake]:
    """The shared simulator with nothing asked, nothing planned and nothing loaded."""
    shared.forget()
    yield shared
    shared.set_faults([])
    shared.set_script({})
    shared.set_pace(tokens_per_second=0, load_seconds_per_gib=0)
    shared.unload()


@pytest.fixture
def start() -> Iterator[Starter]:
    """For tests with settings of their own."""
    with ExitStack() as stack:

        def starter(**flags: process.Flag) -> process.Fake:
            chosen: dict[str, process.Flag] = {"models": MODELS, **flags}
            one = process.running(**chosen)  # type: ignore[arg-type]  # a flag may also be the port
            return stack.enter_context(one)

        yield starter


def client(fake: process.Fake) -> httpx.AsyncClient:
    """A client of any simulator."""
    return httpx.AsyncClient(base_url=fake.url, timeout=waiting.PATIENCE, trust_env=False, verify=False)


@pytest.fixture
async def http(fake: process.Fake) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the shared simulator."""
    async with client(fake) as shared_client:
        yield shared_client
