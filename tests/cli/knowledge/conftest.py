"""`jervis-kb` in this process, and what its knowledge bases stand on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cli.knowledge import __main__ as program
from tests.cli import site
from tests.kb.conftest import clock, database, fake, meters, open_world, router, simulator

__all__ = ["clock", "database", "fake", "meters", "open_world", "router", "simulator"]
Run = Callable[..., Awaitable[site.Done]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The program in a thread, as its own event loop wants it."""

    async def call(*arguments: str) -> site.Done:
        capsys.readouterr()
        return await asyncio.to_thread(site.call, capsys, *arguments, program=program.main)

    return call
