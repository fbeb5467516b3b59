"""The story of one task: what it is, what happened when and why, what it asks, how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from rich import console, text

from cli import age, order
from cli.views import effects, queue, table, waiting
from contracts.api import queue_api
from crds import labels, pendingtask, permits, phases
from crds.pendingtask import UserTaskKind
from text import printable

_SHOWN = 400


def draw(
    task: pendingtask.PendingTask, now: datetime, place: queue_api.Waiting | None = None
) -> console.RenderableType:
    """Sections that have nothing to say are left out. `place`: what the operator says of its place in the queue."""
    return console.Group(*_sections(task, now, place))


def _sections(
    task: pendingtask.PendingTask, now: datetime, place: queue_api.Waiting | None
) -> Iterator[console.RenderableType]:
    yield from _head(task, now, place)
    yield from _timeline(task)
    yield from _recurrence(task, now)
    yield from _run(task, now)
    yield from _conditions(task, now)
    yield from _permits(task)
    yield from _effects(task)
    yield from _questions(task)
    yield from _messages(task)
    yield from _result(task)
    yield from _next(task)


def _head(
    task: pendingtask.PendingTask, now: datetime, place: queue_api.Waiting | None
) -> Iterator[console.RenderableType]:
    meta, spec, status = task.metadata, task.spec, task.status
    scope = " / ".join(one for one in (spec.client_id, spec.group_id, spec.project_id) if one)
    mode = pendingtask.Mode.FOREGROUND if order.foreground(spec) else pendingtask.Mode.BACKGROUND
    yield _field("Name", f"{meta.namespace}/{meta.name}")
    title = meta.annotations.get(labels.TITLE, "")
    if title:
        yield _field("Title", title)
    yield _field("Type", f"{spec.type.value}, {mode.value}")
    yield _field("Client", scope)
    if spec.source_urn:
        yield _field("Source", spec.source_urn)
    if spec.content is not None:
        yield _field("Content", printable.line(spec.content, 100))
    elif spec.content_ref is not None:
        yield _field("Content", f"{spec.content_ref.bytes} bytes in {spec.content_ref.store}:{spec.content_ref.key}")
    if spec.queue_position is not None:
        yield _field("Position", str(spec.queue_position))
    lacks = queue.waits_for(task, now) if place is None else ""
    yield _field("Phase", order.phase(task).value + (f", waits for {lacks}" if lacks else ""))
    if place is not None:
        yield _field("Waits", _waits(place, now))
    if status.route is not None:
        why = f": {status.route.reason}" if status.route.reason else ""
        yield _field("Route", f"{status.route.decision.value}{why}")


def _waits(place: queue_api.Waiting, now: datetime) -> str:
    """For what, behind what, since when."""
    number, _, names = waiting.before(place).partition(" ")
    before = f"; {'none' if number == '0' else number} before it{f' {names}' if names else ''}" if number else ""
    return f"for {waiting.lacks(place, now)}{before}; since {_moment(place.since)} ({age.since(place.since, now)})"


def _timeline(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    """Each phase once, at its last entry: that is what the operator keeps."""
    created = task.metadata.creation_timestamp
    steps = [("Created", created)] if created is not None else []
    ranks = {phase.value: rank for rank, phase in enumerate(phases.Phase)}
    entered = sorted(task.status.phase_times.items(), key=lambda one: (one[1], ranks.get(one[0], len(ranks))))
    steps += [(name, at) for name, at in entered]
    if not steps:
        return
    rows, before = [], steps[0][1]
    for name, at in steps:
        rows.append((name, _moment(at), f"+{age.span((at - before).total_seconds())}"))
        before = at
    yield text.Text("\nTimeline", style="bold")
    yield table.plain(("PHASE", "ENTERED", "AFTER"), rows, indent=2)


def _run(task: pendingtask.PendingTask, now: datetime) -> Iterator[console.RenderableType]:
    status = task.status
    if not status.attempt and status.retry is None:
        return
    yield text.Text("\nRun", style="bold")
    if status.attempt:
        taken = f", preempted {status.preemptions} times" if status.preemptions else ""
        yield _field("  Attempt", f"{status.attempt}{taken}")
    if status.dispatch is not None:
        yield _field("  Job", f"{status.dispatch.job_name} on {status.dispatch.backend}")
    if status.retry is not None:
        at = status.retry.next_at
        when = "" if at is None else f" at {_moment(at)}"
        yield _field("  Retry", f"no. {status.retry.count}{when}: {printable.line(status.retry.reason, _SHOWN)}")


def _recurrence(task: pendingtask.PendingTask, now: datetime) -> Iterator[console.RenderableType]:
    """When a recurring task runs next, and what its last run became."""
    known, following = task.status.recurrence, task.status.scheduled_for
    if known is None:
        return
    yield text.Text("\nSchedule", style="bold")
    yield _field("  Cron", f"{known.cron} ({known.time_zone or 'UTC'})")
    yield _field("  Next", "never" if following is None else f"{_moment(following)}, in {age.until(following, now)}")
    if known.last_run is not None:
        yield _field("  Last", f"{_moment(known.last_run)} as {known.last_task}")


def _conditions(task: pendingtask.PendingTask, now: datetime) -> Iterator[console.RenderableType]:
    if not task.status.conditions:
        return
    rows = [
        (c.type, c.status.value, c.reason, age.since(c.last_transition_time, now), printable.line(c.message, _SHOWN))
        for c in task.status.conditions
    ]
    yield text.Text("\nConditions", style="bold")
    yield table.plain(("TYPE", "STATUS", "REASON", "AGE", "MESSAGE"), rows, indent=2)


def _questions(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    """Open ones, and the answers that were given so far."""
    asked = task.status.user_task
    open_ones = asked.questions if asked is not None else ()
    answers = {one.id: one for one in task.spec.answers}
    if open_ones:
        yield text.Text("\nQuestions", style="bold")
        rows = [(one.id, one.text, answers[one.id].text if one.id in answers else "(open)") for one in open_ones]
        yield table.plain(("ID", "QUESTION", "ANSWER"), rows, indent=2)
    earlier = [one for one in task.spec.answers if one.id not in {each.id for each in open_ones}]
    if earlier:
        yield text.Text("\nAnswers", style="bold")
        yield table.plain(("ID", "ANSWER", "BY"), [(one.id, one.text, one.author) for one in earlier], indent=2)
    if task.spec.approval is not None:
        said = task.spec.approval
        words = [said.verdict.value, f"by {said.author}" if said.author else "", f"({said.request_id})"]
        words.append(f"but for {len(said.effects)} effects" if said.effects else "")
        comment = f": {said.comment}" if said.comment else ""
        yield _field("\nDecision", " ".join(one for one in words if one and one != "()") + comment)


def _effects(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    """What will be done once it is approved, in that order."""
    asked = task.status.user_task
    if asked is None or order.phase(task) is not phases.Phase.USER_TASK:
        return
    if asked.effects:
        more = (asked.effects_waiting or 0) - len(asked.effects)
        listed = f"; {more} more are asked for afterwards" if more > 0 else ""
        yield text.Text(f"\nEffects that wait: {asked.effects_waiting or len(asked.effects)}{listed}", style="bold")
    for number, effect in enumerate(asked.effects, start=1):
        given = _arguments(effect.arguments)
        yield from effects.waiting(number, {**effect.wire(), "arguments": given})
        if effect.shortened:
            yield text.Text(f"  (shortened; whole: kubectl jervis result {task.metadata.name})")
        if effect.details_ref:
            key = printable.line(effect.details_ref, 300)
            yield text.Text(f"  (details: kubectl jervis artifacts {task.metadata.name} --get {key})")
    if asked.expires_at is not None:
        yield _field("\nExpires", _moment(asked.expires_at))


def _arguments(given: str) -> object:
    try:
        return json.loads(given)
    except ValueError:
        return {}


def _permits(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    """What the runs may do without asking."""
    if task.spec.permits:
        yield text.Text("\nPermits", style="bold")
    for number, permit in enumerate(task.spec.permits):
        yield _field(f"  [{number}]", permits.text(permit))


def _messages(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    if not task.spec.messages:
        return
    seen = task.status.messages_seen
    rows = [
        (said.id, _moment(said.at) if said.at else "", said.author, "yes" if number < seen else "no", said.text)
        for number, said in enumerate(task.spec.messages)
    ]
    yield text.Text("\nMessages", style="bold")
    yield table.plain(("ID", "AT", "BY", "READ", "TEXT"), rows, indent=2)


def _result(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    result = task.status.result
    if result is None:
        return
    yield text.Text("\nResult", style="bold")
    if result.exit_reason is not None:
        yield _field("  Ended", result.exit_reason.value)
    if result.plan is not None:
        yield _field("  Plan", result.plan.value)
    if result.ref is not None and result.ref.key:
        yield _field("  Whole", f"kubectl jervis result {task.metadata.name}")
    for line in printable.text(result.summary).splitlines():
        yield text.Text(f"  {line}")


def _next(task: pendingtask.PendingTask) -> Iterator[console.RenderableType]:
    """What the reader can do about it."""
    asked, name = task.status.user_task, task.metadata.name
    if asked is None or order.phase(task) is not phases.Phase.USER_TASK:
        return
    several = " --all" if len(asked.effects) > 1 else ""
    some = ", or --only 1,3, or --edit" if several else " (--edit to change it)" if asked.effects else ""
    commands = {
        UserTaskKind.QUESTION: f"kubectl jervis answer {name}",
        UserTaskKind.APPROVAL: f"kubectl jervis approve {name}{several}{some}, or reject {name}",
        UserTaskKind.FAILURE: f"kubectl jervis retry {name}, or reject {name} to give up",
    }
    yield _field("\nNext", commands[asked.kind])


def _field(name: str, value: str) -> text.Text:
    drawn = text.Text()
    drawn.append(f"{name}:".ljust(11 + name.count("\n")), style="bold")
    return drawn.append(printable.line(value))


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
