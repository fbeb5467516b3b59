"""kill -9 at every call site: a calm run lists them, further ones are noticed on the way, and each is met once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from crds.phases import HOLDS_SLOT
from tests.faults import kinds, transitions
from tests.faults.campaigns import LOAD_SECONDS, Begin, Say, deaths, finish, load, quiet
from tests.faults.faults import busy_once, first
from tests.faults.kills import Executioner, Target
from tests.faults.kinds import Kind
from tests.faults.outcome import Outcome
from tests.faults.replica import Replica
from tests.faults.sites import RELEASE, Moment, Site
from tests.faults.stage import SLOTS, Stage

AT_ONCE = 20
"""Unfinished tasks that the users keep around."""
STUCK_SECONDS, NEXT_SECONDS = 60.0, 20.0
"""For a stage's first kill, without which no other stage follows; for its next ones, and where only what chance brought
on the way is left."""


async def survey(on: Stage, seed: int) -> frozenset[Site]:
    """Every call site that a calm run comes by: all kinds of tasks, a full house, an edit, and an orderly end."""
    async with on.replica(busy_once()) as replica:
        full = _long(9000, SLOTS)
        await load(on, full)
        await on.until(lambda: _holders(on) >= set(full), "every slot is taken", LOAD_SECONDS)
        await load(on, kinds.names(seed, 3 * len(Kind)))
        await on.fidget()
        # Nothing is broken here, so nothing has a bound.
        await on.converge(LOAD_SECONDS)
        await on.until(lambda: not on.left(), lambda: f"everything is archived and deleted: {on.left()}", LOAD_SECONDS)
        ended = len(replica.ended)
        replica.stop()
        await on.until(lambda: len(replica.ended) > ended, "the operator ends as it is asked to")
        return frozenset(replica.journal.sites)


async def at_every_site(
    begin: Begin,
    seed: int,
    wanted: Collection[Target],
    say: Say = quiet,
    also: Collection[Moment] = (),
    certain: Collection[Site] = (),
) -> list[Outcome]:
    """One kill -9 at each target; on a new stage for as long as each brings some (a Lease is created once on each).

    `also`: where sites are met that no calm run came by, as after a crash, at these moments of them too. Those are
    reached as chance has it: what is not is in `details`, and breaks nothing. So it is with a target that a second
    calm run does not come by either, unless its site is one of `certain`.
    """
    executioner = Executioner(wanted, also)
    found: list[Outcome] = []
    while executioner.pending:
        before = len(executioner.done)
        async with begin() as on:
            found.append(await _at_pending_sites(on, seed, executioner, say))
        if len(executioner.done) == before:
            break
    rare = [str(target) for target in executioner.pending if target in executioner.noticed]
    owed, again = executioner.owed, frozenset(certain)
    if owed:
        async with begin() as on:
            again |= await survey(on, seed)
    found[-1].broken += [f"never reached: {target}" for target in owed if target.site in again]
    sites = {target.site for target in (*wanted, *executioner.noticed)}
    found[-1].details |= {
        "sites": len(sites),
        "targets": len(wanted),
        "targetsNoticedOnTheWay": len(executioner.noticed),
        "ofTheseNotReached": rare,
        "metOnceAndNotReached": [str(target) for target in owed if target.site not in again],
    }
    return found


async def _at_pending_sites(on: Stage, seed: int, executioner: Executioner, say: Say) -> Outcome:
    executioner.begin(lambda: sum(one.starts for one in on.replicas))
    before = killed = len(executioner.done)
    # Its first processes die on their way up, at one site after the other.
    async with on.replica(first(executioner, busy_once()), patience=600.0) as replica:
        feeding = asyncio.create_task(_feed(on, seed))
        heard = time.monotonic()
        while executioner.pending:
            first_owed = killed == before and executioner.owed
            if time.monotonic() > heard + (STUCK_SECONDS if first_owed else NEXT_SECONDS):
                break
            on.check()
            if feeding.done():
                feeding.result()
            if len(executioner.done) > killed:
                killed, heard = len(executioner.done), time.monotonic()
                say(f"{killed} killed, {len(executioner.pending)} to go: {executioner.done[-1]}")
            # What chance may never bring again is not waited for.
            if executioner.owed and all(target.site.intent == RELEASE for target in executioner.owed):
                await _stop(replica)
            await asyncio.sleep(0.01)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        executioner.begin(None)
        # Tasks were fed in until now, also while no kill came.
        outcome = await finish(on, "sites", seed, replica, since=time.monotonic())
    meant = len(executioner.done) - before
    if not outcome.kills == deaths(on) == meant:
        outcome.broken.append(f"{meant} kills were meant, {outcome.kills} done, {deaths(on)} processes died")
    return outcome


async def _stop(replica: Replica) -> None:
    """An orderly end: only such a one gives the Lease back."""
    answer = await replica.get("/readyz")
    if answer is not None and answer.status_code == 200:
        replica.stop()


async def _feed(on: Stage, seed: int) -> None:
    """All kinds, again and again, behind runs that hold slots until users need them."""
    number = seed % 10 * 1000
    while True:
        for name in [*_long(number, SLOTS - 2), *(f"{one}-{number:04}" for one in Kind if one is not Kind.LONG)]:
            await on.people.submit(name)
        await on.fidget()
        number += 1
        await on.until(lambda: len(on.unfinished()) < AT_ONCE, "work goes on", 10**6)


def _long(number: int, count: int) -> list[str]:
    return [f"{Kind.LONG}-{number:04}-{serial}" for serial in range(count)]


def _holders(on: Stage) -> set[str]:
    now = on.record.now["pendingtasks"].values()
    return {one.name for one in now if transitions.phase(one.raw.get("status") or {}) in HOLDS_SLOT}
