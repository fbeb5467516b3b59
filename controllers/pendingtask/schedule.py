"""New and Scheduled: when is a task due?

Source: seed 000 "Scheduler Loop": ten minutes ahead; one-shot tasks go to qualification; a cron template stays and a
copy is made for each run under a deterministic name; an impossible cron falls back to one-shot with a condition.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import cronsim

from controllers.pendingtask.decision import Copy, Decision, View, act, condition, moment, to, until
from controllers.pendingtask.world import CopyMade, Trouble
from crds import schedule
from crds.phases import Phase


class ImpossibleError(ValueError):
    """The expression or zone names no moment at all."""


def next_run(plan: schedule.Schedule, after: datetime) -> datetime:
    """The first run strictly after `after` (UTC). Raises `ImpossibleError` with a sentence naming the field."""
    assert plan.cron is not None
    try:
        zone = ZoneInfo(plan.time_zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ImpossibleError(f"spec.schedule.timeZone {plan.time_zone!r} is not a known IANA zone") from error
    try:
        run = next(cronsim.CronSim(plan.cron, after.astimezone(zone)))
    except (cronsim.CronSimError, StopIteration) as error:
        raise ImpossibleError(f"spec.schedule.cron {plan.cron!r} names no date that ever comes") from error
    return run.astimezone(UTC)


def is_template(view: View) -> bool:
    """A recurring task makes copies of itself and is never run itself."""
    plan = view.task.spec.schedule
    return plan is not None and plan.cron is not None


def admit(view: View) -> Decision | None:
    """New: plan it or hand it to qualification."""
    plan = view.task.spec.schedule
    if plan is None:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Accepted", "Waiting for qualification.")
    if plan.cron is not None:
        try:
            due = next_run(plan, view.now)
        except ImpossibleError as error:
            problem = condition(view, "Scheduled", False, "InvalidCron", f"{error}; it runs once, now. Mend the field.")
            return to(view, Phase.READY_FOR_QUALIFICATION, "InvalidCron", str(error), problem, warning=True)
    elif plan.at is not None:
        due = plan.at
    else:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Accepted", "The schedule is empty; due now.")
    if plan.cron is None and due - view.world.limits.advance <= view.now:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Due", f"Due at {moment(due)}.")
    return to(view, Phase.SCHEDULED, "Scheduled", f"Due at {moment(due)}.", fields={"scheduled_for": moment(due)})


def fire(view: View) -> Decision | None:
    """Scheduled: wait until ten minutes ahead, then go on; a template makes its copy and plans the next run."""
    due = _due(view)
    if due - view.world.limits.advance > view.now:
        return until(view, due - view.world.limits.advance)
    if is_template(view):
        return _copy(view, due)
    if view.task.status.route is not None:
        return to(view, Phase.READY_FOR_GPU, "Due", "The deferred task is due.", fields={"scheduled_for": None})
    return to(view, Phase.READY_FOR_QUALIFICATION, "Due", f"Due at {moment(due)}.", fields={"scheduled_for": None})


def _due(view: View) -> datetime:
    """The persisted moment. A user may move a task that has not been qualified by editing `spec.schedule.at`."""
    plan = view.task.spec.schedule
    if view.task.status.route is None and plan is not None and plan.at is not None:
        return plan.at
    return view.task.status.scheduled_for or view.now


def _copy(view: View, due: datetime) -> Decision:
    plan = view.task.spec.schedule
    assert plan is not None
    observed = view.world.observed
    if isinstance(observed, Trouble):
        return until(view, view.now + view.world.limits.recheck)
    if not (isinstance(observed, CopyMade) and observed.due == due):
        return act(Copy(due))
    try:
        # Runs missed while nobody looked are not made up for one by one: the next is the first that is still to come.
        following = next_run(plan, max(due, view.now))
    except ImpossibleError:
        return until(view, view.now + view.world.limits.recheck)
    return Decision({"scheduledFor": moment(following)})
