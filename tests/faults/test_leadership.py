"""Two replicas: a leader that is frozen and thaws, a Lease that is deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.faults import leadership
from tests.faults.stage import Stage

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Begin = Callable[[], AbstractAsyncContextManager[Stage]]
SEED = 20270301


async def test_a_frozen_leader_is_replaced_and_writes_nothing_when_it_thaws(begin: Begin) -> None:
    async with begin() as on:
        outcome = await leadership.frozen_leader(on, SEED)
    assert outcome.sentences() == []


async def test_the_lease_is_deleted_under_a_living_leader(begin: Begin) -> None:
    async with begin() as on:
        outcome = await leadership.deleted_lease(on, SEED)
    assert outcome.sentences() == []
