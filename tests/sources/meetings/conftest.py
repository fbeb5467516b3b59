"""Fixtures: a database with one Connection of meetings, and who uploads to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sources.core import assignments
from tests.sources.meetings.test_upload import Rig, book, connection, make


@pytest.fixture
async def rig(tmp_path: Path, database: Any) -> Rig:
    prepared = Rig(database, book(tmp_path))
    await prepared.meetings.prepare()
    await prepared.audio.prepare()
    await database[assignments.CONNECTIONS].insert_many([connection(), connection("mailbox", "Email")])
    return prepared


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """Of one who may write in client acme."""
    async with rig.client() as acme:
        yield acme


@pytest.fixture
async def fresh(client: httpx.AsyncClient) -> str:
    """A meeting without a recording."""
    return await make(client)
