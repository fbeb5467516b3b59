"""Terminal phases: expire the last Job, then leave the watch. Archive and deletion after the TTL are not here."""

from __future__ import annotations

from controllers.pendingtask.decision import Decision, Effect, ExpireJob, LabelFinished, View, act, wait
from controllers.pendingtask.world import JobState
from crds import pendingtask

LABELLED = "true"


def label(view: View) -> Decision | None:
    """The label comes last: a task without it is looked at again after a restart."""
    if view.task.metadata.labels.get(pendingtask.FINISHED_LABEL) == LABELLED:
        return wait()
    effects: tuple[Effect, ...] = (LabelFinished(),)
    job = view.world.job
    if job is not None and not job.has_ttl and job.state in (JobState.COMPLETE, JobState.FAILED):
        effects = (ExpireJob(job.name, view.world.limits.job_ttl_seconds), *effects)
    return act(*effects)
