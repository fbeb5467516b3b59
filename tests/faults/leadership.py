"""Campaigns about who leads: a leader that is frozen and thaws, a Lease that somebody deletes."""

from __future__ import annotations

import asyncio
import random
import time

from tests.faults import campaigns, kinds
from tests.faults.campaigns import Begin, Say, quiet
from tests.faults.faults import busy_once
from tests.faults.kinds import Kind
from tests.faults.outcome import Outcome
from tests.faults.replica import Replica
from tests.faults.sites import Door, Site
from tests.faults.stage import Stage

TAKEOVER = 10.0
"""Seconds from the leader's SIGSTOP until the other replica holds the Lease, where seconds are judged."""
LOOKS = 8
"""Readings of the Lease until then: one every 1.5 s, for the 8 s of the Lease from the first that shows its last
renewal, and one the moment they are over."""
_LOOK = Site(Door.API, "GET", "leases")
LEASE_LOST = 70


async def all_of_them(begin: Begin, seed: int, say: Say = quiet, times: int = 5) -> list[Outcome]:
    """Each on a stage of its own; the freeze at several moments."""
    found = []
    for number in range(times):
        async with begin() as on:
            found.append(await frozen_leader(on, seed + number))
            say(f"leader frozen {number + 1} of {times}: {found[-1].details}")
    async with begin() as on:
        found.append(await deleted_lease(on, seed))
        say(f"Lease deleted: {found[-1].details}")
    return found


async def frozen_leader(on: Stage, seed: int) -> Outcome:
    """SIGSTOP under load, takeover, SIGCONT: the old leader sends nothing that changes anything any more."""
    chance = random.Random(seed)
    async with on.replica(busy_once(), "operator-0") as one, on.replica(busy_once(), "operator-1") as two:
        await on.until(lambda: leads(on, one) or leads(on, two), "one of them leads")
        old, new = (one, two) if leads(on, one) else (two, one)
        loading = asyncio.create_task(campaigns.load(on, kinds.names(seed, 40), 20))
        share = chance.randrange(10, 35)
        await on.until(lambda: len(on.people.submitted) >= share, "the load has begun")
        at_work = len(on.unfinished())
        old.freeze()
        frozen, looked = time.monotonic(), new.journal.sites[_LOOK]
        await on.until(lambda: leads(on, new), "the other replica leads")
        looks = new.journal.sites[_LOOK] - looked
        taken = holder_since(on, new) - frozen
        await campaigns.load(on, [f"{kind}-8{seed % 1000:03}" for kind in Kind])
        await loading
        await on.converge()
        thawed = time.monotonic()
        ended = len(old.ended)
        old.thaw()
        await on.until(lambda: len(old.ended) > ended, "the old leader ends itself")
        # Its next process is another one, which only waits for the Lease.
        written = [write for write in old.journal.writes if write.at > thawed]
        outcome = await campaigns.finish(on, "leadership", seed, new, since=thawed)
        outcome.details = {
            "takeoverSeconds": round(taken, 2),
            "takeoverReadings": looks,
            "writesAfterThaw": len(written),
            "atWork": at_work,
        }
        if not at_work or not any(write.at < frozen and write.status == 200 for write in old.journal.writes):
            outcome.broken.append("the old leader was frozen while it had nothing to do")
        outcome.broken += [f"after SIGCONT the old leader sent {write.site} {write.name}" for write in written]
        if taken > TAKEOVER:
            outcome.late.append(f"the takeover took {taken:.1f} s")
        if not 0 < looks <= LOOKS:
            outcome.broken.append(f"the other replica read the Lease {looks} times before it took it")
        if old.ended[ended].code != LEASE_LOST:
            outcome.broken.append(f"the old leader ended with code {old.ended[ended].code}, not {LEASE_LOST}")
        return outcome


async def deleted_lease(on: Stage, seed: int) -> Outcome:
    """Somebody deletes the Lease under a living leader: work goes on, and no write is taken for a former leader's."""
    async with on.replica(busy_once(), "operator-0") as one, on.replica(busy_once(), "operator-1"):
        loading = asyncio.create_task(campaigns.load(on, kinds.names(seed, 40), 20))
        await on.until(lambda: len(on.people.submitted) >= 20, "the load has begun")
        (lease,) = on.record.now["leases"].values()
        await on.api.delete("leases", lease.name, uid=lease.uid)
        deleted = time.monotonic()
        await loading
        outcome = await campaigns.finish(on, "leadership", seed, one, since=deleted)
        outcome.details = {"leaseDeleted": True, "ended": [end.code for each in on.replicas for end in each.ended]}
        return outcome


def holder(on: Stage) -> str:
    """Identity in the Lease as the store has it: the replica's and a part that differs for each process."""
    for version in on.record.now["leases"].values():
        return str(version.raw["spec"].get("holderIdentity") or "")
    return ""


def leads(on: Stage, replica: Replica) -> bool:
    """The Lease is that replica's."""
    return holder(on).rpartition("_")[0] == replica.identity


def holder_since(on: Stage, replica: Replica) -> float:
    """When its present leadership was heard of first (monotonic seconds)."""
    since = 0.0
    for version in reversed(on.record.versions["leases"]):
        if str(version.raw["spec"].get("holderIdentity") or "").rpartition("_")[0] != replica.identity:
            break
        since = version.at
    return since
