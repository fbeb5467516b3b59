"""The embedded graph store."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb import errors
from kb.graph import sqlite
from tests.kb import scopes
from tests.kb.graph import contract


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[sqlite.Store]:
    opened = sqlite.Store(tmp_path / "graph.sqlite")
    await opened.prepare()
    yield opened
    await opened.close()


class TestSqlite(contract.Contract):
    """The contract on a file."""


async def test_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    first = sqlite.Store(path)
    await first.prepare()
    await first.replace(scopes.SHOP, contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:b")]))
    await first.close()
    second = sqlite.Store(path)
    await second.prepare()
    assert (await second.counts(scopes.SHOP)).edges == 1
    await second.close()


async def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = sqlite.Store(path)
    with pytest.raises(errors.Misconfigured, match="schema version 99") as caught:
        await store.prepare()
    assert caught.value.field == "dataDir"
    await store.close()


async def test_a_disk_that_cannot_be_opened_is_away(tmp_path: Path) -> None:
    store = sqlite.Store(tmp_path / "missing" / "graph.sqlite")
    with pytest.raises(errors.Away, match="disk"):
        await store.prepare()
    await store.close()


async def test_a_failed_replacement_leaves_the_old_state(store: sqlite.Store) -> None:
    good = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    await store.replace(scopes.SHOP, good)
    broken = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:c")])
    doubled = type(broken)(broken.document, broken.chunk_ids * 2, broken.mentions, broken.evidence)
    with pytest.raises(sqlite3.IntegrityError):
        await store.replace(scopes.SHOP, doubled)
    assert [str(proven.edge.target) for proven in await store.edges(scopes.SHOP)] == ["n:b"]
