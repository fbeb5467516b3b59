"""Three-way routing of seed 000, row by row."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controllers import clients
from controllers.pendingtask import directive, observed
from controllers.pendingtask.decide import decide
from crds.pendingtask import Decision, Hints, Type
from crds.phases import Phase
from kb import api
from tests.controllers import build
from tests.controllers.build import NOW

LEAD = timedelta(days=2)


def hints(actionable: bool = True, ours: bool = False, deadline: float | None = None, future: bool = True) -> Hints:
    return Hints(
        has_actionable_content=actionable,
        is_assigned_to_me=ours,
        has_future_deadline=deadline is not None and future,
        suggested_deadline=None if deadline is None else NOW + timedelta(days=deadline),
    )


@pytest.mark.parametrize(
    ("found", "decision", "phase"),
    [
        (hints(actionable=False), Decision.INFO_ONLY, Phase.DONE),
        (hints(actionable=False, ours=True, deadline=30), Decision.INFO_ONLY, Phase.DONE),
        (hints(ours=True), Decision.EXECUTE_HIGH, Phase.READY_FOR_GPU),
        (hints(ours=True, deadline=30), Decision.EXECUTE_HIGH, Phase.READY_FOR_GPU),
        (hints(deadline=30), Decision.DEFER, Phase.SCHEDULED),
        (hints(deadline=2.01), Decision.DEFER, Phase.SCHEDULED),
        (hints(deadline=2), Decision.DEFER, Phase.SCHEDULED),
        (hints(deadline=1.999), Decision.EXECUTE, Phase.READY_FOR_GPU),
        (hints(deadline=1), Decision.EXECUTE, Phase.READY_FOR_GPU),
        (hints(deadline=-3), Decision.EXECUTE, Phase.READY_FOR_GPU),
        (hints(deadline=30, future=False), Decision.EXECUTE, Phase.READY_FOR_GPU),
        (hints(), Decision.EXECUTE, Phase.READY_FOR_GPU),
        (Hints(has_actionable_content=True, has_future_deadline=True), Decision.EXECUTE, Phase.READY_FOR_GPU),
    ],
)
def test_decision_tree(found: Hints, decision: Decision, phase: Phase) -> None:
    made = directive.of_hints(Type.EMAIL, found, "because", lead=LEAD, now=NOW)
    assert (made.decision, made.phase) == (decision, phase)
    assert "because" in made.reason


def test_a_deferred_task_is_due_lead_days_before_its_deadline() -> None:
    made = directive.of_hints(Type.EMAIL, hints(deadline=10), "", lead=LEAD, now=NOW)
    assert made.due == NOW + timedelta(days=8)


@pytest.mark.parametrize("type_", sorted(directive.ORDERED))
def test_what_somebody_ordered_is_executed_whatever_the_hints_say(type_: Type) -> None:
    made = directive.of_hints(type_, hints(actionable=False), "", lead=LEAD, now=NOW)
    assert made.decision is Decision.EXECUTE


def test_a_chat_message_is_executed_as_user_input() -> None:
    assert directive.of_chat() == directive.Chosen(Decision.EXECUTE, "user input")


@pytest.mark.parametrize(("client", "phase"), [("acme", Phase.SCHEDULED), ("hasty", Phase.READY_FOR_GPU)])
def test_the_lead_is_the_client_s_own(client: str, phase: Phase) -> None:
    own = clients.Clients(clients.Terms(LEAD), {"hasty": clients.Terms(timedelta(days=30))})
    seen = observed.ObservedState(limits=observed.Limits(clients=own), observed=observed.Ingested(hints(deadline=10)))
    made = decide(build.task(Phase.QUALIFYING, spec={"clientId": client}), seen, NOW)
    assert made.phase is phase


@pytest.mark.parametrize(
    ("decision", "phase"),
    [
        (Decision.INFO_ONLY, Phase.DONE),
        (Decision.EXECUTE, Phase.READY_FOR_GPU),
        (Decision.EXECUTE_HIGH, Phase.READY_FOR_GPU),
        (Decision.DEFER, Phase.SCHEDULED),
        (Decision.ASK, Phase.USER_TASK),
        (Decision.FAIL, Phase.USER_TASK),
    ],
)
@pytest.mark.parametrize("type_", [Type.EMAIL, Type.USER_TASK])
@pytest.mark.parametrize("found", [hints(actionable=False), hints(ours=True), hints(deadline=30)])
def test_a_hard_rule_decides_whatever_the_hints_say(
    found: Hints, type_: Type, decision: Decision, phase: Phase
) -> None:
    asked = ("Who has paid?",) if decision is Decision.ASK else ()
    failure = "No orders by chat." if decision is Decision.FAIL else ""
    ruled = observed.Ruled(decision, ("letters (version 2): route",), 90, asked, failure)
    said = api.QualifierDirective(action=api.DirectiveAction.FAIL, message="Of the model.")
    seen = observed.ObservedState(observed=observed.Ingested(found, reason="a letter", ruled=ruled, directive=said))
    made = decide(build.task(Phase.QUALIFYING, spec={"type": type_.value}), seen, NOW)
    assert made.phase is phase
    [qualified] = [one for one in made.status_patch["conditions"] if one["type"] == "Qualified"]
    assert qualified["reason"] == decision.value
    assert "a hard rule decides: letters (version 2)" in qualified["message"]
    assert failure in qualified["message"]
    route = made.status_patch["route"]
    assert route["decision"] == decision.value
    assert route["hints"]["hasActionableContent"] is found.has_actionable_content
    questions = made.status_patch.get("userTask", {}).get("questions") or []
    assert [one["text"] for one in questions] == list(asked)
    due = "2027-03-01T13:30:00Z" if decision is Decision.DEFER else None
    assert made.status_patch.get("scheduledFor") == due
