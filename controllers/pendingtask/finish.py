"""The end: terminal phases, and tasks that are being deleted.

What follows a finished task (archive, the Jobs' removal, deletion) is `controllers.archive`.
"""

from __future__ import annotations

from controllers.pendingtask.decision import Decision, DeleteJob, View, act, wait
from controllers.pendingtask.world import JobState
from crds.phases import HOLDS_SLOT


def over(view: View) -> Decision | None:
    """A finished task is in no watch; one that is seen all the same is left as it is."""
    return wait()


def deleted(view: View) -> Decision:
    """Somebody's finalizer still holds the task, or its dependents go first: a run that nobody wants ends now.

    Without a finalizer the task is simply gone, and its Job with it (it is the owner). Either way its slot stays taken
    until its pods are gone.
    """
    job = view.world.job
    if view.phase in HOLDS_SLOT and job is not None and job.state in (JobState.ACTIVE, JobState.SUSPENDED):
        return act(DeleteJob(job.name))
    return wait()
