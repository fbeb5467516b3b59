"""The campaigns: each takes a stage, breaks something while a load runs, lets it converge and judges the record."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from crds.phases import Phase
from hack.cluster import standalone
from tests import waiting
from tests.faults import kinds, policies, stories
from tests.faults.faults import Every, Fault, Hold, LastWords, Mix, busy_once, first
from tests.faults.kills import Countdown
from tests.faults.kinds import Kind
from tests.faults.outcome import Outcome
from tests.faults.replica import FAULT, Replica
from tests.faults.stage import PATIENCE, Stage

Say = Callable[[str], None]
AT_ONCE = 60
"""Unfinished tasks that a load keeps around."""
REQUESTS_PER_TASK = 12
WATCHES = 8
"""Three kinds in each of two namespaces, Jobs and pods in the release's."""
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


async def at_random(on: Stage, seed: int, tasks: int, kills: int, say: Say = quiet) -> Outcome:
    """kill -9 at random moments of random requests while a mixed load runs."""
    # A third of the longest interval on average: so the kills spread over the whole load.
    countdown = Countdown(seed, longest=max(20, 3 * REQUESTS_PER_TASK * tasks // kills))
    async with on.replica(first(countdown, busy_once())) as replica:
        loading = asyncio.create_task(load(on, kinds.names(seed, tasks), AT_ONCE))
        for number in range(kills):
            # Spread over the whole load, however quickly they follow each other.
            due = number * tasks // kills
            await on.until(lambda at=due: len(on.people.submitted) >= at, "the load goes on", LOAD_SECONDS)  # type: ignore[misc]  # mypy infers no type for the default
            countdown.arm()
            await on.until(lambda: not countdown.armed, f"kill {number} happens", LOAD_SECONDS)
            # What the dead one had under way may still come through the doors: the next kill is for the living.
            await on.until(lambda: replica.starts > len(replica.ended) >= deaths(on) > number, "it is started again")  # noqa: B023  # awaited in this turn
            say(f"kill {number + 1} of {kills}: {len(on.people.submitted)} tasks, {len(on.unfinished())} unfinished")
            if loading.done() and not on.unfinished():
                # The load was too small for so many kills: it goes on.
                loading = asyncio.create_task(load(on, _more(on, seed + number), AT_ONCE))
        await loading
        # What came after the last kill has its time from there.
        outcome = await finish(on, "kills", seed, replica, since=time.monotonic())
    if not outcome.kills == deaths(on) == kills or outcome.tasks < tasks:
        outcome.broken.append(
            f"{outcome.kills} of {kills} kills, {deaths(on)} deaths, {outcome.tasks} of {tasks} tasks"
        )
    return outcome


async def mixed(on: Stage, seed: int, tasks: int, rate: float, say: Say = quiet) -> Outcome:
    """Random faults at all three doors while a mixed load runs."""
    mix = Mix(seed, rate)
    async with on.replica(first(mix, busy_once())) as replica:
        # Most of them have ended when the last one comes: faults meet all of a task's life, not only its beginning.
        await load(on, kinds.names(seed, tasks), min(AT_ONCE, tasks // 5), say)
        mix.on = False
        # An average would be twice as many; a campaign with hardly any would prove nothing.
        wanted = round(rate * sum(replica.journal.sites.values()) / 2)
        outcome = await finish(on, "mix", seed, replica)
    if sum(replica.journal.faults.values()) < wanted or outcome.tasks < tasks:
        outcome.broken.append(f"fewer than {wanted} faults over {outcome.tasks} of {tasks} tasks")
    return outcome


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
            outcome.details |= {"fault": fault.value, "sites": len(every.sites)}
            every.on = False
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
        await on.until(lambda: replica.journal.faults[Fault.SILENT] >= before + WATCHES, "every watch is silent")
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
        await on.until(lambda: not on.runs(), "the Job of the run is removed")
        assert replica.api is not None
        api = replica.api
        api.let_go.set()
        await on.until(lambda: bool(api.arrived), "the first request arrives")
        if any(status == 201 for _, status in api.arrived):
            # The store's record comes later than the apiserver's answer: it is judged with the second Job in it.
            made = on.record.versions["jobs"]
            await on.until(lambda: len({one.uid for one in made}) > 1, "the record has the late Job")
        since = time.monotonic()
        outcome = await finish(on, "late-job", seed, replica, since=since, tidy=False)
        ((_, status),) = api.arrived
        outcome.details |= {"guarded": guarded, "status": status}
        if not guarded:
            await on.until(lambda: not on.runs(), "a Job that came too late is removed")
        return outcome


async def restarts(on: Stage, seed: int, part: standalone.Part, times: int, tasks: int, say: Say = quiet) -> Outcome:
    """kill -9 of kube-apiserver or etcd under load; it comes back on its data."""
    name = part.daemon.name
    async with on.replica(busy_once()) as replica:
        loading = asyncio.create_task(load(on, kinds.names(seed, tasks), AT_ONCE))
        for number in range(times):
            share = (number + 1) * tasks // (times + 1)
            await on.until(lambda at=share: len(on.people.submitted) >= at, "the load goes on", LOAD_SECONDS)  # type: ignore[misc]  # mypy infers no type for the default
            killed = part.daemon.identity()
            part.kill()
            await asyncio.sleep(0.5)
            part.start()
            assert killed is not None
            assert part.daemon.identity() != killed, f"{name} was not killed"
            await waiting.eventually(lambda: asyncio.to_thread(part.ready), f"{name} is ready")
            say(f"{name} restarted {number + 1} of {times}")
        await loading
        # What came after the last restart has its time from there.
        outcome = await finish(on, f"restarts-{name}", seed, replica, since=time.monotonic())
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


async def _left(on: Stage, replica: Replica) -> list[str]:
    """What is still there `PATIENCE` seconds after the last fault: the archive meets faults of its own."""
    start = time.monotonic()
    while left := on.left():
        on.check()
        if time.monotonic() > max(start, replica.journal.last_fault) + PATIENCE:
            return [f"not deleted in {PATIENCE:.0f} s after its end: {', '.join(left)}"]
        await asyncio.sleep(0.1)
    return []


def deaths(on: Stage) -> int:
    """How many processes have really died of a kill. One that was ending by itself may have been quicker."""
    met = [one for each in on.replicas for one in each.ended if one.why == FAULT]
    return sum(one.code == -signal.SIGKILL or (one.asked and one.code == 0) for one in met)


async def finish(
    on: Stage, campaign: str, seed: int, replica: Replica, since: float = 0.0, *, tidy: bool = True
) -> Outcome:
    """Converge and judge. `tidy`: afterwards everything that has ended is archived and deleted, with all it had."""
    stuck: list[str] = []
    while not stuck:
        before = replica.journal.last_fault
        try:
            await on.converge()
            break
        except AssertionError as error:
            # While faults still happen nobody has to be done: with the circuit open one task tries in half a minute.
            if replica.journal.last_fault == before:
                stuck.append(str(error))
    seconds = max(0.0, time.monotonic() - max(replica.journal.last_fault, since))
    left = await _left(on, replica) if tidy and not stuck else []
    broken = [*stuck, *left, *await on.judge()]
    last = stories.of_the_last(on.record)
    outcome = Outcome(campaign, seed, len(on.people.submitted), seconds, broken, starts=replica.starts, last=last)
    if told := stories.of_the_broken(on.record, broken):
        outcome.details["stories"] = told
    return outcome.count(one.journal for one in on.replicas)
