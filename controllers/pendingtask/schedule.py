"""New and Scheduled: when is a task due?

Source: seed 000 "Scheduler Loop": ten minutes ahead; one-shot tasks go to qualification; a cron template stays and a
copy is made for each run under a deterministic name; an impossible cron falls back to one-shot with a condition.
What a recurring task does while it is Scheduled is in `recur`.
"""

from __future__ import annotations

from datetime import datetime

from controllers.pendingtask import cron, recur
from controllers.pendingtask.decision import Decision, Field, View, condition, moment, to, until, whole
from crds.phases import Phase


def admit(view: View) -> Decision | None:
    """New: plan it or hand it to qualification."""
    plan = view.task.spec.schedule
    if plan is None:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Accepted", "Waiting for qualification.")
    if plan.cron is not None:
        try:
            due = cron.next_run(plan, view.now)
        except cron.ImpossibleError as error:
            problem = condition(view, "Scheduled", False, "InvalidCron", f"{error}; it runs once, now. Mend the field.")
            return to(view, Phase.READY_FOR_QUALIFICATION, "InvalidCron", str(error), problem, warning=True)
    elif plan.at is not None:
        due = plan.at
    else:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Accepted", "The schedule is empty; due now.")
    if plan.cron is None and due <= view.now + view.world.limits.advance:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Due", f"Due at {moment(due)}.")
    fields: dict[str, Field] = {"scheduled_for": moment(due)}
    if plan.cron is not None:
        fields["recurrence"] = recur.memory(plan)
    return to(view, Phase.SCHEDULED, "Scheduled", f"Due at {moment(due)}.", fields=fields)


def fire(view: View) -> Decision | None:
    """Scheduled: wait until ten minutes ahead, then go on; a template makes its copy and plans the next run."""
    task = view.task
    if recur.is_template(task):
        return recur.fire(view)
    deferred = task.status.route is not None
    due = _due(view)
    if due > view.now + view.world.limits.advance:
        if task.status.scheduled_for != whole(due):
            return Decision({"scheduledFor": moment(due)})
        return until(view, due - view.world.limits.advance)
    gone: dict[str, Field] = {"scheduled_for": None, "recurrence": None}
    if deferred:
        return to(view, Phase.READY_FOR_GPU, "Due", "The deferred task is due.", fields=gone)
    return to(view, Phase.READY_FOR_QUALIFICATION, "Due", f"Due at {moment(due)}.", fields=gone)


def _due(view: View) -> datetime:
    """The persisted moment of a deferred task; before qualification what the spec says, which its user may edit."""
    task = view.task
    plan = task.spec.schedule
    if task.status.route is not None:
        return task.status.scheduled_for or view.now
    return plan.at if plan is not None and plan.at is not None else view.now
