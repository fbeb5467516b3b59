"""Orphaned runs: Jobs whose task is gone, and pods without a known run that would hold a slot without end.

Runs live in the release's namespace, and owner references do not cross namespaces, so this module is their garbage
collector. It is level-based: every Job without a known unfinished task is verified at the API at the start,
periodically, and at once when the deletion of its task is observed.

- Nothing is deleted before the API reports that the task is gone: a task that is not known may be finished, or its
  namespace not read yet.
- A namespace that refuses access (its role is gone, for instance with the namespace) or is no longer served gets
  `PATIENCE`; tasks whose deletion was observed get none. After that the Jobs of its tasks are deleted, since the
  operator could neither record the end of such a run nor remove its Job.
- A watch that lists again does not report deletions in between. A write to a deleted task fails and reveals it; a pod
  of a deleted task is never written to, so `verify` reads the pods that hold slots.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from datetime import datetime, timedelta
from enum import Enum, auto

import structlog

import kube
from clients import backoff
from controllers.pendingtask import job, task_index, workloads
from controllers.pendingtask.observed import JobView

log = structlog.get_logger(__name__)

EVERY_SECONDS = 30.0
RETRY = backoff.Doubling(first=2.0, cap=2.0)
"""Delay after a deletion that was not answered."""
PATIENCE = timedelta(minutes=10)
"""For a namespace that refuses access or is no longer served."""
AT_ONCE = 200
"""Largest number of tasks that one sweep verifies at the API."""
ENDED_AT_ONCE = 50
"""Largest number of those whose Jobs have ended."""


class _Task(Enum):
    THERE = auto()
    GONE = auto()
    UNKNOWN = auto()


class Orphans:
    """`members`: the namespaces that are served. `changed` is called when a slot may have become free."""

    def __init__(
        self,
        api: kube.Kube,
        tasks: task_index.Tasks,
        known: workloads.Workloads,
        *,
        members: Container[str],
        changed: Callable[[], None],
        wall: Callable[[], datetime],
    ) -> None:
        self._api, self._tasks, self._workloads = api, tasks, known
        self._members, self._changed, self._wall = members, changed, wall
        self._refused_since: dict[str, datetime] = {}  # by namespace
        self._left_since: dict[str, datetime] = {}  # by namespace
        self._asked: set[str] = set()  # of those with ended Jobs, in this round

    async def reconcile_once(self) -> None:
        """Sweep and verify once: at the start, when a task with a Job is deleted, and periodically. Raises
        `kube.Unavailable`."""
        await self.sweep()
        await self.verify()

    async def sweep(self) -> None:
        """Delete the Jobs of tasks that are gone. Raises `kube.Unavailable`."""
        now, refused = self._wall(), dict[str, datetime]()
        places = {one.task[1] for _, jobs in self._workloads.jobs() for one in jobs}
        self._left_since = {place: self._left_since.get(place, now) for place in places if place not in self._members}
        for number, (uid, jobs) in enumerate(self._doubtful()):
            if number == AT_ONCE:
                break
            found = await self._state(jobs[-1], now, refused)
            if found is _Task.GONE and not self._alive(uid):
                for one in jobs:
                    await self._delete(one)
            if found is not _Task.UNKNOWN:
                self._workloads.abandoned.discard(uid)
        self._refused_since = refused
        self._workloads.abandoned &= {uid for uid, _ in self._workloads.jobs()}

    async def verify(self) -> None:
        """Ask the API about each pod that holds a slot of no known run. Raises `kube.Unavailable`."""
        doubtful = self._workloads.occupied(self._wall(), but=self._tasks.bookings.runs.keys())
        for uid in doubtful:
            labels = f"{job.UID_LABEL}={uid}"
            found = [raw async for raw in self._api.each(kube.PODS, self._workloads.namespace, labels)]
            self._workloads.replace_pods(uid, found)
            if self._tasks.entry(uid) is None:
                self._workloads.forget_task(uid)
        if doubtful:
            self._changed()

    def _doubtful(self) -> Iterator[tuple[str, tuple[JobView, ...]]]:
        """Tasks that are not known as unfinished, with their Jobs; first those whose deletion was observed.

        Ended Jobs cost little, and most belong to finished tasks, which the archivist removes. Each sweep verifies some
        of them, in turn.
        """
        known = {uid: jobs for uid, jobs in self._workloads.jobs() if not self._alive(uid)}
        first = {uid for uid in known if uid in self._workloads.abandoned}
        running = {uid for uid, jobs in known.items() if any(one.state in workloads.MAY_RUN for one in jobs)}
        ended = {uid for uid in known.keys() - running if not all(one.has_ttl for one in known[uid])}
        if ended <= self._asked:
            self._asked = set()  # a new round
        turn = sorted(ended - self._asked)[:ENDED_AT_ONCE]
        self._asked = (self._asked & ended) | set(turn)
        for uid in dict.fromkeys((*sorted(first), *sorted(running), *turn)):
            yield uid, known[uid]

    def _alive(self, uid: str) -> bool:
        return self._tasks.entry(uid) is not None

    async def _state(self, run: JobView, now: datetime, refused: dict[str, datetime]) -> _Task:
        uid, namespace, name = run.task
        try:
            raw = await self._api.get(kube.TASKS, namespace, name)
        except kube.NotFound:
            return _Task.GONE
        except kube.Forbidden:
            refused[namespace] = self._refused_since.get(namespace, now)
            if uid in self._workloads.abandoned:
                return _Task.GONE
            if now - refused[namespace] < PATIENCE:
                return _Task.UNKNOWN
            log.warning("a run ends: its namespace refuses the operator", job=run.name, namespace=namespace)
            return _Task.GONE
        if raw["metadata"]["uid"] != uid:
            return _Task.GONE
        if now - self._left_since.get(namespace, now) < PATIENCE:
            return _Task.THERE
        log.warning("a run ends: its namespace is no longer served", job=run.name, namespace=namespace)
        return _Task.GONE

    async def _delete(self, one: JobView) -> None:
        try:
            await self._api.delete(kube.JOBS, self._workloads.namespace, one.name, uid=one.uid)
        except kube.Conflict:
            return  # another Job has that name by now
        log.info("a run ends: its task is gone", job=one.name, uid=one.task[0])
