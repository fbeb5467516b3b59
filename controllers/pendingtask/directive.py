"""The directive of qualification: from what the knowledge base says of a task to the task's one transition. Pure.

- `of_hints` is the decision tree of the seed: hints -> decision.
- `choose`: directive -> decision. Execute follows the tree. Ask and Fail go to a person, Defer waits; none of them
  needs a model, a store or the cluster, so the same directive of the same reading is always the same decision.
- `transition`: decision -> the one status write. It sets the route, and a task with a route never goes back to
  Qualifying (`phases`). The question whether a link may be opened comes before its reading, so it sets no route.
- What hard rules decide (`of_rules`) comes before all that. A task that repeats another one is Done with it.
- A task that a user created on purpose is executed, whatever the directive: its run can ask questions itself.
- Content that asks for nothing is information only, also when the directive is Ask or Defer. A deferred task starts no
  later than its deadline's lead before.

Source: seed 000 "Three-Way Task Routing" (the decision tree, SCHEDULE_LEAD_DAYS); seed 002 "DirectiveHandler".
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controllers.pendingtask.decision import Decision, Field, View, clip, condition, moment, to
from controllers.pendingtask.observed import Ingested, Ruled
from controllers.pendingtask.policy import user_task
from crds import conditions, pendingtask
from crds.pendingtask import Hints, Type
from crds.phases import Phase
from kb import api

ORDERED = frozenset({Type.USER_TASK, Type.SCHEDULED})
"""A user created tasks of these types on purpose: they are ingested, and executed regardless of the hints."""

PHASES: Mapping[pendingtask.Decision, Phase] = {
    pendingtask.Decision.INFO_ONLY: Phase.DONE,
    pendingtask.Decision.EXECUTE: Phase.READY_FOR_GPU,
    pendingtask.Decision.EXECUTE_HIGH: Phase.READY_FOR_GPU,
    pendingtask.Decision.DEFER: Phase.SCHEDULED,
    pendingtask.Decision.ASK: Phase.USER_TASK,
    pendingtask.Decision.FAIL: Phase.USER_TASK,
}
"""Where each decision takes a task from Qualifying."""
_RULES_CHARS = 500
_MOST_QUESTIONS = 16


@dataclass(frozen=True, slots=True)
class Chosen:
    """A decision and why. `due` comes with Defer: when the work should begin; `questions` with Ask."""

    decision: pendingtask.Decision
    reason: str
    due: datetime | None = None
    questions: tuple[str, ...] = ()

    @property
    def phase(self) -> Phase:
        """Where the task goes."""
        return PHASES[self.decision]


def of_chat() -> Chosen:
    """A user's message."""
    return Chosen(pendingtask.Decision.EXECUTE, "user input")


def of_hints(type_: Type, hints: Hints, why: str, *, lead: timedelta, now: datetime) -> Chosen:
    """The decision tree of the seed, in its order; `why` is the qualifier's own sentence."""
    suffix = f": {why}" if why else ""
    if type_ in ORDERED:
        return Chosen(pendingtask.Decision.EXECUTE, f"made by a user{suffix}")
    if not hints.has_actionable_content:
        return Chosen(pendingtask.Decision.INFO_ONLY, f"information only{suffix}")
    if hints.is_assigned_to_me:
        return Chosen(pendingtask.Decision.EXECUTE_HIGH, f"assigned to us{suffix}")
    deadline = hints.suggested_deadline
    if hints.has_future_deadline and deadline is not None:
        if deadline >= now + lead:
            return Chosen(pendingtask.Decision.DEFER, f"deadline {deadline:%Y-%m-%d}{suffix}", deadline - lead)
        return Chosen(pendingtask.Decision.EXECUTE, f"deadline {deadline:%Y-%m-%d} is close{suffix}")
    return Chosen(pendingtask.Decision.EXECUTE, f"something is asked for{suffix}")


def choose(type_: Type, found: Ingested, *, lead: timedelta, now: datetime) -> Chosen:
    """The decision about a task whose content was read; `lead` is its client's own."""
    if found.repeats:
        return Chosen(pendingtask.Decision.INFO_ONLY, found.repeats)
    if found.ruled is not None:
        chosen = of_rules(found.ruled, found.reason, now=now)
    else:
        chosen = _of_directive(type_, found, lead, now)
    unstored = found.superseded or found.forbidden
    return replace(chosen, reason=f"{chosen.reason}. {unstored}") if unstored else chosen


def of_rules(ruled: Ruled, why: str, *, now: datetime) -> Chosen:
    """What hard rules decide holds for every task, those included that a user created; `why` is the qualifier's own
    sentence."""
    parts = ["a hard rule decides", "; ".join(ruled.rules)[:_RULES_CHARS], ruled.failure, why]
    due = now + timedelta(minutes=ruled.minutes) if ruled.decision is pendingtask.Decision.DEFER else None
    asked = ruled.questions if ruled.decision is pendingtask.Decision.ASK else ()
    questions = tuple(one.strip() for one in asked if one.strip())[:_MOST_QUESTIONS]
    return Chosen(ruled.decision, ": ".join(part for part in parts if part), due, questions)


def _of_directive(type_: Type, found: Ingested, lead: timedelta, now: datetime) -> Chosen:
    given, hints = found.directive, found.hints
    by_hints = of_hints(type_, hints, found.reason, lead=lead, now=now)
    if given is None or type_ in ORDERED:
        return by_hints
    if given.action is api.DirectiveAction.FAIL:
        return Chosen(pendingtask.Decision.FAIL, given.message)
    if not hints.has_actionable_content:
        return by_hints
    if given.questions is not None:
        why = f"something has to be known first: {given.message}"
        return Chosen(pendingtask.Decision.ASK, why, questions=tuple(given.questions))
    if given.defer_minutes is not None:
        latest = hints.suggested_deadline - lead if hints.has_future_deadline and hints.suggested_deadline else None
        due = now + timedelta(minutes=given.defer_minutes)
        if latest is None or latest >= due:
            return Chosen(pendingtask.Decision.DEFER, f"not before {due:%Y-%m-%d %H:%M}: {given.message}", due)
    return by_hints


def transition(
    view: View,
    chosen: Chosen,
    hints: pendingtask.Hints,
    summary: str = "",
    *,
    beside: str = "",
    routed: bool = True,
    conds: tuple[conditions.Condition, ...] = (),
) -> Decision:
    """The one write that executes a decision. `summary` is the result of a task that is Done with it, `beside` a
    sentence that the condition has after the reason. Not `routed`: the answer to an Ask returns the task to
    qualification."""
    reason = chosen.reason[:1024]
    said = f"{reason.rstrip('.')}. {beside}" if beside else reason
    done = condition(view, "Qualified", True, chosen.decision.value, said)
    fields: dict[str, Field] = {
        "retry": None,
        "route": pendingtask.Route(decision=chosen.decision, hints=hints, reason=reason),
    }
    if not routed and chosen.decision is pendingtask.Decision.ASK:
        fields["route"] = None
    if chosen.phase is Phase.USER_TASK:
        return _hand_over(view, chosen, done, *conds, fields=fields)
    if chosen.phase is Phase.DONE:
        fields["result"] = pendingtask.Result(summary=clip(summary or chosen.reason))
    if chosen.due is not None:
        fields["scheduled_for"] = moment(chosen.due)
    return to(view, chosen.phase, chosen.decision.value, chosen.reason, done, *conds, fields=fields)


def _hand_over(view: View, chosen: Chosen, *conds: conditions.Condition, fields: dict[str, Field]) -> Decision:
    """Ask and Fail: a person acts before any run. What the person wrote earlier is input only."""
    asks = chosen.decision is pendingtask.Decision.ASK
    kind = pendingtask.UserTaskKind.QUESTION if asks else pendingtask.UserTaskKind.FAILURE
    spec = view.task.spec
    # An answer is written once: a question under its id could not be answered.
    taken = {one.id for one in spec.answers}
    free = (id_ for id_ in (f"q{number}" for number in itertools.count(1)) if id_ not in taken)
    asked = tuple(
        pendingtask.Question(id=id_, text=clip(text)) for text, id_ in zip(chosen.questions, free, strict=False)
    )
    return user_task.to_user(
        view,
        pendingtask.UserTask(kind=kind, questions=asked),
        chosen.decision.value,
        "\n".join(one.text for one in asked) if asks else chosen.reason,
        *conds,
        fields={**fields, "messages_seen": len(spec.messages), "answers_seen": len(spec.answers)},
    )
