"""The loop around `sweep.plan`: list, archive, mark, list nothing again, delete. On the leader alone.

One sweep reads all finished objects in pages and keeps a few fields of each; finished objects are in no watch. An
object is marked with the version that was archived as precondition and deleted with the version that was looked at,
so that a change in between wins. Before each handful of deletions the archive is asked whether it really holds them:
with MongoDB away nothing is deleted, and a mark that lies (a forged label, a restored backup) is made true first.
Every write asks the lease's fence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from controllers import courtesy, kube, metrics
from controllers.archive import finished, mongo, record, sweep
from controllers.archive.finished import Finished
from controllers.archive.query import Place
from crds import errors, labels, phases

log = structlog.get_logger(__name__)

AT_ONCE = 500
"""Objects archived per sweep, and archived documents looked at per sweep for leftovers."""
PAGE = 100
"""Whole objects per list request, with up to 32 KiB of content each: the event loop parses a page in one go."""
LOOK_SECONDS = 1.0
"""Between two looks whether the work lets a sweep through."""
MOST_LOOKS = 120
"""Then it is swept in any case: finished objects must not pile up under a load that never ends."""
JOBS_AT_ONCE = 100
"""Tasks whose Jobs one request removes: their uids are part of its URL."""

MOST_REFUSALS = 3
"""Objects in a row that the apiserver may leave unarchived or undeleted; then it is taken to be away until the next
sweep. One that it always refuses, by somebody's policy, holds nobody up: those come last."""


@dataclass(frozen=True, slots=True)
class Pace:
    """`every` in seconds between sweeps.

    `retention` counts from archiving until a run's documents are removed, `history` until the archived one is. While
    more than `pile` tasks wait to be archived nobody is yielded to.
    """

    every: float = 30.0
    deletes_per_second: float = 10.0
    retention: timedelta = timedelta(days=30)
    history: timedelta = timedelta(days=365)
    pile: int = 4 * AT_ONCE

    def budget(self) -> sweep.Budget:
        """Of one sweep: what fits between two of them."""
        return sweep.Budget(AT_ONCE, max(1, round(self.every * self.deletes_per_second)))

    def handful(self) -> int:
        """Deletions per question to the archive: about a second's."""
        return max(1, round(self.deletes_per_second))


class Archivist:
    """`ran(uid)`: a Job of that task is there. `busy`: tasks wait to be looked at; they come first, and with `polite`
    also those that are looked at. `sleep`: asyncio's.

    Every sweep starts from what the API and MongoDB say, so a restart loses nothing.
    """

    def __init__(
        self,
        api: kube.Kube,
        archive: mongo.Archive,
        *,
        namespaces: Sequence[str],
        terms: sweep.Terms,
        pace: Pace,
        ran: Callable[[str], bool],
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
        polite: courtesy.Courtesy,
        busy: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._archive, self._namespaces = api, archive, tuple(namespaces)
        self._terms, self._pace, self._ran, self._metrics = terms, pace, ran, measured
        self._wall, self._polite, self._busy, self._sleep = wall, polite, busy, sleep
        self._prepared = False
        self._rejected: dict[str, str] = {}
        self._refused: set[str] = set()
        self._from: Place | None = None
        self.may_act = asyncio.Event()
        """Set once the lease is held; losing it ends the process."""

    async def work(self) -> None:
        """Sweep until cancelled."""
        await self.may_act.wait()
        while True:
            again = False
            await self._calm()
            try:
                again = await self.once()
                self._metrics.archive_up.set(1)
            except mongo.Unavailable as error:
                self._metrics.archive_up.set(0)
                log.warning("nothing is archived or deleted", reason=error.message)
            except errors.JervisError as error:
                log.warning("swept in vain", reason=error.message)
            except Exception:
                # The edge of a sweep: a bug of ours here must not stop the tasks.
                self._metrics.failures.inc()
                log.exception("sweeping failed")
            await self._sleep(0.0 if again else self._pace.every)

    async def _calm(self) -> None:
        """Return once no task waits, or after two minutes."""
        for _ in range(MOST_LOOKS):
            if not self._busy():
                return
            await self._sleep(LOOK_SECONDS)

    async def once(self) -> bool:
        """One sweep over everything; True when the budget left something and something was done."""
        tasks = await self._list()
        self._measure(tasks)
        await self._clear_jobs(tasks)
        if not self._prepared:
            await self._archive.prepare()
            self._prepared = True
        able = [task for task in tasks.values() if self._rejected.get(task.uid) != task.version]
        budget = self._pace.budget()
        first = sweep.plan(able, self._terms, self._wall(), budget)
        written = await self._keep_all(tasks, first.archive, yielding=first.unarchived <= self._pace.pile)
        second = sweep.plan(list(tasks.values()), self._terms, self._wall(), budget)
        removed = await self._remove(tasks, second.delete)
        await self._clear(tasks)
        await self._forget()
        self._measure(tasks)
        return (first.more or second.more) and (written or removed > 0)

    async def _list(self) -> dict[str, Finished]:
        tasks: dict[str, Finished] = {}
        for namespace in self._namespaces:
            try:
                for phase in sorted(phases.TERMINAL):
                    async for raw in self._api.each(kube.TASKS, namespace, fields=f"status.phase={phase}", page=PAGE):
                        task = finished.of(raw)
                        if task is not None:
                            tasks[task.uid] = task
            except errors.JervisError as error:
                # With part of a list less is deleted, never more; the other namespaces do not wait for this one.
                log.warning("finished tasks not listed to the end", namespace=namespace, reason=error.message)
        self._rejected = {uid: version for uid, version in self._rejected.items() if uid in tasks}
        self._refused &= tasks.keys()
        return tasks

    async def _clear_jobs(self, tasks: dict[str, Finished]) -> None:
        """Remove the Jobs, and with them the pods, of tasks whose end is recorded for long enough; many per request."""
        ended = sweep.jobs(tasks.values(), self._terms, self._wall())
        for namespace in self._namespaces:
            uids = sorted(task.uid for task in ended if task.namespace == namespace and self._ran(task.uid))
            for start in range(0, len(uids), JOBS_AT_ONCE):
                some = uids[start : start + JOBS_AT_ONCE]
                await self._api.delete_all(kube.JOBS, namespace, f"{labels.TASK_UID} in ({','.join(some)})")
                log.info("jobs of finished tasks removed", namespace=namespace, tasks=len(some))

    async def _keep_all(self, tasks: dict[str, Finished], wanted: Sequence[Finished], *, yielding: bool) -> bool:
        """Archive one after the other; was any?"""
        done, row = False, 0
        for task in sorted(wanted, key=lambda one: one.uid in self._refused):
            begun = self._polite.begin()
            try:
                done = await self._keep(tasks, task) or done
                row = 0
            except kube.Unavailable as error:
                row += 1
                self._put_last(task, error)
                if row == MOST_REFUSALS:
                    break
            if yielding:
                await self._polite.after(begun)
        return done

    def _put_last(self, task: Finished, error: errors.JervisError) -> None:
        if task.uid not in self._refused:
            log.warning("a finished task is left for the next sweep", **_about(task), reason=error.message)
        self._refused.add(task.uid)

    async def _keep(self, tasks: dict[str, Finished], task: Finished) -> bool:
        """Archive the object as it is now, then mark that version. False when it is left for another sweep."""
        try:
            raw = await self._api.get(kube.TASKS, task.namespace, task.name)
            fresh = finished.of(raw)
            if fresh is None or fresh.uid != task.uid:
                del tasks[task.uid]
                return False
            result = await self._archive.result(fresh.uid)
            await self._archive.store(record.of(fresh, raw, result, self._wall()))
            self._metrics.archived.inc()
            mark = {"resourceVersion": fresh.version, "labels": {finished.ARCHIVED_LABEL: finished.ARCHIVED}}
            marked = finished.of(await self._api.merge(kube.TASKS, task.namespace, task.name, {"metadata": mark}))
        except kube.NotFound:
            del tasks[task.uid]
            return False
        except kube.Conflict:
            self._metrics.conflicts.inc()
            return False
        except errors.Permanent as error:
            self._rejected[task.uid] = task.version
            log.error("a finished task cannot be archived and stays", **_about(task), reason=error.message)
            return False
        if marked is not None:
            tasks[task.uid] = marked
        return True

    async def _remove(self, tasks: dict[str, Finished], removals: Sequence[sweep.Removal]) -> int:
        """Delete at the set pace; how many."""
        number, row, handful = 0, 0, self._pace.handful()
        removals = sorted(removals, key=lambda one: one.task.uid in self._refused)
        for start in range(0, len(removals), handful):
            some = removals[start : start + handful]
            held = await self._archive.confirmed([one.task.uid for one in some])
            for one in some:
                try:
                    if one.task.uid not in held:
                        log.warning("marked as archived and is not", **_about(one.task))
                        await self._keep(tasks, one.task)
                    elif await self._delete(one):
                        tasks.pop(one.task.uid, None)
                        number += 1
                    row = 0
                except (kube.Unavailable, kube.Refused) as error:
                    row += 1
                    self._put_last(one.task, error)
                    if row == MOST_REFUSALS:
                        return number
                await self._sleep(1 / self._pace.deletes_per_second)
        return number

    async def _delete(self, one: sweep.Removal) -> bool:
        task = one.task
        try:
            await self._api.delete(kube.TASKS, task.namespace, task.name, uid=task.uid, version=task.version)
        except kube.Conflict:
            self._metrics.conflicts.inc()
            return False
        self._metrics.deleted.labels(one.why.value).inc()
        log.info("finished task deleted", **_about(task), why=one.why.value)
        return True

    async def _clear(self, tasks: dict[str, Finished]) -> None:
        """Remove what runs left behind, where the task is archived for long and gone. A page per sweep, in turn."""
        now = self._wall()
        found = await self._archive.over(self._namespaces, now - self._pace.retention, self._from, AT_ONCE)
        # Tasks that still are objects stay on the list; walking on from the last place passes them by.
        self._from = Place(found[-1]["archivedAt"], found[-1]["_id"]) if len(found) == AT_ONCE else None
        gone = [
            one["_id"]
            for one in found
            if one["_id"] not in tasks and await self._gone(one["_id"], one["namespace"], one["name"])
        ]
        if gone:
            removed = await self._archive.sweep(gone, now)
            for collection, number in removed.items():
                self._metrics.swept.labels(collection).inc(number)
            log.info("leftovers of runs removed", tasks=len(gone), documents=sum(removed.values()))

    async def _forget(self) -> None:
        """Remove what was archived long ago: the history is bounded."""
        gone = await self._archive.expire(self._namespaces, self._wall() - self._pace.history, AT_ONCE)
        if gone:
            self._metrics.swept.labels(mongo.ARCHIVE).inc(gone)
            log.info("history removed", tasks=gone, older_than_days=self._pace.history.days)

    async def _gone(self, uid: str, namespace: str, name: str) -> bool:
        try:
            raw = await self._api.get(kube.TASKS, namespace, name)
        except kube.NotFound:
            return True
        except kube.Unavailable:
            return False  # nobody knows
        return bool(raw["metadata"]["uid"] != uid)

    def _measure(self, tasks: dict[str, Finished]) -> None:
        archived = sum(task.archived for task in tasks.values())
        self._metrics.finished.labels("true").set(archived)
        self._metrics.finished.labels("false").set(len(tasks) - archived)
        self._metrics.archive_rejected.set(len(self._rejected))


def _about(task: Finished) -> dict[str, str]:
    """What every log line about a task carries."""
    return {
        "uid": task.uid,
        "task": task.name,
        "namespace": task.namespace,
        "correlation_id": task.correlation,
    }
