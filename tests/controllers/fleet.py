"""A cluster in small: tasks in a store with versions, Jobs, pods and slots, and a shell that may die anywhere.

The index, the scheduler and the decisions are the real ones; the apiserver, the Job controller, the kubelet and the
users are played. Every write is checked against what is true, which the shell may not know yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controllers.pendingtask import decision, observed, task_index, transitions, workloads
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.observed import JobState, JobView, Limits, ObservedState, Outcome, Slots
from controllers.pendingtask.slots import bookings, ledger, scheduler
from crds import order, pendingtask
from crds.exit_reasons import ExitReason
from crds.phases import HOLDS_SLOT, TERMINAL, Phase
from tests.controllers.build import NOW, apply, changed, routed, users

LIMITS = Limits(max_preemptions=2, max_lost_runs=1000)
_WAITS_FOR = {Phase.QUALIFYING: WaitFor.QUALIFIER, Phase.DISPATCHED_GPU: WaitFor.GPU}


class Died(Exception):  # noqa: N818 - no error: a process that is killed
    """The shell was killed here."""


@dataclass
class Job:
    uid: str
    attempt: int
    backend: str
    suspended: bool = False
    state: JobState | None = None


@dataclass
class Pod:
    uid: str
    attempt: int
    backend: str
    live: bool = True
    leaving: bool = False
    outcome: Outcome | None = None


class Fleet:
    """`dies(where)` says whether the shell is killed there; `loses(where)` whether an answer is lost."""

    def __init__(self, dies: Callable[[str], bool], loses: Callable[[str], bool], capacity: dict[str, int]) -> None:
        self.dies, self.loses = dies, loses
        self.now, self.version, self.serial = NOW, 10, 0
        self.store: dict[str, pendingtask.PendingTask] = {}
        self.jobs: dict[str, Job] = {}
        self.pods: list[Pod] = []
        self.capacity = dict(capacity)
        self.finished: set[str] = set()
        self.refused = False
        """The apiserver refuses every Job."""
        self.looks = self.writes = 0
        self.wakes: dict[str, datetime] = {}
        """When a task wants to be looked at without an event."""
        self.restart()

    # -- the outside -----------------------------------------------------------------------------------------------

    def submit(self, mode: str, position: int | None = None) -> str:
        self.serial += 1
        uid = f"{mode[0].lower()}{self.serial}"
        spec: dict[str, Any] = {"mode": mode, **({"queuePosition": position} if position else {})}
        made = routed(Phase.READY_FOR_GPU, spec=spec)
        meta = made.metadata.model_copy(update={"uid": uid, "name": uid, "creation_timestamp": self.now})
        self.put(made.model_copy(update={"metadata": meta}))
        self.watch(uid)
        return uid

    def put(self, task: pendingtask.PendingTask) -> None:
        self.version += 1
        meta = task.metadata.model_copy(update={"resource_version": str(self.version)})
        self.store[task.metadata.uid] = task.model_copy(update={"metadata": meta})

    def edit(self, uid: str, **spec: Any) -> None:
        task = self.store[uid]
        self.put(changed(task, spec=spec))

    def delete(self, uid: str) -> None:
        """Its Job goes with it, its pods are asked to end; the watch tells at once."""
        del self.store[uid]
        self.jobs = {name: job for name, job in self.jobs.items() if job.uid != uid}
        self.tasks.forget(uid, self.version)
        self.scheduler.leave(uid)
        self.scheduler.settle(uid)
        self.controller()

    def controller(self) -> None:
        """The Job controller: pods for Jobs that want one, an end for those that are not wanted."""
        for name, job in self.jobs.items():
            mine = [pod for pod in self.pods if (pod.uid, pod.attempt) == (job.uid, job.attempt) and pod.live]
            if job.state is None and not job.suspended and not mine:
                self.pods.append(Pod(job.uid, job.attempt, job.backend))
            for pod in mine:
                pod.leaving = pod.leaving or job.suspended
            del name
        owned = {(job.uid, job.attempt) for job in self.jobs.values()}
        for pod in self.pods:
            pod.leaving = pod.leaving or (pod.uid, pod.attempt) not in owned
        lives = Counter(pod.uid for pod in self.pods if pod.live)
        assert all(count == 1 for count in lives.values()), f"two pods at the same time: {lives}"

    def kubelet(self, number: int, how: ExitReason | None) -> None:
        """One pod ends: one that is leaving drains, another one ends as it likes."""
        live = [pod for pod in self.pods if pod.live]
        if not live:
            return
        pod = live[number % len(live)]
        pod.live = False
        job = next((j for j in self.jobs.values() if (j.uid, j.attempt) == (pod.uid, pod.attempt)), None)
        if pod.leaving or how is ExitReason.DRAINED:
            self.pods.remove(pod)  # the Job, if it is there, makes another one or stays suspended
        else:
            pod.outcome = Outcome(how) if how is not None else None
            if job is not None:
                job.state = JobState.COMPLETE if how is ExitReason.ANSWERED else JobState.FAILED
        self.controller()

    # -- what is true ----------------------------------------------------------------------------------------------

    def occupied(self) -> set[str]:
        holders = {uid for uid, task in self.store.items() if task.status.phase in HOLDS_SLOT}
        return holders | {pod.uid for pod in self.pods if pod.live}

    def without_slot(self) -> set[str]:
        """Those of them that have none."""
        booked = {uid: task.status.dispatch.backend for uid, task in self.store.items() if task.status.dispatch}
        holders = {uid for uid, task in self.store.items() if task.status.phase in HOLDS_SLOT and not booked.get(uid)}
        return holders | {pod.uid for pod in self.pods if pod.live and not pod.backend}

    def total(self) -> int:
        return sum(self.capacity.values())

    def kept(self) -> set[str]:
        """Users' tasks for which a slot is kept, as far as the shell has heard of their last version."""
        found = set()
        for task in self.store.values():
            claim, status = task.status.preemption, task.status
            owner = self.store.get(claim.by) if claim is not None else None
            if claim is None or status.phase is not Phase.READY_FOR_GPU or owner is None:
                continue
            known = self.tasks.entry(claim.by)
            if known is None or str(known.version) != owner.metadata.resource_version:
                continue
            waits = owner.status.phase is Phase.READY_FOR_GPU and owner.status.next_attempt == claim.run
            given = status.phase_times[Phase.READY_FOR_GPU]
            retry = owner.status.retry
            ready = retry is None or retry.next_at is None or retry.next_at <= self.now
            fresh = abs(self.now - given) < timedelta(seconds=ledger.RESERVED_SECONDS)
            if waits and ready and fresh and not owner.spec.suspend and order.foreground(owner.spec):
                found.add(claim.by)
        return found

    # -- the shell -------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """A new process reads everything that is there."""
        self.tasks, self.workloads = task_index.Tasks(lambda: self.now), workloads.Workloads("default")
        self.scheduler = scheduler.SlotScheduler(
            self.tasks,
            LIMITS,
            lambda: [bookings.Offer(name, count) for name, count in self.capacity.items()],
            workloads=self.workloads,
            readings=(),
            users=users(lambda: self.now),
            wall=lambda: self.now,
            monotonic=lambda: self.now.timestamp(),
        )
        self.observed: dict[str, observed.Observation] = {}
        self._called: dict[str, None] = {}
        for uid in self.store:
            self.watch(uid)

    def watch(self, uid: str) -> None:
        """The watch brings the present version."""
        if uid in self.store:
            self.tasks.observe(self.store[uid].wire())

    def calls(self) -> list[str]:
        """Whom the scheduler want looked at."""
        self._tell_pods()
        self._admit()
        called, self._called = self._called, {}
        return list(called)

    def _admit(self) -> None:
        """Somebody asks now and then, also while a task is being looked at."""
        self._called |= dict.fromkeys(one.uid for one in self.scheduler.admit()[0])

    def look(self, uid: str) -> None:
        """As `reconcile` does: until there is nothing more to decide."""
        unsure = False
        try:
            for _ in range(8):
                if not self._round(uid):
                    return
        except Died:
            self.restart()
            return
        except TimeoutError:
            unsure = True
        finally:
            if not unsure:
                self.scheduler.settle(uid)

    def _tell_pods(self) -> None:
        for uid in {pod.uid for pod in self.pods} | set(self.workloads._live):
            self.workloads._job_uids[uid] = {"job"}
            self.workloads._pods[uid] = {
                f"{uid}-{number}": workloads._Pod(self.version, "job", self._pod(pod))
                for number, pod in enumerate(self.pods)
                if pod.uid == uid
            }
            self.workloads._update_live(uid)

    @staticmethod
    def _pod(pod: Pod) -> observed.PodView:
        return observed.PodView("p", pod.attempt, pod.live, True, outcome=pod.outcome, backend=pod.backend)

    def _round(self, uid: str) -> bool:
        task, entry = self.tasks.get(uid), self.tasks.entry(uid)
        if task is None or entry is None:
            return False
        self._tell_pods()
        self._admit()
        around = self._world(task)
        course = transitions.batched(task, around, self.now)
        made = course.decision
        self.looks, self.writes = self.looks + 1, self.writes + bool(made.status_patch)
        self.wakes.pop(uid, None)
        if made.requeue_after is not None:
            self.wakes[uid] = self.now + timedelta(seconds=made.requeue_after)
        self.scheduler.leave(uid)
        if made.phase in _WAITS_FOR:
            booked = apply(task, made.status_patch).status.dispatch
            self.scheduler.claim(uid, _WAITS_FOR[made.phase], booked.backend if booked else "")
        if self.dies("before the write"):
            raise Died
        if made.status_patch and not self._write(task, made):
            self.watch(uid)
            return True
        self.observed.pop(uid, None)
        for effect in made.effects:
            if self.dies("before the effect"):
                raise Died
            self._perform(task, effect)
        if made.wait_for is not None:
            self.scheduler.enter(uid, made.wait_for, entry.order)
            return False
        return course.more or bool(made.effects and made.requeue_after is None)

    def _world(self, task: pendingtask.PendingTask) -> ObservedState:
        uid, dispatch = task.metadata.uid, task.status.dispatch
        found = self.jobs.get(dispatch.job_name) if dispatch else None
        runs = task.status.phase in HOLDS_SLOT
        activity = self.scheduler.users(uid)
        return ObservedState(
            limits=LIMITS,
            observed=self.observed.get(uid),
            job=None if found is None else _view(dispatch.job_name if dispatch else "", found),
            pods=self.workloads.pods(uid),
            slots=Slots() if runs else self.scheduler.slots(uid),
            claimant=self.scheduler.claimant(uid),
            user_active=activity.active,
            last_user=activity.last,
            dispatch_open=self.scheduler.dispatch_open(),
        )

    def _write(self, task: pendingtask.PendingTask, made: decision.Decision) -> bool:
        uid = task.metadata.uid
        current = self.store.get(uid)
        if current is None:
            self.tasks.forget(uid, self.version)
            return False
        if current.metadata.resource_version != task.metadata.resource_version:
            return False
        self._judge(current, made)
        self.put(apply(current, made.status_patch))
        if self.store[uid].status.phase in TERMINAL:
            self.finished.add(uid)
            self.tasks.forget(uid, self.version)
            del self.store[uid]
            return True
        if self.loses("the answer to the write"):
            raise TimeoutError
        self.watch(uid)
        return True

    def _judge(self, before: pendingtask.PendingTask, made: decision.Decision) -> None:
        """Is this write right, given what is true?"""
        uid, patch = before.metadata.uid, made.status_patch
        booked = apply(before, patch).status.dispatch if made.phase is Phase.DISPATCHED_GPU else None
        if booked is not None and booked.backend:
            others = self.occupied() - {uid}
            assert len(others) < self.total(), f"{uid} takes a slot that is not there: {sorted(others)}"
            kept = self.kept() - {uid}
            assert len(others) + len(kept) < self.total(), f"{uid} takes a slot that is kept for {sorted(kept)}"
        if booked is not None and not booked.backend:
            assert self.total() == 0
        if booked is not None and not booked.backend and any(isinstance(one, decision.Launch) for one in made.effects):
            assert len(self.without_slot() - {uid}) < LIMITS.runs_without_gpu, f"{uid} is one too many without a GPU"
        claim = patch.get("preemption")
        if claim:
            assert not order.foreground(before.spec), "a user's run gives nothing up"
            assert patch.get("preemptions", before.status.preemptions) <= LIMITS.max_preemptions
            rivals = [
                task.metadata.uid
                for task in self.store.values()
                if task.metadata.uid != uid
                and task.status.phase in HOLDS_SLOT
                and task.status.preemption is not None
                and (task.status.preemption.by, task.status.preemption.run) == (claim["by"], claim["run"])
            ]
            # One that turned into a user's own run meanwhile does not stop any more, whatever its claim says.
            assert not [one for one in rivals if not order.foreground(self.store[one].spec)], "one run for each"

    def _perform(self, task: pendingtask.PendingTask, effect: decision.Effect) -> None:
        uid = task.metadata.uid
        match effect:
            case decision.Launch():
                if uid not in self.store:
                    return
                self.scheduler.breaker.started(self.now.timestamp())
                if self.refused:
                    self.scheduler.breaker.failed(self.now.timestamp())
                    self.observed[uid] = observed.Trouble("exceeded quota", operational=True)
                    return
                self.scheduler.breaker.succeeded()
                known = self.jobs.get(effect.job_name)
                backend = self.store[uid].status.dispatch
                if known is None:
                    self.jobs[effect.job_name] = Job(uid, effect.attempt, backend.backend if backend else "")
                else:
                    known.suspended = False
                if self.loses("the answer to the creation"):
                    self.observed[uid] = observed.Trouble("reset", operational=True)
            case decision.SuspendJob():
                if effect.job_name in self.jobs:
                    self.jobs[effect.job_name].suspended = True
            case decision.ResumeJob():
                if effect.job_name in self.jobs:
                    self.jobs[effect.job_name].suspended = False
            case decision.DeleteJob():
                self.jobs.pop(effect.job_name, None)
            case _:
                return
        self.controller()

    def pass_time(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


def _view(name: str, job: Job) -> JobView:
    state = job.state or (JobState.SUSPENDED if job.suspended else JobState.ACTIVE)
    return JobView(name, "u", state, suspended=state is JobState.SUSPENDED)
