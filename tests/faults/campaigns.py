"""The campaigns: each takes a stage, breaks something while a load runs, lets it converge and judges the record."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager

from crds.phases import Phase
from hack.cluster import standalone
from tests.faults import kinds, policies
from tests.faults.faults import Every, Fault, Hold, LastWords, Mix, busy_once, first
from tests.faults.kills import Countdown, Executioner, Target
from tests.faults.kinds import Kind
from tests.faults.outcome import BOUND, Outcome
from tests.faults.replica import Replica
from tests.faults.sites import Site
from tests.faults.stage import Stage

Say = Callable[[str], None]
AT_ONCE = 60
"""Unfinished tasks that a load keeps around."""
REQUESTS_PER_TASK = 12
STUCK_SECONDS = 20.0
LOAD_SECONDS = 300.0
Begin = Callable[[], AbstractAsyncContextManager[Stage]]
"""Makes a new stage."""
WIRE = (
    Fault.CONFLICT,
    Fault.THROTTLED,
    Fault.BUSY,
    Fault.LOST_ANSWER,
    Fault.REFUSED,
    Fault.RESET_BEFORE,
    Fault.RESET_AFTER,
    Fault.LATENCY,
    Fault.GONE,
)


def quiet(_: str) -> None:
    """Say nothing."""


async def survey(on: Stage, seed: int) -> frozenset[Site]:
    """Every call site that a calm run over all kinds of tasks comes by."""
    async with on.replica(busy_once()) as replica:
        await load(on, kinds.names(seed, 3 * len(Kind)))
        await on.converge()
        await on.until(lambda: not on.record.now["pendingtasks"], "the finished tasks are archived and deleted")
        return frozenset(replica.journal.sites)


async def at_every_site(begin: Begin, seed: int, wanted: Collection[Target], say: Say = quiet) -> list[Outcome]:
    """One kill -9 at each target; on a new stage for as long as each brings some (a Lease is created once on each)."""
    executioner = Executioner(wanted)
    found: list[Outcome] = []
    while executioner.pending:
        before = len(executioner.done)
        async with begin() as on:
            found.append(await _at_pending_sites(on, seed, executioner, say))
        if len(executioner.done) == before:
            break
    found[-1].broken += [f"never reached: {target}" for target in executioner.pending]
    found[-1].details["targets"] = len(wanted)
    return found


async def _at_pending_sites(on: Stage, seed: int, executioner: Executioner, say: Say) -> Outcome:
    executioner.begin(lambda: sum(one.starts for one in on.replicas))
    before = killed = len(executioner.done)
    # Its first processes die on their way up, at one site after the other.
    async with on.replica(first(executioner, busy_once()), patience=600.0) as replica:
        feeding = asyncio.create_task(_feed(on, seed, 20))
        heard = time.monotonic()
        while executioner.pending and time.monotonic() < heard + STUCK_SECONDS:
            on.check()
            if len(executioner.done) > killed:
                killed, heard = len(executioner.done), time.monotonic()
                say(f"{killed} killed, {len(executioner.pending)} to go: {executioner.done[-1]}")
            await asyncio.sleep(0.01)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        executioner.begin(None)
        # Tasks were fed in until now, also while no kill came.
        outcome = await finish(on, "sites", seed, replica, since=time.monotonic())
    if outcome.kills != len(executioner.done) - before:
        outcome.broken.append(f"{len(executioner.done) - before} kills were meant and {outcome.kills} done")
    return outcome


async def at_random(on: Stage, seed: int, tasks: int, kills: int, say: Say = quiet) -> Outcome:
    """kill -9 at random moments of random requests while a mixed load runs."""
    # A third of the longest interval on average: so the kills spread over the whole load.
    countdown = Countdown(seed, longest=max(20, 3 * REQUESTS_PER_TASK * tasks // kills))
    async with on.replica(first(countdown, busy_once())) as replica:
        loading = asyncio.create_task(load(on, kinds.names(seed, tasks), AT_ONCE))
        for number in range(kills):
            starts = replica.starts
            countdown.arm()
            await on.until(lambda at=starts: replica.starts > at, f"kill {number} happens")  # type: ignore[misc]  # mypy infers no type for the default
            say(f"kill {number + 1} of {kills}: {len(on.people.submitted)} tasks, {len(on.unfinished())} unfinished")
            if loading.done() and not on.unfinished():
                # The load was too small for so many kills: it goes on.
                loading = asyncio.create_task(load(on, _more(on, seed + number), AT_ONCE))
        await loading
        return await finish(on, "kills", seed, replica)


async def mixed(on: Stage, seed: int, tasks: int, rate: float, say: Say = quiet) -> Outcome:
    """Random faults at all three doors while a mixed load runs."""
    mix = Mix(seed, rate)
    async with on.replica(first(mix, busy_once())) as replica:
        await load(on, kinds.names(seed, tasks), AT_ONCE, say)
        mix.on = False
        return await finish(on, "mix", seed, replica)


async def one_by_one(
    on: Stage, seed: int, faults: Iterable[Fault], say: Say = quiet, load_of: Iterable[Kind] = Kind
) -> list[Outcome]:
    """Each fault in turn: it happens once to each object at each site where it can happen.

    With all kinds more dispatches fail in a row than the circuit breaker allows: it opens for half a minute at a time.
    """
    found = []
    async with on.replica(busy_once()) as replica:
        for number, fault in enumerate(faults):
            every = Every(fault)
            replica.decide = first(every, busy_once())
            before = replica.journal.faults[fault]
            await load(on, [f"{one}-{number:02}{seed % 100:02}" for one in load_of])
            outcome = await finish(on, "faults", seed, replica)
            outcome.details["fault"], every.on = fault.value, False
            if replica.journal.faults[fault] == before:
                outcome.broken.append(f"{fault} never happened")
            say(f"{fault}: {replica.journal.faults[fault] - before} times, {outcome.seconds:.0f} s to converge")
            found.append(outcome)
    return found


async def every_fault(
    begin: Begin, seed: int, faults: Iterable[Fault], at_once: int, keep: Callable[[Outcome], None], say: Say = quiet
) -> list[Outcome]:
    """`one_by_one`, each fault on a stage of its own, `at_once` of them at the same time; `keep` gets each outcome."""
    free = asyncio.Semaphore(at_once)

    async def one(fault: Fault) -> list[Outcome]:
        async with free:
            say(f"{fault}: begins")
            try:
                async with begin() as on:
                    found = await one_by_one(on, seed, [fault], say)
            except AssertionError as error:
                # The other faults are tried all the same.
                found = [Outcome("faults", seed, 0, 0.0, [str(error)], details={"fault": fault.value})]
            for outcome in found:
                keep(outcome)
            return found

    return [outcome for each in await asyncio.gather(*map(one, faults)) for outcome in each]


async def silent_watches(on: Stage, seed: int) -> Outcome:
    """Every watch goes silent and stays open; later every watch works again. What happened meanwhile is not lost."""
    async with on.replica(busy_once()) as replica:
        await load(on, kinds.names(seed, len(Kind)))
        await on.converge()
        silent = Every(Fault.SILENT, times=10**6, seconds=0.0)
        replica.decide = silent
        before = replica.journal.faults[Fault.SILENT]
        if not on.partners.watch_seconds:
            # Watches as long as they are shipped: those of the next process are silent from their beginning.
            replica.kill()
        await on.until(lambda: replica.journal.faults[Fault.SILENT] >= before + 5, "all five watches are silent")
        await load(on, [f"{one}-9{seed % 1000:03}" for one in Kind])
        silent.on = False
        # The fault is over when the last watch has been silent for that long.
        over = replica.journal.last_fault + on.partners.silent_seconds
        outcome = await finish(on, "silence", seed, replica, since=over)
        outcome.details["silentSeconds"] = on.partners.silent_seconds
        return outcome


async def last_words(on: Stage, seed: int, load_of: Iterable[Kind] = Kind) -> Outcome:
    """A user's message arrives between the end of a run and the write that says so: it runs again, having read it."""
    words = LastWords({Phase.COMPLETED.value, Phase.USER_TASK.value})
    async with on.replica(first(words, busy_once())) as replica:
        await load(on, [f"{one}-7{seed % 1000:03}" for one in load_of])
        outcome = await finish(on, "last-words", seed, replica)
    runs = Counter(run.uid for run in on.nodes.ran)
    uids = {version.name: version.uid for version in on.record.versions["pendingtasks"]}
    outcome.details["interrupted"] = len(words.said)
    deaf = [name for name in words.said if runs[uids[name]] < 2]
    outcome.broken += [f"{name} ran once although its user had more to say" for name in deaf]
    if not words.said:
        outcome.broken.append("nobody said anything")
    return outcome


async def late_job(on: Stage, seed: int, *, guarded: bool = True) -> Outcome:
    """The network holds the creation of a Job while its sender dies, its successor creates the same Job, and that Job
    ends and is removed. Then the first request arrives."""
    name = f"{Kind.CHAT}-6{seed % 1000:03}"
    hold = Hold("POST", "jobs", name)
    async with on.replica(first(hold, busy_once()), FINISHED_TTL_SECONDS=3600, JOB_TTL_SECONDS=1) as replica:
        if guarded:
            await policies.enforce(on)
        await load(on, [name])
        await on.until(lambda: hold.done, "the Job's creation is on its way")
        replica.kill()
        await on.converge()
        await on.until(lambda: not on.record.now["jobs"], "the Job of the run is removed")
        assert replica.api is not None
        api = replica.api
        api.let_go.set()
        await on.until(lambda: bool(api.arrived), "the first request arrives")
        since = time.monotonic()
        outcome = await finish(on, "late-job", seed, replica, since=since)
        ((_, status),) = api.arrived
        outcome.details = {"guarded": guarded, "status": status}
        if not guarded:
            await on.until(lambda: not on.record.now["jobs"], "a Job that came too late is removed")
        return outcome


async def restarts(on: Stage, seed: int, part: standalone.Part, times: int, tasks: int, say: Say = quiet) -> Outcome:
    """kill -9 of kube-apiserver or etcd under load; it comes back on its data."""
    name = part.daemon.name
    last = time.monotonic()
    async with on.replica(busy_once()) as replica:
        loading = asyncio.create_task(load(on, kinds.names(seed, tasks), AT_ONCE))
        for number in range(times):
            share = (number + 1) * tasks // (times + 1)
            await on.until(lambda at=share: len(on.people.submitted) >= at, "the load goes on")  # type: ignore[misc]  # mypy infers no type for the default
            part.kill()
            await asyncio.sleep(0.5)
            part.start()
            while not await asyncio.to_thread(part.ready):  # noqa: ASYNC110  # another process says so, no event
                await asyncio.sleep(0.05)
            last = time.monotonic()
            say(f"{name} restarted {number + 1} of {times}")
        await loading
        outcome = await finish(on, f"restarts-{name}", seed, replica, since=last)
        outcome.faults[f"kill -9 of {name}"] = times
        outcome.details["operatorEnded"] = [f"{one.code} {one.why}".strip() for one in replica.ended]
        return outcome


async def load(on: Stage, names: Iterable[str], at_once: int = 10**6, say: Say = quiet) -> None:
    """Submit them in order, no more than `at_once` unfinished at a time."""
    for number, name in enumerate(names):
        await on.until(lambda: len(on.unfinished()) < at_once, lambda: f"work goes on: {on.unfinished()}", LOAD_SECONDS)
        await on.people.submit(name)
        if number % 100 == 99:
            say(f"{number + 1} tasks submitted")


def _more(on: Stage, seed: int) -> list[str]:
    base = len(on.people.submitted)
    return [f"{name.split('-')[0]}-{base + number:04}" for number, name in enumerate(kinds.names(seed, 50))]


async def _feed(on: Stage, seed: int, at_once: int) -> None:
    """All kinds, again and again."""
    number = seed % 10 * 1000
    while True:
        for one in Kind:
            await on.people.submit(f"{one}-{number:04}")
        number += 1
        await on.until(lambda: len(on.unfinished()) < at_once, "work goes on", 10**6)


async def finish(on: Stage, campaign: str, seed: int, replica: Replica, since: float = 0.0) -> Outcome:
    """Converge and judge."""
    stuck: list[str] = []
    while not stuck:
        before = replica.journal.last_fault
        try:
            await on.converge(2 * BOUND)
            break
        except AssertionError as error:
            # While faults still happen nobody has to be done: with the circuit open one task tries in half a minute.
            if replica.journal.last_fault == before:
                stuck.append(str(error))
    seconds = max(0.0, time.monotonic() - max(replica.journal.last_fault, since))
    broken = [*stuck, *await on.judge()]
    last = on.record.story_of_the_last()
    outcome = Outcome(campaign, seed, len(on.people.submitted), seconds, broken, starts=replica.starts, last=last)
    return outcome.count(one.journal for one in on.replicas)
