"""Hints do not contradict themselves or the calendar."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kb.ingest import hints

_NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def settle(**given: Any) -> tuple[bool, str | None]:
    judgement = {
        "hasActionableContent": True,
        "isAssignedToMe": False,
        "hasFutureDeadline": True,
        "suggestedDeadline": None,
        "urgency": "normal",
        "summary": "s",
        "reason": "r",
    } | given
    made = hints.settle(hints.Judgement.model_validate_json(json.dumps(judgement)), _NOW)
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
