"""Runs that cannot go on where they are: their node does not answer, or their GPU backend is gone.

Both give the Job up; what follows is what follows whenever a Job is gone: once no pod lives, the end of the run is
looked for, and the task goes back to ReadyForGpu for the next attempt. A pod of a node that does not answer may still
run for a while: the fence of the task's memory (one epoch per process) lets it write nothing any more.

Source: blueprint section 4 "Stale recovery"; Kubernetes "Pod garbage collection", "Taint based evictions".
"""

from __future__ import annotations

from controllers.pendingtask.decision import Decision, DeleteJob, View, act, condition, remark, to, wait
from controllers.pendingtask.drain import POLL_SECONDS
from controllers.pendingtask.world import JobState
from crds.phases import Phase

BACKEND_GONE = "BackendGone"


def stranded(view: View) -> Decision | None:
    """Every pod of the run should be gone for long and is still there."""
    job = view.world.job
    if job is None or job.state is not JobState.ACTIVE:
        return None
    mine = [pod for pod in view.world.pods if pod.live and pod.attempt == view.task.status.attempt]
    if not mine or any(pod.lives(view.now) for pod in mine):
        return None
    told = f"Pod {mine[0].name} should have ended by {mine[0].given_up_at:%H:%M:%S} UTC; its node does not answer."
    problem = condition(view, "Dispatched", False, "NodeLost", told)
    return remark(view, problem, decision=act(DeleteJob(job.name), requeue_after=POLL_SECONDS))


def stray(view: View) -> Decision | None:
    """A Job of another run of this task is there and may run: its creation came too late. It goes."""
    strays = view.world.strays
    return act(*map(DeleteJob, strays), requeue_after=POLL_SECONDS) if strays else None


def unserved(view: View) -> Decision | None:
    """The backend whose slot is booked was deleted, or has not been Ready for a while: stop, start over elsewhere."""
    dispatch, job = view.task.status.dispatch, view.world.job
    if not view.world.backend_gone or dispatch is None:
        return None
    told = f"GpuBackend {dispatch.backend} is gone or not Ready; the run moves to another one."
    problem = condition(view, "Dispatched", False, BACKEND_GONE, told)
    if job is not None and job.state is not JobState.DELETING:
        return remark(view, problem, decision=act(DeleteJob(job.name), requeue_after=POLL_SECONDS))
    if job is not None or view.live_pods():
        return wait(POLL_SECONDS)
    return to(view, Phase.READY_FOR_GPU, BACKEND_GONE, told, problem, warning=True, fields={"dispatch": None})
