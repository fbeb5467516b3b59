"""kill -9 of the operator at its call sites and at random moments: the short form of `make test-faults`."""

from __future__ import annotations

import pytest

from tests.faults import campaigns, everywhere, kills
from tests.faults.campaigns import Begin
from tests.faults.sites import Door, Moment, Site

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
SEED = 20270301

OBVIOUS = {
    Site(Door.API, "PATCH", "pendingtasks", "status", "DispatchedGpu"),
    Site(Door.API, "PATCH", "pendingtasks", "status", "Orchestrating"),
    Site(Door.API, "PATCH", "pendingtasks", "status", "Completed"),
    Site(Door.API, "PATCH", "pendingtasks", "status", "UserTask"),
    Site(Door.API, "PATCH", "pendingtasks", "status", "Error"),
    Site(Door.API, "PATCH", "jobs", intent="suspend=True"),
    Site(Door.API, "PATCH", "jobs", intent="suspend=False"),
    Site(Door.API, "POST", "jobs"),
    Site(Door.API, "POST", "events"),
    Site(Door.API, "POST", "leases", intent="acquire"),
    Site(Door.API, "PUT", "leases", intent="renew"),
    Site(Door.API, "DELETE", "pendingtasks"),
    Site(Door.API, "POST", "pendingtasks"),
    Site(Door.API, "DELETE", "jobs"),
    Site(Door.API, "DELETECOLLECTION", "jobs", intent="by jervis.dev/task-uid in"),
    Site(Door.API, "PUT", "leases", intent="release"),
    Site(Door.API, "GET", "secrets"),
    Site(Door.API, "PATCH", "connections", "status", "conditions+observedGeneration"),
    Site(Door.API, "PATCH", "pendingtasks", "status", "conditions+preemption+preemptions"),
    Site(Door.API, "LIST", "pendingtasks", intent="by status.phase!="),
    Site(Door.API, "LIST", "pendingtasks", intent="by status.phase="),
    Site(Door.API, "WATCH", "pendingtasks", intent="by status.phase!="),
    Site(Door.KNOWLEDGE, "POST", "/api/v1/ingest/full"),
    Site(Door.KNOWLEDGE, "POST", "/api/v1/ingest/attachment"),
    Site(Door.KNOWLEDGE, "POST", "/api/v1/outcomes"),
    Site(Door.MONGODB, "update", "task_memory"),
    Site(Door.MONGODB, "update", "task_archive"),
    Site(Door.MONGODB, "find", "task_results"),
}
"""Without these the enumeration has missed something, whatever the operator's code looks like."""


async def test_at_every_call_site(begin: Begin) -> None:
    """Each site once, at one of its moments in turn; `make test-faults` takes all of them."""
    async with begin() as on:
        sites = await everywhere.survey(on, SEED)
        assert await on.judge() == []
    print(*sorted(sites), sep="\n")
    assert OBVIOUS - sites == set()
    moments = list(Moment)
    wanted = [
        kills.Target(site, moments[number % (2 if site.verb == "WATCH" else 3)])
        for number, site in enumerate(sorted(sites))
    ]
    outcomes = await everywhere.at_every_site(begin, SEED, wanted, certain=OBVIOUS)
    assert [sentence for one in outcomes for sentence in one.sentences()] == []
    rare = outcomes[-1].details["metOnceAndNotReached"]
    assert sum(one.kills for one in outcomes) == len(wanted) - len(rare) >= len(OBVIOUS)


async def test_at_random_moments(begin: Begin) -> None:
    async with begin() as on:
        outcome = await campaigns.at_random(on, SEED, tasks=60, kills=12)
    assert outcome.sentences() == []
    assert outcome.kills == 12
