"""Campaigns about the tenant's namespace: it is flooded with tasks, and deleted in the middle of its work."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator

from controllers.pendingtask import job
from crds.phases import HOLDS_SLOT
from tests.faults import campaigns, invariants, kinds, transitions
from tests.faults.campaigns import LOAD_SECONDS, Say, quiet
from tests.faults.faults import Fault, busy_once
from tests.faults.kinds import Kind
from tests.faults.outcome import BOUND, Outcome
from tests.faults.record import Version
from tests.faults.stage import Stage

AT_ONCE = 15
"""Unfinished tasks of the release's namespace at a time."""
STALL = 15.0
"""Seconds without any end in the release's namespace while it has work: as long as the longest run of a tenant. Where
seconds are judged."""
_STEADY = (Kind.INFO, Kind.CHAT, Kind.BACK)


async def deleted_namespace(
    on: Stage, seed: int, tasks: int, *, unreported: bool = False, tidy: bool = True, say: Say = quiet
) -> Outcome:
    """The tenant's namespace goes with waiting tasks and tasks at work; the other one's go on as before.

    `tasks` come before the deletion, a third of them a flood of one client of the tenant, and as many of the release's
    namespace follow while the tenant's goes. `unreported`: no watch tells of anything that is deleted there.
    `tidy`: see `campaigns.finish`.
    """
    async with on.replica(busy_once()) as replica:
        flood = _names(Kind.BACK, 5000, tenant=True, count=tasks // 3)
        long = _names(Kind.LONG, 4000, tenant=True, count=3)
        mixed = [name for name in kinds.names(seed, tasks) if kinds.kind(name) is not Kind.LONG]
        await campaigns.load(on, long)
        await on.until(lambda: _running(on) >= set(long), "runs of the tenant are at work", LOAD_SECONDS)
        await campaigns.load(on, [*mixed[: tasks - len(flood)], *flood])
        steady = [name for each in zip(*(_steady(kind, tasks) for kind in _STEADY), strict=True) for name in each][
            :tasks
        ]
        feeding = asyncio.create_task(_feed(on, steady))
        waiting = [version.uid for version in _tenants(on)]
        assert replica.api is not None
        replica.api.deaf_to = on.outer.namespace if unreported else ""
        deleted = time.monotonic()
        await on.delete_tenant()
        replica.api.deaf_to = ""
        gone = time.monotonic()
        say(f"the namespace is gone with {len(on.withdrawn)} of {len(waiting)} tasks; {len(on.runs())} Jobs are there")
        await feeding
        fed = time.monotonic()
        await on.converge()
        removing = await on.until(lambda: not _left(on), lambda: f"runs of the tenant are removed: {_left(on)}")
        outcome = await campaigns.finish(on, "namespace", seed, replica, since=gone, tidy=tidy)
        moments = invariants.ends(on.record.versions["pendingtasks"], on.api.namespace)
        marks = [deleted, *(one for one in moments if deleted <= one <= fed), fed]
        outcome.details |= {
            "tasksDeleted": len(on.withdrawn),
            "forgedRuns": on.tenant.forged,
            "endedMeanwhile": len(marks) - 2,
            "longestSecondsWithoutAnEnd": round(max(b - a for a, b in itertools.pairwise(marks)), 1),
        }
        outcome.late += invariants.stalled(moments, deleted, fed, STALL)
        if removing > BOUND:
            outcome.late.append(f"the last of the tenant's runs was removed only after {removing:.0f} s")
        if len(marks) == 2:
            outcome.broken.append("nothing of the release's namespace ended while the tenant's went")
        outcome.broken += [f"the operator ended: {one}" for one in replica.ended]
        if not set(waiting) & set(on.withdrawn) or not on.tenant.forged:
            outcome.broken.append("the namespace had no work, or its tenant forged nothing")
        if unreported and not replica.journal.faults[Fault.UNREPORTED]:
            outcome.broken.append("every deletion was reported")
        return outcome


async def _feed(on: Stage, names: list[str]) -> None:
    """The release's namespace has some work at any time, whatever the other one has."""

    def unfinished() -> int:
        there = {one.name for one in on.record.now["pendingtasks"].values() if one.namespace == on.api.namespace}
        return len(there & on.unfinished().keys())

    for name in names:
        await on.until(lambda: unfinished() < AT_ONCE, "work of the release's namespace goes on", LOAD_SECONDS)
        await on.people.submit(name)


def _names(kind: Kind, first: int, *, tenant: bool, count: int) -> list[str]:
    every: Iterator[str] = (f"{kind}-{number:04}" for number in itertools.count(first))
    return list(itertools.islice((name for name in every if kinds.of_tenant(name) is tenant), count))


def _steady(kind: Kind, tasks: int) -> list[str]:
    return _names(kind, 7000, tenant=False, count=tasks // len(_STEADY) + 1)


def _left(on: Stage) -> list[str]:
    """Jobs and pods of the release's namespace that belong to tasks of the deleted one."""
    runs = [*on.runs("jobs"), *on.runs("pods")]
    return [one.name for one in runs if one.raw["metadata"]["labels"][job.UID_LABEL] in on.withdrawn]


def _tenants(on: Stage) -> list[Version]:
    return [one for one in on.record.now["pendingtasks"].values() if one.namespace == on.outer.namespace]


def _running(on: Stage) -> set[str]:
    return {one.name for one in _tenants(on) if transitions.phase(one.raw.get("status") or {}) in HOLDS_SLOT}
