"""`decide(task, state, now) -> Decision`: pure, total, level-based.

`CHAINS` lists the policies of each phase in order. The first policy that returns a decision wins; the last one of each
chain always returns one. Finished and deleted tasks are decided here too; what follows a finished task (archive,
removal of its Jobs, deletion) is `controllers.archive`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from controllers.pendingtask.decision import Decision, DeleteJob, View, act, wait
from controllers.pendingtask.observed import JobState, ObservedState
from controllers.pendingtask.policy import (
    admission,
    analysis,
    answered,
    dispatched,
    interruption,
    orchestrating,
    qualifying,
    ready_for_gpu,
    scheduled,
    user_task,
)
from crds import pendingtask
from crds.phases import HOLDS_SLOT, Phase


def over(view: View) -> Decision | None:
    """A finished task is not watched; if one is reconciled nevertheless, it stays unchanged."""
    return wait()


def deleted(view: View) -> Decision:
    """The task is being deleted, but a finalizer or foreground deletion keeps the object: its run ends now.

    Otherwise the object disappears at once, and `orphans` deletes its Job. In both cases the slot stays taken until the
    pods have ended.
    """
    job = view.state.job
    if view.phase in HOLDS_SLOT and job is not None and job.state in (JobState.ACTIVE, JobState.SUSPENDED):
        return act(DeleteJob(job.name))
    return wait()


Policy = Callable[[View], Decision | None]

_HELD: tuple[Policy, ...] = (admission.refused, admission.allowed, interruption.suspended, interruption.resumed)

CHAINS: Mapping[Phase, tuple[Policy, ...]] = {
    Phase.NEW: (*_HELD, scheduled.admit),
    Phase.SCHEDULED: (answered.superseded, scheduled.on_record, *_HELD, scheduled.fire),
    Phase.READY_FOR_QUALIFICATION: (
        answered.superseded,
        *_HELD,
        analysis.analyzed,
        interruption.retry_later,
        qualifying.claim,
    ),
    # Suspension does not interrupt a reading: it holds no GPU, and its result is needed in any case.
    Phase.QUALIFYING: (
        admission.unread,
        qualifying.chat,
        qualifying.postpone,
        qualifying.refuse,
        qualifying.route,
        qualifying.restart,
    ),
    Phase.READY_FOR_GPU: (
        answered.superseded,
        interruption.delete_superseded,
        interruption.stop_unbooked,
        *_HELD,
        interruption.still_suspended_by_others,
        interruption.released_by_others,
        ready_for_gpu.over,
        ready_for_gpu.running,
        interruption.retry_later,
        ready_for_gpu.bystanders,
        ready_for_gpu.breaker,
        ready_for_gpu.idle,
        ready_for_gpu.slot,
        ready_for_gpu.claim,
    ),
    Phase.DISPATCHED_GPU: (
        admission.unlaunched,
        dispatched.trouble,
        interruption.delete_superseded,
        dispatched.started,
        interruption.record_preemption,
        interruption.suspend_run,
        interruption.suspended_by_others,
        interruption.backend_gone,
        interruption.node_lost,
        dispatched.stale,
        dispatched.token,
        dispatched.launch,
        dispatched.starting,
    ),
    Phase.ORCHESTRATING: (
        interruption.delete_superseded,
        orchestrating.ended,
        interruption.record_preemption,
        interruption.suspend_run,
        interruption.suspended_by_others,
        interruption.backend_gone,
        interruption.node_lost,
        interruption.resume,
        orchestrating.spoken,
        orchestrating.running,
    ),
    Phase.USER_TASK: (
        answered.superseded,
        interruption.delete_superseded,
        *_HELD,
        user_task.question,
        user_task.approval,
        user_task.messages,
        user_task.unusable,
        user_task.expired,
        user_task.failure,
        user_task.still,
    ),
    Phase.DONE: (over,),
    Phase.COMPLETED: (over,),
    Phase.ERROR: (over,),
}


def decide(task: pendingtask.PendingTask, state: ObservedState, now: datetime) -> Decision:
    """The decision about `task`, given `state` at `now` (aware, UTC)."""
    view = View(task, state, now)
    if task.metadata.deletion_timestamp is not None:
        return deleted(view)
    for policy in CHAINS[view.phase]:
        decision = policy(view)
        if decision is not None:
            return decision
    raise AssertionError(f"no policy decided about a task in {view.phase}")
