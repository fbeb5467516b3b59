"""Turns within one process, and of several by way of MongoDB: owners that are gone, frozen or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from kb import errors, mongo
from kb.ingest import document_locks, mongo_locks
from tests.kb import clock as clocks
from tests.kb.ingest import locks_contract

_LIFE, _MARGIN = 120.0, 75.0


class TestOneProcess(locks_contract.TurnsContract):
    @pytest.fixture
    def port(self) -> document_locks.Port:
        return document_locks.Turns()

    @pytest.fixture
    def other(self, port: document_locks.Port) -> document_locks.Port:
        return port


@dataclass
class Process:
    """One writing process as its turns see it: a monotonic clock of its own, which sleeping moves."""

    claims: mongo_locks.Turns
    reading: list[float] = field(default_factory=lambda: [0.0])

    def passes(self, seconds: float) -> None:
        self.reading[0] += seconds


Start = Callable[[str], Process]


@pytest.fixture
def start(database: mongo.Database, clock: clocks.Clock) -> Start:
    def made(name: str) -> Process:
        reading = [0.0]

        async def sleep(seconds: float) -> None:
            reading[0] += seconds
            await asyncio.sleep(0)

        one: Any = mongo_locks.Turns(database, name, clock, lambda: reading[0], life=_LIFE, margin=_MARGIN, sleep=sleep)
        return Process(one, reading)

    return made


@pytest.mark.services
class TestSeveralProcesses(locks_contract.TurnsContract):
    @pytest.fixture
    def port(self, start: Start) -> document_locks.Port:
        return start("a").claims

    @pytest.fixture
    def other(self, start: Start) -> document_locks.Port:
        return start("b").claims

    async def test_fences_grow(self, start: Start) -> None:
        a, b = start("a"), start("b")
        fences: list[int] = []
        for one in (a, b, b, a):
            async with one.claims.take("d") as turn:
                fences.append(turn.fence)
        assert fences == sorted(set(fences))

    async def test_a_process_that_is_gone_is_followed_after_its_life(self, start: Start) -> None:
        gone, heir = start("gone"), start("heir")
        left = gone.claims.take("d")
        old = await left.__aenter__()
        async with heir.claims.attempt("d") as turn:
            assert turn is None
        heir.passes(_LIFE - 1)
        async with heir.claims.attempt("d") as turn:
            assert turn is None
        heir.passes(1)
        async with heir.claims.attempt("d") as turn:
            assert turn is not None
            assert turn.fence > old.fence

    async def test_who_waits_takes_over_too(self, start: Start) -> None:
        gone, heir = start("gone"), start("heir")
        left = gone.claims.take("d")
        old = await left.__aenter__()
        async with heir.claims.take("d") as turn:
            assert turn.fence > old.fence
        assert heir.reading[0] >= _LIFE

    async def test_a_process_that_beats_is_not_followed(self, start: Start) -> None:
        busy, waiting = start("busy"), start("waiting")
        async with busy.claims.take("d") as turn:
            for _ in range(5):
                async with waiting.claims.attempt("d") as none:
                    assert none is None
                waiting.passes(_LIFE - 1)
                busy.passes((_LIFE - _MARGIN) / 4)
                await busy.claims.beat()
            turn.check()

    async def test_an_owner_stops_before_another_one_begins(self, start: Start) -> None:
        cut_off = start("cut off")
        async with cut_off.claims.take("d") as turn:
            cut_off.passes(_LIFE - _MARGIN - 1)
            turn.check()
            cut_off.passes(1)
            with pytest.raises(errors.Outrun, match="renew"):
                turn.check()

    async def test_a_frozen_owner_loses_its_turn_and_takes_nothing_from_its_heir(self, start: Start) -> None:
        frozen, heir, third = start("frozen"), start("heir"), start("third")
        async with frozen.claims.take("d") as old:
            async with heir.claims.attempt("d"):
                heir.passes(_LIFE)
            heirs = heir.claims.take("d")
            new = await heirs.__aenter__()
            # It wakes up and knows nothing of what happened; its clock stood still.
            await frozen.claims.beat()
            with pytest.raises(errors.Outrun):
                old.check()
        new.check()
        async with third.claims.attempt("d") as none:
            assert none is None, "the frozen owner's release is not the heir's"
        await heirs.__aexit__(None, None, None)

    async def test_what_a_lost_answer_left_is_taken_at_once(self, start: Start, database: mongo.Database) -> None:
        process = start("a")
        async with process.claims.take("d"):
            pass
        await database[mongo_locks.COLLECTION].update_one({"_id": "d"}, {"$set": {"owner": "a"}})
        async with process.claims.attempt("d") as turn:
            assert turn is not None

    async def test_a_key_that_was_forgotten_goes_on_with_a_greater_fence(
        self, start: Start, clock: clocks.Clock, database: mongo.Database
    ) -> None:
        process = start("a")
        async with process.claims.take("held"):
            async with process.claims.take("d") as turn:
                last = turn.fence
            clock.advance(days=mongo_locks.KEPT / timedelta(days=1), seconds=1)
            assert await process.claims.purge() == 1
            assert await database[mongo_locks.COLLECTION].count_documents({}) == 1
        async with process.claims.take("d") as turn:
            assert turn.fence > last
