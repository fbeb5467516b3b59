"""Intents and kept answers outlive the process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from kb.ingest import intent, sqlite
from tests.kb import clock as clocks
from tests.kb import scopes


@pytest.fixture
async def ledger(tmp_path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Ledger]:
    opened = sqlite.Ledger(tmp_path / "ingest.sqlite", clock, max_answers=3)
    await opened.prepare()
    yield opened
    await opened.close()


async def test_a_document_is_known_once_it_was_finished(ledger: sqlite.Ledger, clock: clocks.Clock) -> None:
    first = await ledger.open("d", scopes.SHOP, "u:1", "{}", clock())
    again = await ledger.open("d", scopes.SHOP, "u:1", "{}", clock())
    assert (first.known, first.attempts, again.known, again.attempts) == (False, 1, False, 2)
    await ledger.finish("d", clock())
    replacing = await ledger.open("d", scopes.SHOP, "u:1", '{"new": 1}', clock())
    retried = await ledger.open("d", scopes.SHOP, "u:1", '{"new": 1}', clock())
    assert (replacing.known, replacing.attempts, retried.known, retried.attempts) == (True, 1, True, 2)
    await ledger.forget("d")
    assert (await ledger.open("d", scopes.SHOP, "u:1", "{}", clock())).known is False


async def test_open_records_are_listed_oldest_first_with_their_request(
    ledger: sqlite.Ledger, clock: clocks.Clock
) -> None:
    for name in ("first", "second", "done", "broken"):
        clock.advance(seconds=1)
        await ledger.open(name, scopes.SHOP, f"u:{name}", f'{{"is": "{name}"}}', clock())
    await ledger.finish("done", clock())
    await ledger.fail("broken", "no way", clock())
    await ledger.interrupt("first", "weaviate is away", clock())
    listed = await ledger.unfinished(before=clock() + timedelta(seconds=1))
    assert [(record.document_id, record.reason, request) for record, request in listed] == [
        ("second", "", '{"is": "second"}'),
        ("first", "weaviate is away", '{"is": "first"}'),
    ]
    assert listed[0][0].owner == scopes.SHOP
    assert await ledger.unfinished(before=clock() - timedelta(hours=1)) == []
    assert await ledger.count() == {intent.State.OPEN: 2, intent.State.FINISHED: 1, intent.State.FAILED: 1}


async def test_the_oldest_answers_go_first(ledger: sqlite.Ledger, clock: clocks.Clock) -> None:
    for number in range(5):
        clock.advance(seconds=1)
        await ledger.keep_answer(f"k{number}", "kb.extract/v1", f"a{number}")
    assert [await ledger.answer(f"k{number}") for number in range(5)] == [None, None, "a2", "a3", "a4"]
