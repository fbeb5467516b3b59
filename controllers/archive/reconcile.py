"""The loop around `sweep.plan`: list, archive, mark, delete. On the leader alone.

A sweep lists the finished tasks (`listing`). The objects without the mark are then listed whole, page by page; a page
is archived in one write to MongoDB and marked in parallel, and the sweep decides about what it has read there. Finished
objects are in no watch; every sweep starts from what the API and MongoDB say, so a restart loses nothing.

A mark has the archived version as precondition, and a deletion has the version that the sweep listed, so that a change
in between wins. Before each batch of deletions the archive is asked whether it really holds them, and
at their present generation: with MongoDB away nothing is deleted, and a mark that lies (a forged label, a restored
backup, a spec edited since) is made true first. Every write asks the lease's fence.

Between its steps a sweep yields to live tasks, but no longer than it takes to be done before the next sweep
(`backpressure.Schedule`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import structlog

import kube
from clients.mongo import Unavailable
from controllers import backpressure, metrics, periodic
from controllers.archive import clock, finished, listing, mongo, record, retention, sweep
from controllers.archive.finished import Finished
from crds import errors, labels

log = structlog.get_logger(__name__)

AT_ONCE = 5000
"""Objects archived, and objects deleted, per sweep: then the finished ones are listed anew."""
LISTED_SHARE = 60
"""A pause after a page of a list is at most this part of the time between two sweeps."""
STEP = 20
"""Objects archived by one write to MongoDB, a page of them behind schedule; then live tasks are yielded to."""
PARALLEL, MOST_PARALLEL = 4, 64
"""Requests to the apiserver at the same time: on schedule, and after several steps behind it, each of which doubles
their number. Where live work makes the apiserver slow, the rate is what is under way divided by what each takes."""
CROWD = 500
"""Tasks that one sweep found to do; from there on the next one does not wait for a calm moment."""
LOOK_SECONDS = 1.0
"""Between two checks whether live tasks let a sweep go on."""
JOBS_AT_ONCE = 100
"""Tasks whose Jobs one request removes: their uids are part of its URL."""
MOST_REFUSALS = 3
"""Objects at a time that the apiserver leaves unmarked or undeleted, and none that it takes: it is taken to be away
until the next sweep. One that it refuses for good, by a policy, counts the first time only."""


@dataclass(frozen=True, slots=True)
class Pace:
    """`every` in seconds between the beginnings of two sweeps; half of it each has for archiving and for deleting.

    `deletes_per_second` is the rate of deletions that suffices as a rule; when more are due, they go faster.
    """

    every: float = 30.0
    deletes_per_second: float = 10.0

    def rate(self, due: int) -> float:
        """Deletions a second when `due` tasks are due."""
        return max(self.deletes_per_second, due / (self.every / 2))


class Archivist:
    """`ran(uid)`: a Job of that task exists. `busy`: tasks wait to be processed; they come first. `throttle` is the
    backpressure: tasks that are being processed come first, too. `runs`: the namespace of their Jobs, the release's.
    `sleep`: asyncio's."""

    def __init__(
        self,
        api: kube.Kube,
        archive: mongo.Archive,
        *,
        namespaces: Collection[str],
        runs: str,
        terms: sweep.Terms,
        pace: Pace,
        kept: retention.Retention,
        ran: Callable[[str], bool],
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
        throttle: backpressure.Backpressure,
        busy: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._archive, self._runs = api, archive, runs
        self._terms, self._pace, self._kept, self._ran, self._metrics = terms, pace, kept, ran, measured
        self._throttle, self._busy, self._monotonic, self._sleep = throttle, busy, monotonic, sleep
        self._listing = listing.Listing(api, namespaces, throttle, pace.every / LISTED_SHARE)
        self._clock = clock.Clock(wall, api.server.now, skew=measured.clock_skew.set)
        self._prepared = False
        self._rejected: dict[str, str] = {}
        self._refused: set[str] = set()
        self._row = 0
        self._due = 0
        """Tasks that the last sweep found to archive or delete."""

    async def reconcile_once(self) -> periodic.RequeueAfter:
        """Sweep once no task waits; the next sweep is due `every` seconds after the begin of this one, or at once."""
        await self._calm()
        begun = self._monotonic()
        try:
            again = await self.sweep_once()
        except Unavailable as error:
            self._metrics.archive_up.set(0)
            log.warning("nothing is archived or deleted", reason=error.message)
            raise
        self._metrics.archive_up.set(1)
        return periodic.RequeueAfter(0.0 if again else max(0.0, self._pace.every - (self._monotonic() - begun)))

    async def _calm(self) -> None:
        """Return once no task waits, or after another `every`; the sooner the more the last sweep found to do."""
        patience = self._pace.every * max(0.0, 1 - self._due / CROWD)
        for _ in range(int(patience / LOOK_SECONDS)):
            if not self._busy():
                return
            await self._sleep(LOOK_SECONDS)

    async def sweep_once(self) -> bool:
        """One sweep over everything; True when its bounds left something and something was done."""
        listed = await self._listing.all()
        tasks = listed.tasks
        self._rejected = {uid: version for uid, version in self._rejected.items() if uid in tasks}
        self._refused &= listed.uids
        now = self._clock.agreed()
        self._measure(listed)
        if now is not None:
            await self._clear_jobs(sweep.jobs(tasks.values(), self._terms, now))
        waiting = listed.left + sum(not task.archived and not self._is_rejected(task) for task in tasks.values())
        try:
            if not self._prepared:
                await self._archive.prepare()
                self._prepared = True
            archived = await self._archive_all(listed, waiting, now)
        except Unavailable:
            # Their Jobs go without an archive, at the next sweep.
            await self._listing.read(listed)
            raise
        planned = sweep.Plan() if now is None else sweep.plan(list(tasks.values()), self._terms, now, AT_ONCE)
        # Before the tasks: a Job without its task would be left to the sweeps of `orphans`, fifty in half a minute.
        await self._clear_jobs(one.task for one in planned.delete)
        removed = await self._remove(tasks, planned.delete)
        if now is not None:
            await self._kept.sweep(listed.complete, listed.uids, now)
        self._due = waiting + planned.due
        self._measure(listed)
        return (archived < waiting and archived >= AT_ONCE) or (planned.due > AT_ONCE and removed > 0)

    # -- archiving -------------------------------------------------------------------------------------------------

    async def _archive_all(self, listed: listing.Listed, waiting: int, now: datetime | None) -> int:
        """Archive what has no mark, and read it into `listed`; how many. Raises `Unavailable`."""
        done, width = 0, PARALLEL
        if not waiting:
            return done
        schedule = backpressure.Schedule(waiting, self._pace.every / 2, monotonic=self._monotonic)
        async with aclosing(self._listing.unmarked()) as pages:
            async for raws in pages:
                listed.put(raws)
                left = raws
                while left:
                    begun = self._throttle.begin()
                    step = STEP if width == PARALLEL else listing.PAGE
                    some, left = left[:step], left[step:]
                    stored = await self._store(some)
                    done += len(stored)
                    if not await self._each(stored, partial(self._mark, listed.tasks, now), width):
                        return done
                    spare = schedule.spare(done)
                    width = PARALLEL if spare else min(MOST_PARALLEL, 2 * width)
                    await self._throttle.after(begun, spare)
                if done >= AT_ONCE:
                    break
        return done

    async def _store(self, raws: Sequence[kube.Object]) -> list[Finished]:
        """Write the objects into the archive; those that it has acknowledged. Raises `Unavailable`."""
        read = {task.uid: (task, raw) for raw in raws if (task := finished.of(raw)) is not None}
        able = {uid: pair for uid, pair in read.items() if not self._is_rejected(pair[0])}
        refused = await self._archive.store(self._documents(able))
        for uid, error in refused.items():
            self._reject(able[uid][0], error)
        self._metrics.archived.inc(len(able) - len(refused))
        return [task for uid, (task, _) in able.items() if uid not in refused]

    async def _documents(self, able: Mapping[str, tuple[Finished, kube.Object]]) -> AsyncGenerator[dict[str, object]]:
        """Each with its result, one result in memory at a time."""
        left, now = dict(able), self._clock.earlier()
        async with aclosing(self._archive.results(able)) as results:
            async for result in results:
                yield record.of(*left.pop(result["_id"]), result, now)
        for task, raw in left.values():
            yield record.of(task, raw, None, now)

    async def _mark(self, tasks: dict[str, Finished], now: datetime | None, task: Finished) -> None:
        """Mark the version that was archived. One that goes in this sweep in any case needs no mark."""
        if now is not None and task.uid not in self._refused and sweep.over(task, self._terms, now):
            tasks[task.uid] = replace(task, archived=True)
            return
        mark = {"resourceVersion": task.version, "labels": {finished.ARCHIVED_LABEL: finished.ARCHIVED}}
        try:
            raw = await self._api.merge(kube.TASKS, task.namespace, task.name, {"metadata": mark})
        except kube.NotFound:
            tasks.pop(task.uid, None)
        except kube.Conflict:
            self._metrics.conflicts.inc()
        except kube.Refused as error:
            self._reject(task, error)
        else:
            marked = finished.of(raw)
            if marked is not None:
                tasks[task.uid] = marked

    async def _archive_again(self, tasks: dict[str, Finished], task: Finished) -> None:
        """The archive does not hold the object as it is now, whatever its mark says."""
        try:
            raw = await self._api.get(kube.TASKS, task.namespace, task.name)
        except kube.NotFound:
            tasks.pop(task.uid, None)
            return
        if raw["metadata"]["uid"] == task.uid:
            for stored in await self._store([raw]):
                tasks[task.uid] = replace(stored, archived=True)

    # -- deleting --------------------------------------------------------------------------------------------------

    async def _clear_jobs(self, tasks: Iterable[Finished]) -> None:
        """Remove the Jobs of finished tasks, and with them the pods; many per request."""
        uids = sorted(task.uid for task in tasks if self._ran(task.uid))
        for start in range(0, len(uids), JOBS_AT_ONCE):
            some = uids[start : start + JOBS_AT_ONCE]
            await self._api.delete_all(kube.JOBS, self._runs, f"{labels.TASK_UID} in ({','.join(some)})")
            log.info("jobs of finished tasks removed", tasks=len(some))

    async def _remove(self, tasks: dict[str, Finished], removals: Sequence[sweep.Removal]) -> int:
        """Delete at the rate that the number asks for; how many. Raises `Unavailable`."""
        rate, before = self._pace.rate(len(removals)), len(tasks)
        schedule = backpressure.Schedule(len(removals), len(removals) / rate, monotonic=self._monotonic)
        batch, width = max(1, min(listing.PAGE, round(rate))), PARALLEL
        # Those that were refused before come last.
        removals = sorted(removals, key=lambda one: one.task.uid in self._refused)
        for start in range(0, len(removals), batch):
            some = {one.task.uid: one for one in removals[start : start + batch]}
            held = await self._archive.confirmed(some)
            for uid in [uid for uid, one in some.items() if not _holds(held, one.task)]:
                task = some.pop(uid).task
                log.warning("marked as archived, and the archive does not hold it as it is", **_about(task))
                await self._archive_again(tasks, task)
            due = [one.task for one in some.values()]
            if not await self._each(due, partial(self._delete, tasks, some, held), width):
                break
            spare = schedule.spare(start + batch)
            width = PARALLEL if spare else min(MOST_PARALLEL, 2 * width)
            await self._sleep(spare)
        return before - len(tasks)

    async def _delete(
        self,
        tasks: dict[str, Finished],
        due: Mapping[str, sweep.Removal],
        held: Mapping[str, mongo.Held],
        task: Finished,
    ) -> None:
        try:
            await self._api.delete(kube.TASKS, task.namespace, task.name, uid=task.uid, version=task.version)
        except kube.Conflict:
            self._metrics.conflicts.inc()
            return
        tasks.pop(task.uid, None)
        why = due[task.uid].why.value
        self._metrics.deleted.labels(why).inc()
        log.info("finished task deleted", **_about(task), correlation_id=held[task.uid].correlation, why=why)

    # -- both ------------------------------------------------------------------------------------------------------

    async def _each(self, tasks: Sequence[Finished], act: Callable[[Finished], Awaitable[None]], width: int) -> bool:
        """`act` on each, `width` at a time; False when the apiserver is taken to be away."""
        gate = asyncio.Semaphore(width)

        async def one(task: Finished) -> None:
            async with gate:
                await act(task)

        outcomes = await asyncio.gather(*map(one, tasks), return_exceptions=True)
        new = 0
        for task, error in zip(tasks, outcomes, strict=True):
            if isinstance(error, kube.Unavailable | kube.Refused):
                new += task.uid not in self._refused
                self._put_last(task, error)
            elif error is not None:
                raise error
        self._row = 0 if None in outcomes else self._row + new
        return self._row < MOST_REFUSALS

    def _put_last(self, task: Finished, error: errors.JervisError) -> None:
        if task.uid not in self._refused:
            log.warning("a finished task is left for the next sweep", **_about(task), reason=error.message)
        self._refused.add(task.uid)

    def _reject(self, task: Finished, error: errors.JervisError) -> None:
        self._rejected[task.uid] = task.version
        log.error("a finished task cannot be archived and stays", **_about(task), reason=error.message)

    def _is_rejected(self, task: Finished) -> bool:
        return self._rejected.get(task.uid) == task.version

    def _measure(self, listed: listing.Listed) -> None:
        archived = sum(task.archived for task in listed.tasks.values())
        self._metrics.finished.labels("true").set(archived)
        self._metrics.finished.labels("false").set(listed.left + len(listed.tasks) - archived)
        self._metrics.archive_rejected.set(len(self._rejected))


def _holds(held: Mapping[str, mongo.Held], task: Finished) -> bool:
    found = held.get(task.uid)
    return found is not None and found.generation == task.generation


def _about(task: Finished) -> dict[str, str]:
    """What every log line about a task carries."""
    return {"uid": task.uid, "task": task.name, "namespace": task.namespace}
