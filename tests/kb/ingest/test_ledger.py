"""Intents and kept answers: in a file of one process, and in MongoDB for several."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb import errors, mongo
from kb.ingest import mongo as shared
from kb.ingest import request_record, sqlite
from tests.kb import clock as clocks
from tests.kb import scopes
from tests.kb.ingest import ledger_contract


@contextlib.asynccontextmanager
async def opened(path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Ledger]:
    ledger = sqlite.Ledger(path, clock, max_answers=3)
    await ledger.prepare()
    yield ledger
    await ledger.close()


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
