"""Faults of the apiserver, the knowledge base and MongoDB: the short form of `make test-faults`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.faults import campaigns
from tests.faults.faults import Fault
from tests.faults.kinds import Kind
from tests.faults.stage import Stage

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Begin = Callable[[], AbstractAsyncContextManager[Stage]]
SEED = 20270301
FEW = (Kind.INFO, Kind.CHAT, Kind.LATE, Kind.ASK)


async def test_a_random_mix(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.mixed(on, SEED, tasks=50, rate=0.2)
    assert outcome.sentences() == []
    assert sum(outcome.faults.values()) >= 20


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.RESET_AFTER], ids=["conflict", "reset"])
async def test_everything_meets_it_once(begin: Begin, fault: Fault) -> None:
    """A conflict at a Job's creation among them: the Job is said to be there and is not."""
    async with begin() as on:
        (outcome,) = await campaigns.one_by_one(on, SEED, [fault], load_of=FEW)
    assert outcome.sentences() == []


async def test_the_user_is_quicker_than_the_write_that_ends_the_run(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.last_words(on, SEED, (Kind.CHAT, Kind.BACK, Kind.ASK, Kind.MUTE, Kind.FAIL))
    assert outcome.sentences() == []
    assert outcome.details["interrupted"] == 5


async def test_silent_watches(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.silent_watches(on, SEED)
    assert outcome.sentences() == []
