"""New and Scheduled: when is a task due, and when is which copy of a recurring task made? Pure.

A one-shot task goes to qualification `Limits.advance` ahead of its time. A task with a cron expression is a template:
it stays Scheduled, and a copy with a deterministic name is made for each run. A task with an impossible expression runs
once, with a condition.

Rules for recurring tasks, each verified by a property test:

- No run has two copies, whatever happens to the process or the clock: the status stores the planned run and the last
  copy, and the name of a copy contains the time of its run.
- Of the missed runs at most one is made up for: the latest, if it is not older than `Limits.catch_up`. A run during a
  suspension was held back, not missed, and is not made up for.
- An edit of the expression or the zone causes a new plan from then on.
- A copy is made `Limits.advance` ahead of its run, but not before the time of the previous run.
- An existing copy is recorded before the template is suspended: neither an edit by the user nor a crash between its
  creation and its record loses it.

Source: seed 000 "Scheduler Loop".
"""

from __future__ import annotations

from datetime import datetime, timedelta

from controllers.pendingtask.decision import (
    Copy,
    Decision,
    Field,
    Note,
    Recall,
    View,
    act,
    condition,
    moment,
    put,
    remark,
    to,
    until,
    wait,
    whole,
)
from controllers.pendingtask.observed import CopyHeld, CopyMade, NoCopy, Trouble
from controllers.pendingtask.policy import cron, interruption
from crds import conditions, pendingtask, schedule
from crds.phases import Phase


def admit(view: View) -> Decision | None:
    """New: plan the task, or pass it to qualification."""
    plan = view.task.spec.schedule
    if plan is None:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Accepted", "Waiting for qualification.")
    if plan.cron is not None:
        try:
            due = cron.next_run(plan, view.now)
        except cron.ImpossibleError as error:
            problem = condition(view, "Scheduled", False, "InvalidCron", f"{error}; it runs once, now. Fix the field.")
            return to(view, Phase.READY_FOR_QUALIFICATION, "InvalidCron", str(error), problem, warning=True)
    elif plan.at is not None:
        due = plan.at
    else:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Accepted", "The schedule is empty; due now.")
    if plan.cron is None and due <= view.now + view.state.limits.advance:
        return to(view, Phase.READY_FOR_QUALIFICATION, "Due", f"Due at {moment(due)}.")
    fields: dict[str, Field] = {"scheduled_for": moment(due)}
    if plan.cron is not None:
        fields["recurrence"] = memory(plan)
    return to(view, Phase.SCHEDULED, "Scheduled", f"Due at {moment(due)}.", fields=fields)


def fire(view: View) -> Decision | None:
    """Scheduled: wait until `Limits.advance` before the run; a template makes its copy and plans the next run."""
    task = view.task
    if is_template(task):
        return recurring(view)
    deferred = task.status.route is not None
    due = _due(view)
    if due > view.now + view.state.limits.advance:
        if task.status.scheduled_for != whole(due):
            return Decision({"scheduledFor": moment(due)})
        return until(view, due - view.state.limits.advance)
    gone: dict[str, Field] = {"scheduled_for": None, "recurrence": None}
    if deferred:
        return to(view, Phase.READY_FOR_GPU, "Due", "The deferred task is due.", fields=gone)
    return to(view, Phase.READY_FOR_QUALIFICATION, "Due", f"Due at {moment(due)}.", fields=gone)


def _due(view: View) -> datetime:
    """The persisted time of a deferred task; before qualification the time in the spec, which its user may edit."""
    task = view.task
    plan = task.spec.schedule
    if task.status.route is not None:
        return task.status.scheduled_for or view.now
    return plan.at if plan is not None and plan.at is not None else view.now


CLOCK = timedelta(days=1)
"""A last run that is further ahead was made under a wrong clock and is ignored."""
_SECOND = timedelta(seconds=1)


def is_template(task: pendingtask.PendingTask) -> bool:
    """Whether the task makes copies and is never run itself. A qualified task was treated as one-shot before."""
    plan = task.spec.schedule
    return plan is not None and plan.cron is not None and task.status.route is None


def memory(
    plan: schedule.Schedule, made: datetime | None = None, task: str = "", old: schedule.Recurrence | None = None
) -> schedule.Recurrence:
    """What the status stores of `plan`: the run at `made`, or the last run of `old`."""
    if made is None and old is not None:
        made, task = old.last_run, old.last_task
    return schedule.Recurrence(cron=plan.cron or "", time_zone=plan.time_zone or "", last_run=made, last_task=task)


def on_record(view: View) -> Decision | None:
    """Record a new copy before anything else. When the user suspends the template, search for one first."""
    task, seen, due = view.task, view.state.observed, view.task.status.scheduled_for
    plan, known = task.spec.schedule, task.status.recurrence
    if not is_template(task) or plan is None or known is None:
        return None
    if isinstance(seen, CopyMade) and due is not None and seen.due >= due and seen.due != known.last_run:
        return _recorded(view, plan, known, seen, due)
    begins = task.spec.suspend and not interruption.shows_suspended(view)
    return act(Recall(_credible(view))) if begins and not isinstance(seen, CopyMade | NoCopy) else None


def recurring(view: View) -> Decision:
    """What to do about the next run."""
    plan, known, due = view.task.spec.schedule, view.task.status.recurrence, view.task.status.scheduled_for
    assert plan is not None
    if known is None or _edited(plan, known):
        return _plan(view, plan, known, "Planned")
    if known.last_run is not None and known.last_run > _credible(view):
        return _plan(view, plan, None, "ClockSetBack")
    if due is None:
        return wait()  # impossible, as its condition records; an edit causes an event
    try:
        return _next(view, plan, known, due)
    except cron.ImpossibleError as error:
        return _impossible(view, plan, known, error)


def _next(view: View, plan: schedule.Schedule, known: schedule.Recurrence, due: datetime) -> Decision:
    seen = view.state.observed
    start = _start(view, plan, due)
    if start > view.now:
        return until(view, start)
    run = due if due > view.now else _latest(view, plan, due)
    if run is None:
        return _missed(view, plan, known, due)
    if isinstance(seen, Trouble):
        problem = condition(view, "Scheduled", False, "CopyRefused", seen.sentence())
        return remark(view, problem, decision=until(view, view.now + view.state.limits.recheck))
    if isinstance(seen, CopyHeld) and seen.due == run:
        if run > view.now:
            return until(view, min(run, view.now + view.state.limits.recheck))
        text = f"The run of {moment(run)} is skipped: {seen.by} has not ended (concurrencyPolicy Forbid)."
        return _planned(view, plan, memory(plan, old=known), Note("RunSkipped", text), cron.next_run(plan, run))
    return act(Copy(run))


def _credible(view: View) -> datetime:
    """Copies for later runs were made under a wrong clock."""
    return view.now + view.state.limits.advance + CLOCK


def _edited(plan: schedule.Schedule, known: schedule.Recurrence) -> bool:
    return (known.cron, known.time_zone) != (plan.cron, plan.time_zone or "")


def _start(view: View, plan: schedule.Schedule, due: datetime) -> datetime:
    """When the copy for `due` is made."""
    early = due - view.state.limits.advance
    return max(early, cron.last_run(plan, early, due - _SECOND) or early)


def _latest(view: View, plan: schedule.Schedule, due: datetime) -> datetime | None:
    """The run to make up for: the last one up to now, neither too old nor before the end of the last suspension."""
    since = max(due - _SECOND, view.now - view.state.limits.catch_up - _SECOND)
    held = _resumed(view)
    return cron.last_run(plan, max(since, held) if held is not None else since, view.now)


def _resumed(view: View) -> datetime | None:
    """When the user last ended the suspension."""
    found = conditions.find(view.task.status.conditions, "Suspended")
    return found.last_transition_time if found is not None and found.status is conditions.Status.FALSE else None


def _recorded(
    view: View, plan: schedule.Schedule, known: schedule.Recurrence, seen: CopyMade, due: datetime
) -> Decision:
    if _edited(plan, known):
        # The new plan decides the next run.
        memory = {"lastRun": moment(seen.due), "lastTask": seen.name}
        return Decision({"recurrence": memory}, note=Note("CopyCreated", f"Task {seen.name} for {moment(seen.due)}."))
    try:
        return _made(view, plan, seen, due)
    except cron.ImpossibleError as error:
        return _impossible(view, plan, known, error)


def _made(view: View, plan: schedule.Schedule, seen: CopyMade, due: datetime) -> Decision:
    following = cron.next_run(plan, seen.due)
    text = f"Task {seen.name} for {moment(seen.due)}; the next run is at {moment(following)}."
    late = seen.due > due
    if late:
        text = f"{text} Runs from {moment(due)} on were missed; this one makes up for them."
    note = Note("RunsMissed" if late else "CopyCreated", text, warning=late)
    return _planned(view, plan, memory(plan, seen.due, seen.name), note, following)


def _missed(view: View, plan: schedule.Schedule, known: schedule.Recurrence, due: datetime) -> Decision:
    following = cron.next_run(plan, view.now)
    held = _resumed(view)
    if held is not None and held >= due:
        note = Note(
            "RunsHeldBack", f"Runs from {moment(due)} on fell into its suspension; next at {moment(following)}."
        )
    else:
        limit = f"{view.state.limits.catch_up.total_seconds():g}"
        text = f"The run of {moment(due)} was missed more than {limit} s ago; the next one is at {moment(following)}."
        note = Note("RunsMissed", text, warning=True)
    return _planned(view, plan, memory(plan, old=known), note, following)


def _plan(view: View, plan: schedule.Schedule, known: schedule.Recurrence | None, reason: str) -> Decision:
    """Plan again, after the last run that has a copy."""
    after = view.now
    if known is not None and known.last_run is not None:
        after = max(after, known.last_run)
    try:
        following = cron.next_run(plan, after)
    except cron.ImpossibleError as error:
        return _impossible(view, plan, known, error)
    note = Note(reason, f"The next run is at {moment(following)}.", warning=reason == "ClockSetBack")
    return _planned(view, plan, memory(plan, old=known), note, following)


def _planned(
    view: View, plan: schedule.Schedule, known: schedule.Recurrence, note: Note, following: datetime | None
) -> Decision:
    patch = {"scheduledFor": None if following is None else moment(following)}
    # A merge patch merges objects: fields that only the old one has are removed by name.
    fields = {"cron": None, "timeZone": None, "lastRun": None, "lastTask": None, **known.wire()}
    if following is None:
        state = condition(view, "Scheduled", False, note.reason, note.message)
    else:
        zone = f" ({plan.time_zone})" if plan.time_zone else ""
        state = condition(view, "Scheduled", True, "Planned", f"Runs at {plan.cron}{zone}; see status.scheduledFor.")
    listed = put(view, state)
    changed = {} if listed is None else {"conditions": listed}
    observed = {"observedGeneration": view.task.metadata.generation}
    return Decision({**patch, "recurrence": fields, **changed, **observed}, note=note)


def _impossible(
    view: View, plan: schedule.Schedule, known: schedule.Recurrence | None, error: cron.ImpossibleError
) -> Decision:
    """The edited schedule never has a run: no run until the field is fixed."""
    note = Note("InvalidCron", f"{error}. No run is planned; fix the field.", warning=True)
    return _planned(view, plan, memory(plan, old=known), note, None)
