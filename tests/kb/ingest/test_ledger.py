"""Intents and kept answers: in a file of one process, and in MongoDB for several."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb import errors, mongo
from kb.ingest import intent, sqlite
from kb.ingest import mongo as shared
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


class TestFile(ledger_contract.LedgerContract):
    @pytest.fixture
    async def ledger(self, tmp_path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Ledger]:
        opened = sqlite.Ledger(tmp_path / "ingest.sqlite", clock, max_answers=3)
        await opened.prepare()
        yield opened
        await opened.close()


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
        assert await ledger.count() == {intent.State.FINISHED: 1}


async def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path, clock: clocks.Clock) -> None:
    path = tmp_path / "old.sqlite"
    first = sqlite.Ledger(path, clock, max_answers=3)
    await first.prepare()
    await first.open("d", scopes.SHOP, "u:1", "{}", clock())
    await first.fail("d", "no way", clock())
    await first.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP INDEX intents_failed; UPDATE intents SET request = NULL;")
        connection.executescript(_WITHOUT_OWNERS + _WITHOUT_CHANGES)
        connection.execute("PRAGMA user_version=1")
    second = sqlite.Ledger(path, clock, max_answers=3)
    await second.prepare()
    assert [one.recorded for one in await second.failed(scopes.SHOP, limit=5)] == [False]
    await second.close()


async def test_answers_of_version_2_have_no_known_owner(tmp_path: Path, clock: clocks.Clock) -> None:
    path = tmp_path / "old.sqlite"
    first = sqlite.Ledger(path, clock, max_answers=9)
    await first.prepare()
    await first.close()
    at = int(clock().timestamp())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"""
            {_WITHOUT_OWNERS}
            {_WITHOUT_CHANGES}
            INSERT INTO answers VALUES ('k', 'kb.extract/v1', 'a', {at}), ('l', 'kb.extract/v1', 'b', {at});
            PRAGMA user_version=2;
        """)
    second = sqlite.Ledger(path, clock, max_answers=9)
    await second.prepare()
    # The scope that asks again has a copy; what was not asked for since goes with any erasure.
    assert await second.answer("k", scopes.OTHER) == "a"
    await second.erase(scopes.SHOP)
    assert [await second.answer(key, scopes.OTHER) for key in ("k", "l")] == ["a", None]
    await second.close()


async def test_a_file_of_version_3_has_no_pass_and_no_changes(tmp_path: Path, clock: clocks.Clock) -> None:
    path = tmp_path / "old.sqlite"
    first = sqlite.Ledger(path, clock, max_answers=9)
    await first.prepare()
    await first.open("d", scopes.SHOP, "u:1", "{}", clock())
    await first.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{_WITHOUT_CHANGES} PRAGMA user_version=3;")
    second = sqlite.Ledger(path, clock, max_answers=9)
    await second.prepare()
    assert (await second.passes(), await second.changed(), await second.working(["d"])) == ({}, [], {"d"})
    await second.note(scopes.SHOP, ["d"])
    assert [one.document_id for one in await second.changed()] == ["d"]
    await second.close()


async def test_a_file_of_version_4_knows_of_no_time(tmp_path: Path, clock: clocks.Clock) -> None:
    path = tmp_path / "old.sqlite"
    first = sqlite.Ledger(path, clock, max_answers=9)
    await first.prepare()
    await first.open("d", scopes.SHOP, "u:1", "{}", clock(), dated_ms=7)
    await first.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{_WITHOUT_TIMES} PRAGMA user_version=4;")
    second = sqlite.Ledger(path, clock, max_answers=9)
    await second.prepare()
    found = await second.find("d")
    assert found is not None
    assert (found[0].dated_ms, found[0].state) == (None, intent.State.OPEN)
    await second.finish("d", clock())
    await second.open("d", scopes.SHOP, "u:1", '{"v": 2}', clock(), dated_ms=8)
    await second.finish("d", clock())
    found = await second.find("d")
    assert found is not None
    assert found[0].stored_ms == 8
    await second.close()


async def test_a_file_of_version_5_has_no_stamps(tmp_path: Path, clock: clocks.Clock) -> None:
    path = tmp_path / "old.sqlite"
    first = sqlite.Ledger(path, clock, max_answers=9)
    await first.prepare()
    await first.open("d", scopes.SHOP, "u:1", "{}", clock())
    await first.finish("d", clock(), stamp="first")
    await first.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{_WITHOUT_STAMP} PRAGMA user_version=5;")
    second = sqlite.Ledger(path, clock, max_answers=9)
    await second.prepare()
    found = await second.find("d")
    assert found is not None
    assert (found[0].stamp, found[0].state) == ("", intent.State.FINISHED)
    await second.finish("d", clock(), stamp="second")
    found = await second.find("d")
    assert found is not None
    assert found[0].stamp == "second"
    await second.close()
