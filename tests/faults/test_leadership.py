"""Two replicas: a leader that is frozen and thaws, a Lease that is deleted."""

from __future__ import annotations

import pytest

from tests.faults import campaigns, leadership
from tests.faults.campaigns import Begin

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
SEED = 20270301


async def test_a_frozen_leader_is_replaced_and_writes_nothing_when_it_thaws(begin: Begin) -> None:
    async with begin() as on:
        outcome = await leadership.frozen_leader(on, SEED)
    assert outcome.sentences() == []


async def test_the_creation_of_a_job_that_is_held_beyond_the_lease_makes_no_second_job(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.late_job(on, SEED)
    assert outcome.sentences() == []
    assert outcome.details["status"] == 403


async def test_without_the_policy_it_makes_one_which_is_removed(begin: Begin) -> None:
    """So the test above would see it."""
    async with begin() as on:
        outcome = await campaigns.late_job(on, SEED, guarded=False)
    assert (outcome.details["status"], [one.split(" for ")[0] for one in outcome.broken]) == (201, ["2 Jobs"])


async def test_the_lease_is_deleted_under_a_living_leader(begin: Begin) -> None:
    async with begin() as on:
        outcome = await leadership.deleted_lease(on, SEED)
    assert outcome.sentences() == []
