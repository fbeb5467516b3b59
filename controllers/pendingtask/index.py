"""What the operator remembers of unfinished tasks, their Jobs and their pods: small, versioned, never the truth.

An older version of an object never replaces a newer one, so a watch event that is overtaken by an own write is ignored.
Content and messages' text do not live here; an object is kept packed (`compact`) and parsed when it is looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controllers.pendingtask import bookings, compact, job, order, views
from controllers.pendingtask.world import JobState, JobView, PodView
from crds import pendingtask
from crds.phases import Phase

Raw = Mapping[str, Any]
_WAITING_FOR_OTHERS = frozenset({Phase.SCHEDULED, Phase.USER_TASK, Phase.DONE, Phase.COMPLETED, Phase.ERROR})

WAITING = (Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU)
"""Phases in which a task waits for us and not for a moment or a person."""
_POSTPONABLE = frozenset({Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU})


@dataclass(frozen=True, slots=True)
class Entry:
    """One task at one version. `since`: when its phase was entered, in seconds since the epoch. `held`: by its user."""

    version: int
    namespace: str
    name: str
    phase: Phase
    order: order.Order
    user_waits: bool
    since: int
    held: bool
    packed: bytes


def version(raw: Raw) -> int:
    """resourceVersion as a number; the API has ordered them since Kubernetes 1.35 by contract and before in fact."""
    text = str(raw["metadata"].get("resourceVersion", "0"))
    return int(text) if text.isdigit() else 0


_MAY_RUN = frozenset({JobState.ACTIVE, JobState.SUSPENDED})


class Tasks:
    """Unfinished tasks by uid."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, int] = {}
        self._by_phase: dict[Phase, set[str]] = {phase: set() for phase in Phase}
        self._users: set[str] = set()
        self.last_user: datetime | None = None
        self.bookings = bookings.Bookings()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._entries))

    def observe(self, raw: Raw) -> bool:
        """Take a version in; False when it is not newer than what is known. Raises pydantic.ValidationError."""
        uid, number = raw["metadata"]["uid"], version(raw)
        known = self._entries.get(uid)
        if (known is not None and number <= known.version) or number < self._gone.get(uid, 0):
            return False
        task = pendingtask.PendingTask.model_validate(raw)
        phase = task.status.phase or Phase.NEW
        entry = Entry(
            version=number,
            namespace=sys.intern(task.metadata.namespace),
            name=task.metadata.name,
            phase=phase,
            order=order.of(task),
            user_waits=_user_waits(task, phase),
            since=_since(task, phase),
            held=task.spec.suspend,
            packed=compact.pack(raw),
        )
        if known is not None:
            self._by_phase[known.phase].discard(uid)
        self._entries[uid] = entry
        self._by_phase[phase].add(uid)
        self.bookings.observe(task, entry.order)
        self._user(uid, entry.user_waits)
        return True

    def forget(self, uid: str, at: int = 0) -> None:
        """The task is finished or deleted; versions up to `at` stay out."""
        known = self._entries.pop(uid, None)
        if known is not None:
            self._by_phase[known.phase].discard(uid)
        self.bookings.forget(uid)
        self._user(uid, False)
        # A write's answer may come in after the deletion's event: remember a few of the departed.
        self._gone[uid] = max(at, known.version if known else 0) + 1
        if len(self._gone) > 10_000:
            for old in list(self._gone)[:5_000]:
                del self._gone[old]

    def known(self, namespace: str) -> Iterator[Raw]:
        """The tasks of a namespace, as much of them as a deletion needs."""
        for uid, entry in self._entries.items():
            if entry.namespace == namespace:
                meta = {"uid": uid, "namespace": namespace, "name": entry.name, "resourceVersion": str(entry.version)}
                yield {"metadata": meta}

    def get(self, uid: str) -> pendingtask.PendingTask | None:
        """The task without its content, or None."""
        entry = self._entries.get(uid)
        return None if entry is None else compact.unpack(entry.packed)

    def entry(self, uid: str) -> Entry | None:
        """What is known without parsing."""
        return self._entries.get(uid)

    def phase(self, *phases: Phase) -> Iterator[str]:
        """Uids in any of these phases."""
        for phase in phases:
            yield from self._by_phase[phase]

    def count(self, phase: Phase) -> int:
        """How many are in that phase."""
        return len(self._by_phase[phase])

    def oldest(self, phase: Phase) -> tuple[int | None, int | None]:
        """For Foreground and Background: when the one that waits longest entered `phase`; None when nobody does."""
        first: list[int | None] = [None, None]
        for uid in self._by_phase[phase]:
            entry = self._entries[uid]
            known = first[entry.order.lane]
            if not entry.held and (known is None or entry.since < known):
                first[entry.order.lane] = entry.since
        return first[0], first[1]

    @property
    def user_active(self) -> bool:
        """A Foreground task is waiting or running."""
        return bool(self._users)

    def _user(self, uid: str, waits: bool) -> None:
        if waits:
            self._users.add(uid)
        elif uid in self._users:
            self._users.discard(uid)
            self.last_user = self._clock()


class Workloads:
    """Jobs by namespace and name; pods by the task that they belong to."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], tuple[int, JobView]] = {}
        self._jobs_of: dict[str, set[tuple[str, str]]] = {}
        self._pods: dict[str, dict[str, tuple[int, PodView]]] = {}
        self._live: dict[str, tuple[PodView, ...]] = {}

    def observe_job(self, raw: Raw) -> bool:
        """Take a version in; False when it is older than what is known."""
        key = (raw["metadata"]["namespace"], raw["metadata"]["name"])
        known = self._jobs.get(key)
        if known is not None and known[1].uid == raw["metadata"]["uid"] and version(raw) < known[0]:
            return False
        self._jobs[key] = (version(raw), views.job_view(raw))
        self._jobs_of.setdefault(views.task_uid(raw), set()).add(key)
        return True

    def forget_job(self, uid: str, namespace: str, name: str) -> None:
        """The Job, of the task with that uid, is gone."""
        self._jobs.pop((namespace, name), None)
        of_task = self._jobs_of.get(uid, set())
        of_task.discard((namespace, name))
        if not of_task:
            self._jobs_of.pop(uid, None)

    def known_jobs(self, namespace: str) -> Iterator[Raw]:
        """The Jobs of a namespace, as much of them as a deletion needs."""
        for uid, keys in self._jobs_of.items():
            for key in keys & self._jobs.keys():
                if key[0] == namespace:
                    meta = {"uid": self._jobs[key][1].uid, "namespace": namespace, "name": key[1]}
                    yield {"metadata": {**meta, "labels": {job.UID_LABEL: uid}}}

    def ran(self, uid: str) -> bool:
        """Does the task still have a Job, as far as is known?"""
        return uid in self._jobs_of

    def job(self, namespace: str, name: str) -> JobView | None:
        """The Job as last seen; None means "not seen", not "not there"."""
        known = self._jobs.get((namespace, name))
        return None if known is None else known[1]

    def strays(self, task: pendingtask.PendingTask) -> tuple[str, ...]:
        """Jobs of runs of the task that have not ended, but for the one that its dispatch names."""
        uid, dispatch = task.metadata.uid, task.status.dispatch
        found = []
        for key in self._jobs_of.get(uid, ()):
            view = self._jobs[key][1]
            mine = view.name == job.name(task.metadata.name, uid, view.attempt)
            if mine and view.state in _MAY_RUN and (dispatch is None or view.name != dispatch.job_name):
                found.append(view.name)
        return tuple(sorted(found))

    def observe_pod(self, raw: Raw) -> bool:
        """Take a version in; False when it is older than what is known."""
        pods = self._pods.setdefault(views.task_uid(raw), {})
        known = pods.get(raw["metadata"]["name"])
        if known is not None and version(raw) < known[0]:
            return False
        pods[raw["metadata"]["name"]] = (version(raw), views.pod_view(raw))
        self._note(views.task_uid(raw))
        return True

    def forget_pod(self, uid: str, name: str) -> None:
        """The pod is gone. What an ended one said stays until its task is forgotten."""
        pods = self._pods.get(uid, {})
        known = pods.get(name)
        if known is not None and known[1].live:
            del pods[name]
        if not pods:
            self._pods.pop(uid, None)
        self._note(uid)

    def replace_pods(self, uid: str, raws: Iterable[Raw]) -> None:
        """A fresh list from the API: pods that are not on it do not live any more."""
        listed = {raw["metadata"]["name"]: raw for raw in raws}
        for name in list(self._pods.get(uid, {})):
            if name not in listed:
                self.forget_pod(uid, name)
        for raw in listed.values():
            self.observe_pod(raw)

    def pods(self, uid: str) -> tuple[PodView, ...]:
        """Pods of the task as last seen."""
        return tuple(view for _, view in self._pods.get(uid, {}).values())

    def forget_task(self, uid: str) -> None:
        """The task is finished or deleted: nobody asks any more what its ended pods said. Live ones stay."""
        left = {name: known for name, known in self._pods.pop(uid, {}).items() if known[1].live}
        if left:
            self._pods[uid] = left
        self._note(uid)

    def occupied(self, now: datetime, *, but: Collection[str]) -> dict[str, str]:
        """Tasks with a live pod, those in `but` left out -> the backend whose slot it takes."""
        found: dict[str, str] = {}
        for uid in self._live.keys() - but:
            backends = [pod.backend for pod in self._live[uid] if pod.lives(now)]
            if backends:
                found[uid] = backends[0]
        return found

    def _note(self, uid: str) -> None:
        live = tuple(view for _, view in self._pods.get(uid, {}).values() if view.live)
        if live:
            self._live[uid] = live
        else:
            self._live.pop(uid, None)


def _since(task: pendingtask.PendingTask, phase: Phase) -> int:
    """A New task waits since it was created. Without any time it is as old as the epoch: something is wrong with it."""
    entered = task.status.phase_times.get(phase.value) or task.metadata.creation_timestamp
    return 0 if entered is None else int(entered.timestamp())


def _user_waits(task: pendingtask.PendingTask, phase: Phase) -> bool:
    """A person waits for this task now; one that is postponed or held does not keep the GPU from others."""
    if not order.foreground(task.spec) or task.spec.suspend or task.metadata.deletion_timestamp is not None:
        return False
    retry = task.status.retry
    postponed = phase in _POSTPONABLE and retry is not None and retry.next_at is not None
    return phase not in _WAITING_FOR_OTHERS and not postponed and not pendingtask.held_by_job(task.status)
