"""Rules have the last word, in any order, and only where they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import scope
from kb import api, visibility
from kb.rules import enforce
from tests.kb import scopes, world

ACTIONABLE = api.Hints(
    has_actionable_content=True,
    is_assigned_to_me=True,
    has_future_deadline=False,
    urgency="high",
    reason="They ask for a fix.",
)
IDLE = ACTIONABLE.model_copy(update={"has_actionable_content": False, "is_assigned_to_me": False})
UNJUDGED = ACTIONABLE.model_copy(update={"failure": "The model could not judge it."})
ASKING = ACTIONABLE.model_copy(update={"questions": ["When?"]})
ROUTES = ("InfoOnly", "Execute", "ExecuteHigh", "Defer 5", "Defer 90", 'Ask "A?"', 'Ask "B?"', 'Fail "F"')


def rule(
    content: str,
    owner: scope.Scope = scopes.ACME,
    key: str = "k",
    version: int = 1,
    rule_type: api.RuleType = api.RuleType.ROUTING,
) -> api.Rule:
    """As it is in force."""
    kept: dict[str, Any] = {"scope": owner, "rule_key": key, "version": version, "description": ""}
    made: dict[str, Any] = {"created_at": datetime(2026, 3, 2, tzinfo=UTC), "created_by": "jana"}
    return api.Rule(rule_type=rule_type, rule_content=content, **kept, **made)


def draft(content: str, key: str = "r", owner: scope.Scope = scopes.SHOP, **more: Any) -> api.RuleDraft:
    """As it is sent to a service."""
    filled = {"rule_type": api.RuleType.ROUTING, "created_by": "jana"} | more
    return api.RuleDraft(scope=owner, rule_key=key, rule_content=content, **filled)


def settled(hints: api.Hints, *contents: str, **more: Any) -> tuple[api.Hints, list[str]]:
    rules = [rule(f"enforce: {line}", key=f"k{at}") for at, line in enumerate(contents)]
    request = world.request(**more)
    found, acted = enforce.match_rules(rules, request, request.content or "").apply_rules(hints)
    return found, [one.effect for one in acted]


@pytest.mark.parametrize("hints", [ACTIONABLE, IDLE, UNJUDGED, ASKING])
@pytest.mark.parametrize("route", ROUTES)
def test_a_route_holds_whatever_models_say(hints: api.Hints, route: str) -> None:
    found, acted = settled(hints, f"route {route} when kind email and sender jana@acme.com")
    name = route.split()[0]
    assert found.route == name
    assert [one.split()[1] for one in acted] == [name]
    assert (found.has_actionable_content, found.reason) == (hints.has_actionable_content, hints.reason)
    assert found.defer_minutes == (int(route.split()[1]) if name == "Defer" else 0)
    assert (found.questions[:1] == [route[5:-1]]) is (name == "Ask")
    assert found.failure == ("F" if name == "Fail" else "")


def test_without_a_condition_that_is_met_nothing_changes() -> None:
    assert settled(ASKING, "route InfoOnly when kind commit", "never-say x") == (ASKING, [])
    assert settled(ASKING) == (ASKING, [])


@pytest.mark.parametrize(
    ("hints", "more", "route"),
    [
        (ACTIONABLE, {}, "Ask"),
        (ASKING, {}, "Ask"),
        (IDLE, {}, None),
        (UNJUDGED, {}, None),
        (IDLE, {"kind": "user_task"}, "Ask"),
        (IDLE, {"kind": "scheduled_task"}, "Ask"),
    ],
)
def test_a_person_is_asked_before_what_would_be_executed(
    hints: api.Hints, more: dict[str, Any], route: str | None
) -> None:
    found, acted = settled(hints, 'ask-before-execute "Is it paid?" when contains "login bug"', **more)
    assert found.route == route
    assert found.questions == (["Is it paid?", *hints.questions] if route else hints.questions)
    assert acted == (["ask-before-execute"] if route else [])


@pytest.mark.parametrize(
    ("route", "expected"), [("Execute", "Ask"), ("Defer 5", "Ask"), ("InfoOnly", "InfoOnly"), ('Fail "F"', "Fail")]
)
def test_a_person_is_asked_before_what_a_rule_would_execute(route: str, expected: str) -> None:
    lines = (f"route {route} when kind email", 'ask-before-execute "Q?" when kind email')
    found, acted = settled(IDLE, *lines)
    assert found.route == expected
    assert found.questions == (["Q?"] if expected == "Ask" else [])
    assert acted == ["ask-before-execute" if expected == "Ask" else f"route {expected}"]


def test_questions_of_both_kinds_of_lines_are_asked_together() -> None:
    lines = ('route Ask "First?" when kind email', 'ask-before-execute "Second?" when kind email')
    found, acted = settled(IDLE, *lines)
    assert (found.route, found.questions) == ("Ask", ["First?", "Second?"])
    assert acted == ["route Ask", "ask-before-execute"]


@given(st.permutations(ROUTES), st.integers(1, len(ROUTES)))
def test_the_order_of_rules_does_not_matter_and_the_most_careful_wins(routes: list[str], count: int) -> None:
    chosen = routes[:count]
    lines = [f"route {one} when kind *" for one in chosen]
    found, acted = settled(ACTIONABLE, *lines)
    again, acted_again = settled(ACTIONABLE, *lines[::-1])
    assert found.model_copy(update={"questions": sorted(found.questions)}) == again.model_copy(
        update={"questions": sorted(again.questions)}
    )
    assert sorted(acted) == sorted(acted_again)
    careful = ("Fail", "Ask", "InfoOnly", "Defer", "ExecuteHigh", "Execute")
    assert found.route == min((one.split()[0] for one in chosen), key=careful.index)
    if found.route == "Defer":
        assert found.defer_minutes == max(int(one.split()[1]) for one in chosen if one.startswith("Defer"))
        assert len(acted) == 1


@given(scopes.ANY, scopes.ANY)
def test_a_rule_acts_in_its_scope_only(owner: scope.Scope, where: scope.Scope) -> None:
    request = world.request(owner=where)
    met = enforce.match_rules([rule("enforce: route InfoOnly when kind *", owner, "k", 3)], request, world.MAIL)
    found, acted = met.apply_rules(ACTIONABLE)
    assert (found.route == "InfoOnly") is visibility.governs(owner, where)
    assert [(one.scope, one.rule_key, one.version) for one in acted] == ([(owner, "k", 3)] if found.route else [])


def test_a_rule_that_cannot_be_enforced_hands_the_task_to_a_person() -> None:
    found, acted = settled(ACTIONABLE, "route InfoOnly when kind email", "route Nowhere when kind chat")
    assert found.route == "Fail"
    assert "'k1' (version 1)" in found.failure
    assert "InfoOnly, Execute" in found.failure
    assert acted == ["cannot be enforced"]


def test_questions_are_bounded() -> None:
    lines = [f'route Ask "Question {number}?" when kind email' for number in range(20)]
    found, acted = settled(ASKING, *lines)
    assert (len(found.questions), len(acted)) == (16, 20)


@pytest.mark.parametrize(
    ("mail", "senders"),
    [
        (world.MAIL, ["jana@acme.com"]),
        ("From: a@x.test\nFrom: B <b@x.test>\n\nFrom: c@x.test", ["a@x.test", "b@x.test"]),
        ("Hello.\nFrom: a@x.test\n\n", []),
        ("", []),
        ("From: \n\n", []),
        ('From: "a@x.test" <b@y.test>, =?utf-8?q?J=C3=A1?= <j@z.test>\n\n', ["b@y.test", "j@z.test"]),
    ],
)
def test_who_sent_a_mail(mail: str, senders: list[str]) -> None:
    assert list(enforce.senders(mail)) == senders


@pytest.mark.parametrize(("kind", "met"), [("email", True), ("Mail", True), ("note", False)])
def test_every_kind_of_mail_has_a_sender(kind: str, met: bool) -> None:
    line = rule("enforce: route InfoOnly when sender jana@acme.com")
    found, _ = enforce.match_rules([line], world.request(kind=kind), world.MAIL).apply_rules(ACTIONABLE)
    assert (found.route == "InfoOnly") is met


@given(st.text(max_size=300))
def test_any_text_is_a_mail_without_harm(text: str) -> None:
    enforce.senders(text)
    enforce.senders(f"From: {text}\n\n{text}")


def test_a_model_is_told_rules_of_the_type_custom_whole_and_within_bounds() -> None:
    custom = [
        rule(content, owner, key, rule_type=api.RuleType.CUSTOM)
        for content, owner, key in (
            ("Invoices are urgent.\nenforce: never-say x", scopes.SHOP, "b"),
            ("x" * (enforce.PROMPT_RULES_CHARS - 10), scopes.ACME, "long"),
            ("Be kind.", scopes.ACME, "a"),
            ("Of others.", scopes.TILL, "c"),
            ("enforce: always-cite", scopes.ACME, "e"),
        )
    ]
    rules = [*custom, rule("Not for models of the qualification.", scopes.ACME, "d")]
    met = enforce.match_rules(rules, world.request(), world.MAIL)
    assert met.prompt_rules == ("Be kind.", "x" * (enforce.PROMPT_RULES_CHARS - 10))
    found, acted = met.apply_rules(ACTIONABLE)
    assert found == ACTIONABLE
    assert [(one.rule_key, one.effect) for one in acted] == [("b", "left out of the prompt: too long")]
