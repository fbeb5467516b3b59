"""The warm pool: Jobs whose pods have started and wait for a task, so that a run begins at once.

Every replica knows the pool from events; the leader alone changes it. `WarmPool.run` keeps it at its size: missing Jobs
are created, those that ended or have an older template are deleted, with the resourceVersion that was seen, so that a
Job which is claimed meanwhile stays. `claim` makes a Job that of a run. An unclaimed Job is no run: it has no label of
a task, takes no slot, and is unknown to `workloads`.

Only a pod that has asked the operator is given a run (`handover`). If it does not take its task in time all the same,
its Job is deleted: the attempt is launched again, and the pool gives no pods for a while.

What is lost in a crash is found again from the labels: a Job is claimed or it is not. Size 0 deletes what an earlier
size left.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import structlog

import kube
from clients import backoff
from controllers import metrics, periodic
from controllers.pendingtask import job, task_index, views, warm
from controllers.pendingtask.observed import JobState
from crds import errors, pendingtask
from kube import lease

log = structlog.get_logger(__name__)

Raw = Mapping[str, Any]

EVERY_SECONDS = 30.0
"""In case an event was missed."""
AGAIN_SECONDS = 5.0
"""After a failure; doubled with each Job in a row that is refused or ends before it is claimed, up to
LONGEST_SECONDS."""
RETRY = backoff.Doubling(first=AGAIN_SECONDS, cap=AGAIN_SECONDS)
LONGEST_SECONDS = 300.0
"""Also how long no pod is given after one that did not take its task."""
START = 4
"""How much longer the pod of a claimed Job may take if it has never asked: it replaces one, and imports everything
first."""


def suffix() -> str:
    """Of the name of a new Job: ten characters that no other one has."""
    return secrets.token_hex(5)


class WarmPool:
    """The pool of the release's namespace. `size` pods wait; `url` is where they ask for their task.

    `token` is that of the present lease, `suffix` makes names, `patience` is how many seconds the pod of a claimed Job
    may take to get its task. A template with a Kueue queue has no pool: Kueue would
    count waiting pods as work.
    """

    def __init__(
        self,
        api: kube.Kube,
        template: job.Template,
        *,
        size: int,
        url: str,
        token: Callable[[], lease.FencingToken],
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        patience: float = 30.0,
        suffix: Callable[[], str] = suffix,
    ) -> None:
        self._api, self._template, self._url = api, template, url
        self._token, self._metrics, self._wall, self._monotonic = token, measured, wall, monotonic
        self._suffix = suffix
        self.size = 0 if job.QUEUE_LABEL in template.labels else size
        self._digest = warm.digest(template, url)
        self._jobs: dict[str, Raw] = {}
        self._pods: dict[str, Raw] = {}
        self._claiming: set[str] = set()  # names: no two workers of this process try one Job
        self._ended: set[str] = set()  # uids of Jobs that ended unclaimed and are counted in _failures
        self._failures, self._failed_at, self._not_before = 0, -math.inf, -math.inf
        self._refused = 0  # tries in a row to create a Job
        self._patience = patience
        self._without: dict[str, float] = {}  # uid of each pod whose Job has a task and that has none -> since when
        self._next, self._closed_until = math.inf, -math.inf
        self.due = asyncio.Event()
        """Set by each event of the pool."""
        self._news = asyncio.Event()

    # -- what is known ---------------------------------------------------------------------------------------------

    def observe_job(self, raw: Raw, *, deleted: bool = False) -> None:
        """An event of a Job; one that is not warm is ignored."""
        self._observe(self._jobs, raw, deleted)

    def observe_pod(self, raw: Raw, *, deleted: bool = False) -> None:
        """An event of a pod."""
        self._observe(self._pods, raw, deleted)

    def known_jobs(self) -> Iterator[Raw]:
        """The unclaimed Jobs, with the fields that a deletion event needs."""
        return (raw for raw in list(self._jobs.values()) if not warm.is_claimed(raw))

    def known_pods(self) -> Iterator[Raw]:
        """The pods that no run has, alike."""
        return (raw for raw in list(self._pods.values()) if not warm.is_claimed(raw))

    def job(self, name: str) -> Raw | None:
        """A warm Job as last seen, claimed or not."""
        return self._jobs.get(name)

    async def changed(self, seconds: float) -> None:
        """Return when a Job or pod of the pool has changed, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    def idle(self) -> list[Raw]:
        """Jobs of the present template whose pod runs, has asked and has no task; the one that waits for longest comes
        first."""
        ready = {views.owner_uid(one) for one in self._pods.values() if _waits(one) and warm.has_asked(one)}
        found = [one for one in self._open() if one["metadata"]["uid"] in ready and self._current(one)]
        return sorted(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))

    def gauges(self) -> None:
        """Update the gauges; called before each scrape."""
        self._metrics.warm_idle.set(len(self.idle()))

    # -- the claim -------------------------------------------------------------------------------------------------

    async def claim(self, task: pendingtask.PendingTask, attempt: int) -> kube.Object | None:
        """The Job of a waiting pod, now that of the run; None if no pod waits.

        Raises `kube.Unavailable` if the API does not answer: whether the Job is claimed is not known then.
        """
        if not self.size:
            return None
        open_ = self._monotonic() >= self._closed_until
        for raw in self.idle() if open_ else ():
            name = raw["metadata"]["name"]
            if name in self._claiming:
                continue
            self._claiming.add(name)
            try:
                token, now = self._token(), self._wall()
                patch = warm.claim(raw, task, attempt, self._template, token=token, now=now)
                made = await self._api.merge(kube.JOBS, self._template.namespace, name, patch)
            except (kube.Conflict, kube.NotFound):
                continue
            except kube.Forbidden as error:
                log.warning("a warm pod is not claimed", job=name, reason=error.message)
                break
            finally:
                self._claiming.discard(name)
            self.observe_job(made)
            self._failures = 0
            self._metrics.warm_claimed.inc()
            log.info("a warm pod is claimed", job=name, attempt=attempt)
            return made
        self._metrics.warm_misses.inc()
        return None

    # -- upkeep ----------------------------------------------------------------------------------------------------

    async def reconcile_once(self) -> periodic.RequeueAfter:
        """Keep the pool at its size; when that is due again."""
        try:
            await self._complete()
        except errors.JervisError:
            self._not_before = self._monotonic() + AGAIN_SECONDS
            raise
        now = self._monotonic()
        return periodic.RequeueAfter(
            min([EVERY_SECONDS, *(at - now for at in (self._not_before, self._next) if at > now)])
        )

    async def _complete(self) -> None:
        """Mark the pods of claimed Jobs, delete Jobs that are of no use, create those that are missing.

        An error of the API ends none of this but the creation, which is tried again after a pause.
        """
        await self._mark()
        await self._give_up()
        good = 0
        for one in self._open():
            if one["metadata"]["name"] in self._claiming:
                good += 1
                continue
            state = views.job_view(one).state
            if state is JobState.DELETING:
                continue
            over = state in (JobState.COMPLETE, JobState.FAILED)
            if over:
                self._count_failure(one)
            if over or not self._current(one) or good >= self.size:
                await self._delete(one)
            else:
                good += 1
        if self._monotonic() < self._not_before:
            return
        try:
            for _ in range(self.size - good):
                body = warm.manifest(self._suffix(), self._template, self._url, self._token())
                self.observe_job(await self._api.create(kube.JOBS, self._template.namespace, body))
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            pause = min(AGAIN_SECONDS * 2 ** min(self._refused, 10), LONGEST_SECONDS)
            self._refused, self._not_before = self._refused + 1, self._monotonic() + pause
            log.warning("the warm pool is not complete", reason=error.message, again_in=pause)
        else:
            self._refused = 0

    async def _mark(self) -> None:
        """Give the pods of claimed Jobs the labels of their run."""
        claimed = {one["metadata"]["uid"]: one for one in self._jobs.values() if warm.is_claimed(one)}
        for name, pod in list(self._pods.items()):
            if warm.is_claimed(pod) and views.owner_uid(pod) not in claimed:
                del self._pods[name]  # its Job is gone; the end of a run's pod may have been in no event
                continue
            owner = claimed.get(views.owner_uid(pod))
            patch = None if owner is None else warm.marks(owner, pod)
            if patch is None:
                continue
            try:
                made = await self._api.merge(kube.PODS, self._template.namespace, name, patch)
            except (kube.NotFound, kube.Conflict):
                continue  # it is gone; its successor is marked in its turn
            except lease.Fenced:
                raise
            except errors.JervisError as error:
                log.warning("a pod does not get the labels of its run", pod=name, reason=error.message)
                continue
            self.observe_pod(made)

    async def _give_up(self) -> None:
        """Delete claimed Jobs whose pod has run for too long without its task: the run is launched again, as any whose
        Job is gone, but not from the pool."""
        claimed = {one["metadata"]["uid"]: one for one in self._jobs.values() if warm.is_claimed(one)}
        now, without = self._monotonic(), dict[str, float]()
        self._next = math.inf
        for name, pod in list(self._pods.items()):
            owner, uid = claimed.get(views.owner_uid(pod)), pod["metadata"]["uid"]
            if owner is None or warm.has_task(pod) or not _waits(pod):
                continue
            if views.job_view(owner).state is not JobState.ACTIVE:
                continue
            without[uid] = self._without.get(uid, now)
            ends = without[uid] + self._patience * (1 if warm.has_asked(pod) else START)
            if now < ends:
                self._next = min(self._next, ends)
                continue
            self._closed_until = now + LONGEST_SECONDS
            log.warning("a warm pod does not take its task; its run starts without the pool", pod=name)
            self._metrics.warm_untaken.inc()
            await self._delete(owner)
        self._without = without

    async def _delete(self, raw: Raw) -> None:
        meta = raw["metadata"]
        try:
            await self._api.delete(
                kube.JOBS,
                self._template.namespace,
                meta["name"],
                uid=meta["uid"],
                version=meta["resourceVersion"],
            )
        except kube.Conflict:
            return  # it has changed; its event comes, and it is judged anew
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            log.warning("a warm Job is not deleted", job=meta["name"], reason=error.message)
            return
        self._jobs.pop(meta["name"], None)
        log.info("a warm Job is deleted", job=meta["name"])

    def _count_failure(self, raw: Raw) -> None:
        """A Job that ends before it is claimed is replaced later each time: its image may be broken."""
        uid, now = raw["metadata"]["uid"], self._monotonic()
        if uid in self._ended:
            return
        self._ended = {one["metadata"]["uid"] for one in self._jobs.values()} & self._ended | {uid}
        if now - self._failed_at > LONGEST_SECONDS:
            self._failures = 0
        # The first one at once: a pod may be killed by anything.
        pause = min(AGAIN_SECONDS * 2**self._failures, LONGEST_SECONDS) if self._failures else 0.0
        self._failures, self._failed_at, self._not_before = self._failures + 1, now, now + pause

    def _open(self) -> list[Raw]:
        """The Jobs that no run has, the oldest first."""
        found = [one for one in self._jobs.values() if not warm.is_claimed(one)]
        return sorted(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))

    def _current(self, raw: Raw) -> bool:
        return bool(raw["metadata"]["labels"][warm.LABEL] == self._digest)

    def _observe(self, known: dict[str, Raw], raw: Raw, deleted: bool) -> None:
        meta = raw["metadata"]
        if meta["namespace"] != self._template.namespace or not (warm.is_warm(raw) or meta["name"] in known):
            return
        before = known.get(meta["name"])
        if not deleted and before is not None and task_index.version(raw) < task_index.version(before):
            return
        if deleted:
            known.pop(meta["name"], None)
        else:
            known[meta["name"]] = raw
        self.due.set()
        news, self._news = self._news, asyncio.Event()
        news.set()


def _waits(pod: Raw) -> bool:
    """The pod runs and is not asked to end."""
    return views.running(pod) and views.pod_view(pod).live and not pod["metadata"].get("deletionTimestamp")
