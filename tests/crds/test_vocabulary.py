"""Scope, priority, quantities and conditions: the words that every room shares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from crds import conditions, exits, priority, scope, values
from crds.priority import Priority


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", Priority.P0), ("P0", Priority.P0), (" p1 ", Priority.P1), ("critical", Priority.P0),
        ("CODING", Priority.P1), ("vlm", Priority.P2), ("Background", Priority.P3), ("100", Priority.P0),
        ("50", Priority.P3), ("4", Priority.P3), ("99", Priority.P3), ("1, 0", Priority.P1),
        ("", None), (None, None), ("auto", None), ("-1", None), ("urgent!", None), ("p", None), ("²", None),
    ],
)  # fmt: skip
def test_priority_header(text: str | None, expected: Priority | None) -> None:
    assert priority.parse(text) is expected


@given(st.text(max_size=20))
def test_priority_header_never_raises(text: str) -> None:
    assert priority.parse(text) in (None, *Priority)


def test_scope_is_nested() -> None:
    assert scope.Scope(client_id="").is_global
    assert not scope.Scope(client_id="acme", group_id="g").is_global
    with pytest.raises(ValidationError, match="need a clientId"):
        scope.Scope(client_id="", project_id="p")
    with pytest.raises(ValidationError, match="clientId"):
        scope.Scope.model_validate({"clientId": "a b"})


@pytest.mark.parametrize(
    ("text", "size"), [("24Gi", 24 * 2**30), ("1.5Gi", 3 * 2**29), ("500M", 500 * 10**6), ("7", 7)]
)
def test_quantity(text: str, size: int) -> None:
    assert values.quantity_bytes(text) == size


def test_condition_keeps_its_transition_time_while_the_status_stays() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    first = conditions.make("Ready", False, "Unreachable", "no route", now=start)
    same = conditions.make("Ready", False, "Refused", "refused", now=start + timedelta(minutes=1))
    other = conditions.make("Ready", True, "Ok", "", now=start + timedelta(minutes=2))
    kept = conditions.put(conditions.put((), first), same)
    assert [(c.reason, c.last_transition_time) for c in kept] == [("Refused", start)]
    changed = conditions.find(conditions.put(kept, other), "Ready")
    assert changed is not None
    assert changed.last_transition_time == start + timedelta(minutes=2)


def test_exit_reasons_have_one_meaning() -> None:
    assert not exits.ASKS & exits.RESUMABLE
    assert not exits.FINAL & (exits.ASKS | exits.RESUMABLE)
