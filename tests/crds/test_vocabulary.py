"""Scope, priority, quantities, conditions, flags, lines of JSON: the words that every room shares."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from crds import conditions, exit_reasons, flags, priority, scope, values
from crds.flags import Flag
from crds.priority import Priority
from text import json_lines


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
    assert not exit_reasons.ASKS & exit_reasons.RESUMABLE
    assert not exit_reasons.FINAL & (exit_reasons.ASKS | exit_reasons.RESUMABLE)


def test_names() -> None:
    assert [(one.value, one.annotation, one.variable) for one in Flag] == [
        ("useDelegationGraph", "jervis.dev/use-delegation-graph", "JERVIS_USE_DELEGATION_GRAPH"),
        ("useSpecialistAgents", "jervis.dev/use-specialist-agents", "JERVIS_USE_SPECIALIST_AGENTS"),
        ("useDagExecution", "jervis.dev/use-dag-execution", "JERVIS_USE_DAG_EXECUTION"),
        ("useProceduralMemory", "jervis.dev/use-procedural-memory", "JERVIS_USE_PROCEDURAL_MEMORY"),
        ("useDecisionAgent", "jervis.dev/use-decision-agent", "JERVIS_USE_DECISION_AGENT"),
    ]


def test_annotations_count_where_they_are_permitted() -> None:
    said = {Flag.DAG_EXECUTION.annotation: "true", Flag.DELEGATION_GRAPH.annotation: "false", "jervis.dev/title": "x"}
    found = flags.chosen(said, "team", "EmailProcessing", permitted=True)
    assert found == flags.Chosen({Flag.DELEGATION_GRAPH: False, Flag.DAG_EXECUTION: True})
    refused = flags.chosen(said, "team", "EmailProcessing", permitted=False)
    assert refused.values == {}
    assert [one.partition(" ")[0] for one in refused.ignored] == [
        "jervis.dev/use-delegation-graph",
        "jervis.dev/use-dag-execution",
    ]
    assert "taskFlags" in refused.ignored[0]


def test_what_is_neither_true_nor_false_is_named() -> None:
    found = flags.chosen({Flag.DAG_EXECUTION.annotation: "yes"}, "team", "EmailProcessing", permitted=True)
    assert found.values == {}
    assert found.ignored == ("jervis.dev/use-dag-execution is 'yes'; write true or false.",)


def test_the_decision_agent_answers_questions_of_users_alone() -> None:
    said = {Flag.DECISION_AGENT.annotation: "true"}
    found = flags.chosen(said, "team", "UserInputProcessing", permitted=True)
    assert found == flags.Chosen({Flag.DECISION_AGENT: True})
    refused = flags.chosen(said, "team", "EmailProcessing", permitted=True)
    assert refused == flags.Chosen(
        {},
        (
            "jervis.dev/use-decision-agent is for tasks whose spec.type is UserInputProcessing, and this one is"
            " EmailProcessing; leave it out, or create the task with that type.",
        ),
    )


_TEXTS = st.text(st.sampled_from("a\n\r\x0b\x85\u2028\u2029é "))


@given(st.lists(_TEXTS))
def test_a_record_that_we_write_is_one_line_to_every_reader(texts: list[str]) -> None:
    line = json_lines.line(json.dumps(texts, ensure_ascii=False))
    assert [json.loads(each) for each in line.decode().splitlines()] == [texts]


@given(st.lists(_TEXTS, max_size=5), st.integers(1, 7), st.booleans())
async def test_a_record_is_whole(texts: list[str], size: int, ended: bool) -> None:
    body = b"\n".join(json.dumps(text, ensure_ascii=False).encode() for text in texts) + (b"\n \n" if ended else b"")

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    assert [json.loads(line) async for line in json_lines.split(pieces())] == texts
