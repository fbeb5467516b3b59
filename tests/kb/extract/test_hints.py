"""Hints do not contradict themselves or the calendar."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kb import errors
from kb.extract import hints

_NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def judged(**given: Any) -> hints.Judgement:
    judgement = {
        "hasActionableContent": True,
        "isAssignedToMe": False,
        "hasFutureDeadline": True,
        "suggestedDeadline": None,
        "urgency": "normal",
        "summary": "s",
        "reason": "r",
    } | given
    return hints.Judgement.model_validate_json(json.dumps(judgement))


def settle(**given: Any) -> tuple[bool, str | None]:
    made = hints.settle(judged(**given), _NOW)
    return made.has_future_deadline, made.suggested_deadline.isoformat() if made.suggested_deadline else None


@pytest.mark.parametrize(
    ("said", "deadline"),
    [
        ("2026-03-20", "2026-03-20T23:59:59+00:00"),
        ("2026-03-02", "2026-03-02T23:59:59+00:00"),
        ("2026-03-20T12:00:00+02:00", "2026-03-20T12:00:00+02:00"),
        ("2026-03-20T12:00:00", "2026-03-20T12:00:00+00:00"),
        ("2026-03-01", None),
        ("null", None),
        ("", None),
        (None, None),
    ],
)
def test_deadlines(said: str | None, deadline: str | None) -> None:
    assert settle(suggestedDeadline=said) == (deadline is not None, deadline)


def test_a_deadline_that_the_model_does_not_believe_in_is_none() -> None:
    assert settle(hasFutureDeadline=False, suggestedDeadline="2026-03-20") == (False, None)


def test_a_long_document_is_judged_by_both_ends() -> None:
    text = "A" * 20_000 + "Z" * 20_000
    short = hints.excerpt(text)
    assert short.startswith("A" * hints.HEAD_CHARS)
    assert short.endswith("Z" * hints.TAIL_CHARS)
    assert len(short) < hints.HEAD_CHARS + hints.TAIL_CHARS + 20


def direct(**given: Any) -> dict[str, Any]:
    """The directive on the wire, of a judgement at nine o'clock."""
    answer = judged(**given)
    found = hints.settle(answer, _NOW)
    return hints.direct(answer, found, _NOW).model_dump(mode="json", by_alias=True, exclude_defaults=True)


@pytest.mark.parametrize(
    ("given", "directive"),
    [
        ({}, {"action": "Execute", "message": "r"}),
        (
            {"action": "Ask", "questions": [" Which? ", "", "Which?"]},
            {"action": "Ask", "message": "r", "questions": ["Which?"]},
        ),
        ({"action": "Ask", "questions": []}, {"action": "Execute", "message": "r"}),
        ({"action": "Ask", "questions": [" "]}, {"action": "Execute", "message": "r"}),
        ({"action": "Ask", "questions": ["?"], "hasActionableContent": False}, {"action": "Execute", "message": "r"}),
        ({"action": "Execute", "questions": ["Which?"]}, {"action": "Execute", "message": "r"}),
        ({"action": "Defer", "deferMinutes": 1440}, {"action": "Defer", "message": "r", "deferMinutes": 900}),
        ({"action": "Defer", "deferMinutes": 540}, {"action": "Execute", "message": "r"}),
        ({"action": "Defer", "deferMinutes": -5}, {"action": "Execute", "message": "r"}),
        ({"action": "Defer", "deferMinutes": 10**7}, {"action": "Execute", "message": "r"}),
        ({"action": "Defer", "deferMinutes": "null"}, {"action": "Execute", "message": "r"}),
        (
            {"action": "Defer", "deferMinutes": 1440, "hasActionableContent": False},
            {"action": "Execute", "message": "r"},
        ),
        ({"action": "Execute", "deferMinutes": 1440}, {"action": "Execute", "message": "r"}),
        ({"action": "Fail"}, {"action": "Fail", "message": "r"}),
        ({"action": "Fail", "reason": " ", "hasActionableContent": False}, {"action": "Fail"}),
        ({"tags": [" bill ", "bill", "", "x" * 50]}, {"action": "Execute", "message": "r", "tags": ["bill", "x" * 40]}),
    ],
)
def test_a_directive_says_what_its_action_can_mean(given: dict[str, Any], directive: dict[str, Any]) -> None:
    assert direct(**given) == {"message": "The model gave no reason.", **directive}


def test_a_document_without_a_judgement_is_a_person_s() -> None:
    failed = errors.Unusable("no answer")
    assert hints.direct(failed, hints.unknown("no answer"), _NOW).action == "Fail"


def test_an_answer_to_the_earlier_prompt_is_a_judgement_without_a_directive() -> None:
    assert judged().action == "Execute"
