"""Intents and kept answers: in a file of one process, and in MongoDB for several."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb import errors, mongo
from kb.ingest import mongo as shared
from kb.ingest import request_record, sqlite
from tests.kb import clock as clocks
from tests.kb import scopes
from tests.kb.ingest import ledger_contract

_WITHOUT_OWNERS = """
DROP TABLE answers;
CREATE TABLE answers (key TEXT PRIMARY KEY, prompt TEXT NOT NULL, answer TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX answers_at ON answers (at);
"""
_WITHOUT_STAMP = "ALTER TABLE intents DROP COLUMN stamp;"
_WITHOUT_TIMES = f"ALTER TABLE intents DROP COLUMN dated; ALTER TABLE intents DROP COLUMN stored; {_WITHOUT_STAMP}"
_WITHOUT_CHANGES = f"DROP TABLE changes; DROP TABLE passes; {_WITHOUT_TIMES}"


@contextlib.asynccontextmanager
async def opened(path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Ledger]:
    ledger = sqlite.Ledger(path, clock, max_answers=3)
    await ledger.prepare()
    yield ledger
    await ledger.close()


def become(path: Path, version: int, changes: str) -> None:
    """Make the file one of that version."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{changes} PRAGMA user_version={version};")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ingest.sqlite"


class TestFile(ledger_contract.LedgerContract):
    @pytest.fixture
    async def ledger(self, path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Ledger]:
        async with opened(path, clock) as ledger:
            yield ledger


@pytest.mark.services
class TestMongo(ledger_contract.LedgerContract):
    @pytest.fixture
    def ledger(self, database: mongo.Database, clock: clocks.Clock) -> shared.Ledger:
        return shared.Ledger(database, clock, max_answers=3)

    async def test_what_one_process_writes_another_one_reads(
        self, ledger: shared.Ledger, database: mongo.Database, clock: clocks.Clock
    ) -> None:
        other = shared.Ledger(database, clock, max_answers=3)
        await ledger.open("d", scopes.SHOP, "u:1", "{}", clock(), fence=1)
        await ledger.keep_answer("k", "kb.extract/v1", "a", scopes.SHOP)
        assert await other.working(["d"]) == {"d"}
        assert await other.answer("k", scopes.SHOP) == "a"

    async def test_an_older_owner_changes_nothing(self, ledger: shared.Ledger, clock: clocks.Clock) -> None:
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 1}', clock(), fence=7)
        newer = await ledger.open("d", scopes.SHOP, "u:1", '{"v": 2}', clock(), fence=8)
        with pytest.raises(errors.Outrun):
            await ledger.open("d", scopes.SHOP, "u:1", '{"v": 1}', clock(), fence=7)
        await ledger.finish("d", clock(), fence=7)
        await ledger.fail("d", "no way", clock(), fence=7)
        await ledger.interrupt("d", "cut off", clock(), fence=7)
        await ledger.forget("d", fence=7)
        assert await ledger.find("d") == (newer, '{"v": 2}')
        await ledger.finish("d", clock(), fence=8)
        assert await ledger.count() == {request_record.State.FINISHED: 1}


async def test_a_file_of_version_1_is_brought_up_to_date(path: Path, clock: clocks.Clock) -> None:
    async with opened(path, clock) as first:
        await first.open("d", scopes.SHOP, "u:1", "{}", clock())
        await first.fail("d", "no way", clock())
    no_requests = "DROP INDEX intents_failed; UPDATE intents SET request = NULL;"
    become(path, 1, no_requests + _WITHOUT_OWNERS + _WITHOUT_CHANGES)
    async with opened(path, clock) as second:
        assert [one.recorded for one in await second.failed(scopes.SHOP, limit=5)] == [False]


async def test_answers_of_version_2_have_no_known_owner(path: Path, clock: clocks.Clock) -> None:
    async with opened(path, clock):
        pass
    at = int(clock().timestamp())
    answers = f"('k', 'kb.extract/v1', 'a', {at}), ('l', 'kb.extract/v1', 'b', {at})"
    become(path, 2, f"{_WITHOUT_OWNERS} {_WITHOUT_CHANGES} INSERT INTO answers VALUES {answers};")
    async with opened(path, clock) as second:
        # The scope that asks again has a copy; what was not asked for since goes with any erasure.
        assert await second.answer("k", scopes.OTHER) == "a"
        await second.erase(scopes.SHOP)
        assert [await second.answer(key, scopes.OTHER) for key in ("k", "l")] == ["a", None]


async def test_a_file_of_version_3_has_no_pass_and_no_changes(path: Path, clock: clocks.Clock) -> None:
    async with opened(path, clock) as first:
        await first.open("d", scopes.SHOP, "u:1", "{}", clock())
    become(path, 3, _WITHOUT_CHANGES)
    async with opened(path, clock) as second:
        assert (await second.passes(), await second.changed(), await second.working(["d"])) == ({}, [], {"d"})
        await second.note(scopes.SHOP, ["d"])
        assert [change.document_id for change in await second.changed()] == ["d"]


async def test_a_file_of_version_4_knows_of_no_time(path: Path, clock: clocks.Clock) -> None:
    async with opened(path, clock) as first:
        await first.open("d", scopes.SHOP, "u:1", "{}", clock(), dated_ms=7)
    become(path, 4, _WITHOUT_TIMES)
    async with opened(path, clock) as second:
        record = await ledger_contract.record(second, "d")
        assert (record.dated_ms, record.state) == (None, request_record.State.OPEN)
        await second.finish("d", clock())
        await second.open("d", scopes.SHOP, "u:1", '{"v": 2}', clock(), dated_ms=8)
        await second.finish("d", clock())
        assert (await ledger_contract.record(second, "d")).stored_ms == 8


async def test_a_file_of_version_5_has_no_stamps(path: Path, clock: clocks.Clock) -> None:
    async with opened(path, clock) as first:
        await first.open("d", scopes.SHOP, "u:1", "{}", clock())
        await first.finish("d", clock(), stamp="first")
    become(path, 5, _WITHOUT_STAMP)
    async with opened(path, clock) as second:
        record = await ledger_contract.record(second, "d")
        assert (record.stamp, record.state) == ("", request_record.State.FINISHED)
        await second.finish("d", clock(), stamp="second")
        assert (await ledger_contract.record(second, "d")).stamp == "second"
