"""Directive or hints -> decision -> one write, for every directive that a knowledge base can send; the routing of seed
000, row by row."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers import clients
from controllers.pendingtask import directive, observed, phases
from controllers.pendingtask.decide import decide
from controllers.pendingtask.effects import ingest
from crds import pendingtask
from crds.pendingtask import Decision, Hints, Type
from crds.phases import Phase
from kb import api
from kb.extract import hints as readings
from kb.rules import enforce
from tests import thorough
from tests.controllers import build
from tests.controllers.build import NOW, present
from tests.controllers.strategies import directives
from tests.kb import world
from tests.kb.rules import test_enforce

LEAD = timedelta(days=2)
ACTION = Hints(has_actionable_content=True)


def made(action: str, **more: Any) -> api.QualifierDirective:
    return api.QualifierDirective(action=api.DirectiveAction(action), message="because", **more)


ASK = made("Ask", questions=["Which account?"])
FAIL = made("Fail")


def later(minutes: int) -> api.QualifierDirective:
    return made("Defer", defer_minutes=minutes)


def due_in(days: float, **more: Any) -> Hints:
    at = NOW + timedelta(days=days)
    return Hints(has_actionable_content=True, has_future_deadline=True, suggested_deadline=at, **more)


@pytest.mark.parametrize(
    ("given_", "known", "decision", "due"),
    [
        (made("Execute"), ACTION, Decision.EXECUTE, None),
        (made("Execute"), Hints(), Decision.INFO_ONLY, None),
        (made("Execute"), due_in(10), Decision.DEFER, NOW + timedelta(days=8)),
        (made("Execute"), due_in(10, is_assigned_to_me=True), Decision.EXECUTE_HIGH, None),
        (ASK, ACTION, Decision.ASK, None),
        (ASK, due_in(1), Decision.ASK, None),
        (ASK, Hints(), Decision.INFO_ONLY, None),
        (FAIL, ACTION, Decision.FAIL, None),
        (FAIL, Hints(), Decision.FAIL, None),
        (later(90), ACTION, Decision.DEFER, NOW + timedelta(minutes=90)),
        (later(90), Hints(), Decision.INFO_ONLY, None),
        (later(90), due_in(10), Decision.DEFER, NOW + timedelta(minutes=90)),
        (later(9 * 1440), due_in(10), Decision.DEFER, NOW + timedelta(days=8)),
        (later(90), due_in(1), Decision.EXECUTE, None),
        (None, ACTION, Decision.EXECUTE, None),
    ],
)
def test_directive_and_hints(
    given_: api.QualifierDirective | None, known: Hints, decision: Decision, due: datetime | None
) -> None:
    chosen = directive.choose(Type.EMAIL, observed.Ingested(known, directive=given_), lead=LEAD, now=NOW)
    assert (chosen.decision, chosen.due) == (decision, due)


def test_every_decision_has_a_phase_that_follows_qualifying() -> None:
    assert set(directive.PHASES) == set(Decision)
    assert all(phases.permitted(Phase.QUALIFYING, phase, qualified=True) for phase in directive.PHASES.values())


def test_a_deferred_task_waits_for_its_minutes_and_then_for_a_gpu() -> None:
    task = build.task(Phase.QUALIFYING)
    told = decide(task, observed.ObservedState(observed=observed.Ingested(ACTION, directive=later(90))), NOW)
    waiting = build.apply(task, told.status_patch)
    assert (waiting.status.phase, waiting.status.scheduled_for) == (Phase.SCHEDULED, NOW + timedelta(minutes=90))
    assert decide(waiting, observed.ObservedState(), NOW).phase is None
    assert decide(waiting, observed.ObservedState(), NOW + timedelta(minutes=90)).phase is Phase.READY_FOR_GPU


HINTS = st.builds(
    Hints,
    has_actionable_content=st.booleans(),
    is_assigned_to_me=st.booleans(),
    has_future_deadline=st.booleans(),
    suggested_deadline=st.none() | st.integers(-10, 400).map(lambda days: NOW + timedelta(days=days)),
)


@settings(max_examples=thorough.examples(200))
@given(given_=directives() | st.none(), known=HINTS, type_=st.sampled_from(sorted(Type)))
def test_the_same_directive_is_the_same_write_and_leads_out_of_qualification_for_good(
    given_: api.QualifierDirective | None, known: Hints, type_: Type
) -> None:
    schedule = {"schedule": {"at": "2027-03-01T12:00:00Z"}} if type_ is Type.SCHEDULED else {}
    task = build.task(Phase.QUALIFYING, spec={"type": type_.value, **schedule})
    seen = observed.ObservedState(observed=observed.Ingested(known, directive=given_))
    first, again = decide(task, seen, NOW), decide(task, seen, NOW)
    assert first == again
    assert first.effects == (), "the write is all that happens"
    status = build.apply(task, first.status_patch).status
    assert status.phase is directive.PHASES[present(status.route).decision]
    assert not any(phases.permitted(source, Phase.QUALIFYING, qualified=True) for source in Phase)
    asked = status.user_task.questions if status.user_task else ()
    assert bool(asked) == (present(status.route).decision is Decision.ASK)


@pytest.mark.parametrize(("given_", "kind"), [(ASK, "Question"), (FAIL, "Failure")])
def test_what_was_written_before_a_person_is_asked_answers_nothing(given_: api.QualifierDirective, kind: str) -> None:
    written = {"id": "m1", "text": "Pay it.", "author": "jana", "at": NOW.isoformat()}
    retry = {"count": 3, "nextAt": NOW.isoformat(), "reason": "away"}
    task = build.task(Phase.QUALIFYING, spec={"messages": [written]}, status={"retry": retry})
    seen = observed.ObservedState(observed=observed.Ingested(ACTION, directive=given_))
    asked = build.decided(task, seen)
    assert (present(asked.status.user_task).kind, asked.status.messages_seen, asked.status.retry) == (kind, 1, None)
    assert decide(asked, observed.ObservedState(), NOW).phase is None


def test_a_decision_says_what_became_of_the_content_and_asks_what_is_asked() -> None:
    left_out = observed.Ingested(ACTION, forbidden="The content is not stored.")
    assert directive.choose(Type.EMAIL, left_out, lead=LEAD, now=NOW).reason.endswith(". The content is not stored.")
    many = observed.Ruled(Decision.ASK, ("k (version 1): route Ask",), questions=(" ", *map(str, range(20))))
    chosen = directive.choose(Type.EMAIL, observed.Ingested(ACTION, ruled=many), lead=LEAD, now=NOW)
    assert chosen.questions == tuple(map(str, range(16)))


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "Ask"},
        {"action": "Ask", "questions": []},
        {"action": "Ask", "questions": ["x"] * 17},
        {"action": "Ask", "questions": ["x" * 1001]},
        {"action": "Ask", "questions": ["?"], "deferMinutes": 5},
        {"action": "Execute", "questions": ["?"]},
        {"action": "Defer"},
        {"action": "Defer", "deferMinutes": 0},
        {"action": "Defer", "deferMinutes": 527_041},
        {"action": "Fail", "deferMinutes": 5},
        {"action": "Fail", "tags": list("abcdef")},
        {"action": "Fail", "message": " "},
        {"action": "Wait"},
    ],
)
def test_what_a_directive_may_not_say(fields: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        api.QualifierDirective.model_validate({"message": "because", **fields})


def test_a_directive_on_the_wire() -> None:
    sent = {"action": "Defer", "message": "because", "deferMinutes": 90, "tags": ["invoice"]}
    assert api.QualifierDirective.model_validate(sent).model_dump(mode="json", by_alias=True, exclude_none=True) == sent


def test_the_decision_of_a_directive_is_a_value_of_the_route() -> None:
    assert {action.value for action in api.DirectiveAction} < {one.value for one in pendingtask.Decision}


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


def judged(action: str, *, actionable: bool) -> readings.Judgement:
    """What a model says of a mail: assigned to us, with a deadline that would put an Execute off."""
    return readings.Judgement.model_validate(
        {
            "summary": "a mail",
            "reason": "the model says so",
            "hasActionableContent": actionable,
            "isAssignedToMe": True,
            "suggestedDeadline": (NOW + timedelta(days=30)).isoformat(),
            "hasFutureDeadline": True,
            "urgency": "high",
            "action": action,
            "questions": ["Which account?"],
            "deferMinutes": 3 * 1440,
        }
    )


@pytest.mark.parametrize("actionable", [True, False])
@pytest.mark.parametrize("action", list(api.DirectiveAction))
@pytest.mark.parametrize("route", test_enforce.ROUTES)
def test_the_route_of_a_rule_is_where_the_task_goes_from_the_model_s_answer_on(
    route: str, action: str, actionable: bool
) -> None:
    answer = judged(action, actionable=actionable)
    matches = enforce.match_rules([test_enforce.rule(f"enforce: route {route} when kind email")], world.request(), "")
    decided, rules = matches.apply_rules(readings.settle(answer, NOW))
    directed = readings.direct(answer, decided, NOW)
    nothing: dict[str, Any] = {"chunk_ids": [], "node_keys": [], "edge_count": 0, "replaced": False}
    reply = api.IngestReply(
        source_urn="email::1", summary="s", hints=decided, directive=directed, rules=rules, **nothing
    )
    # Neither a reply without a directive nor one of a knowledge base that wrote the model's is read otherwise.
    for sent in (directed, None, made("Defer", defer_minutes=7)):
        found = ingest.ingested(reply.model_copy(update={"directive": sent}))
        task = build.task(Phase.QUALIFYING, spec={"type": Type.EMAIL.value})
        status = build.decided(task, observed.ObservedState(observed=found)).status
        name, _, words = route.partition(" ")
        assert (present(status.route).decision, status.phase) == (name, directive.PHASES[Decision(name)])
        minutes = int(words) if name == "Defer" else None
        assert status.scheduled_for == (None if minutes is None else NOW + timedelta(minutes=minutes))
        asked = [one.text for one in status.user_task.questions] if status.user_task else []
        assert asked[:1] == ([words.strip('"')] if name == "Ask" else [])
