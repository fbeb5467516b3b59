"""Faults of the apiserver, the knowledge base and MongoDB: the short form of `make test-faults`."""

from __future__ import annotations

import pytest

from tests.faults import campaigns
from tests.faults.campaigns import Begin
from tests.faults.faults import Every, Fate, Fault
from tests.faults.kinds import Kind
from tests.faults.sites import Call
from tests.faults.stage import SLOTS, Stage

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
SEED = 20270301
FEW = (Kind.INFO, Kind.CHAT, Kind.LATE, Kind.ASK)


def failed_dispatches(on: Stage) -> list[str]:
    """Reasons of tries again, in any version of a task, that say so."""
    retries = [one.raw.get("status", {}).get("retry") or {} for one in on.record.versions["pendingtasks"]]
    reasons = [str(one.get("reason", "")) for one in retries]
    return [reason for reason in reasons if reason.startswith("DispatchFailed")]


async def test_a_random_mix(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.mixed(on, SEED, tasks=50, rate=0.2)
    assert outcome.sentences() == []
    assert sum(outcome.faults.values()) >= 50


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.RESET_AFTER], ids=["conflict", "reset"])
async def test_everything_meets_it_once(begin: Begin, fault: Fault) -> None:
    """A conflict at a Job's creation among them: the Job is said to be there and is not."""
    async with begin() as on:
        (outcome,) = await campaigns.one_by_one(on, SEED, [fault], load_of=FEW)
    assert outcome.sentences() == []


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.RESET_AFTER], ids=["500", "reset"])
async def test_a_job_whose_creation_was_not_heard_of_keeps_its_slot(begin: Begin, fault: Fault) -> None:
    """More runs than slots, and each creation is done and not answered: none is taken for a failed one."""
    every = Every(fault)
    creations = ("POST", "jobs")
    async with (
        begin() as on,
        on.replica(lambda call: every(call) if (call.site.verb, call.site.resource) == creations else None) as replica,
    ):
        await campaigns.load(on, [f"{Kind.CHAT}-{number:04}" for number in range(2 * SLOTS)])
        outcome = await campaigns.finish(on, "unheard", SEED, replica)
        failed = failed_dispatches(on)
    assert outcome.sentences() == []
    assert outcome.faults == {fault.value: 2 * SLOTS}
    assert failed == []


async def test_a_creation_that_nobody_can_ask_about_keeps_its_slot(begin: Begin) -> None:
    """As above, and the API does not say whether the Job is there either: that is no failed dispatch."""
    made, asked = Every(Fault.LOST_ANSWER), Every(Fault.RESET_BEFORE, times=2)
    doors = {("POST", "jobs"): made, ("GET", "jobs"): asked}

    def decide(call: Call) -> Fate | None:
        door = doors.get((call.site.verb, call.site.resource))
        return None if door is None else door(call)

    async with begin() as on, on.replica(decide) as replica:
        await campaigns.load(on, [f"{Kind.CHAT}-{number:04}" for number in range(2 * SLOTS)])
        outcome = await campaigns.finish(on, "untold", SEED, replica)
        failed = failed_dispatches(on)
    assert outcome.sentences() == []
    assert outcome.faults[Fault.LOST_ANSWER.value] == 2 * SLOTS
    assert outcome.faults[Fault.RESET_BEFORE.value] >= 2 * SLOTS
    assert failed == []


@pytest.mark.parametrize("lost", ["GET", "PATCH"])
async def test_a_run_that_goes_on_and_that_nobody_can_ask_about_keeps_its_slot(begin: Begin, lost: str) -> None:
    """Its Job is there, and whether it works is not known: the API does not say what it is, or let it go unheard."""
    once, created, again = Every(Fault.LOST_ANSWER), set[str](), set[str]()
    """Jobs that were to be created a second time: they are there, suspended."""

    def decide(call: Call) -> Fate | None:
        site, first = call.site, call.name not in created
        if (site.verb, site.resource) == ("POST", "jobs"):
            created.add(call.name)
            again.update(() if first else (call.name,))
        return once(call) if (site.verb, site.resource) == (lost, "jobs") and call.name in again else None

    async with begin() as on, on.replica(decide) as replica:
        await campaigns.load(on, [f"{Kind.HELD}-{number:04}" for number in range(SLOTS)])
        outcome = await campaigns.finish(on, "unheard", SEED, replica)
        failed = failed_dispatches(on)
    assert outcome.sentences() == []
    assert outcome.faults == {Fault.LOST_ANSWER.value: SLOTS}
    assert failed == []


async def test_the_user_is_quicker_than_the_write_that_ends_the_run(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.last_words(on, SEED, (Kind.CHAT, Kind.BACK, Kind.ASK, Kind.MUTE, Kind.FAIL))
    assert outcome.sentences() == []
    assert outcome.details["interrupted"] == 5


async def test_silent_watches(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.silent_watches(on, SEED)
    assert outcome.sentences() == []
