"""What of a delegation is counted, under bounded labels, and that nothing is lost between two processes."""

from __future__ import annotations

from typing import Any

import prometheus_client
import pytest

from controllers.delegations import totals


def ended(agent: str = "Research", **more: Any) -> dict[str, Any]:
    times = {"startTime": "2027-03-01T12:00:00+00:00", "endTime": "2027-03-01T12:00:04+00:00"}
    known = {"agentName": agent, "success": True, "llmCalls": 2, "tokenCount": 700, "confidence": 0.9}
    return {**known, **times, **more}


def exported(made: totals.Totals) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples by name and the values of their labels."""
    registry = prometheus_client.CollectorRegistry()
    totals.Exported(registry, "x").totals = made
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def counted(*documents: dict[str, Any]) -> totals.Totals:
    made = totals.Totals()
    for one in documents:
        made.add(one)
    return made


def test_a_delegation_is_counted_by_agent_and_outcome() -> None:
    found = exported(
        counted(
            ended(),
            ended(success=False, confidence=0.8, retries=1, escalated=True),
            ended("Coding", success=False, stopped=True, confidence=0.0, endTime="2027-03-01T13:00:00+00:00"),
        )
    )
    assert {labels: value for (name, labels), value in found.items() if name == "x_delegations_total"} == {
        ("Research", "completed"): 1,
        ("Research", "failed"): 1,
        ("Coding", "stopped"): 1,
    }
    failed = ("Research", "failed")
    assert found["x_delegation_retries_total", failed] == found["x_delegation_escalations_total", failed] == 1
    assert found["x_delegation_retries_total", ("Research", "completed")] == 0
    assert found["x_delegation_model_calls_total", failed] == 2
    assert found["x_delegation_seconds_sum", failed] == 4
    assert found["x_delegation_seconds_bucket", (*failed, "2.5")] == 0
    assert found["x_delegation_seconds_bucket", (*failed, "5.0")] == 1
    assert found["x_delegation_seconds_bucket", ("Coding", "stopped", "1800.0")] == 0
    assert found["x_delegation_seconds_bucket", ("Coding", "stopped", "+Inf")] == 1
    assert found["x_delegation_tokens_bucket", (*failed, "500.0")] == 0
    assert found["x_delegation_tokens_bucket", (*failed, "1000.0")] == 1
    assert found["x_delegation_confidence_bucket", (*failed, "0.7")] == 0
    assert found["x_delegation_confidence_bucket", (*failed, "0.8")] == 1
    assert found["x_delegation_confidence_count", ("Coding", "stopped")] == 0


def test_effects_are_counted_by_what_allowed_them() -> None:
    made = counted(
        ended("Email", effects={"Permit": 2, "Approval": 1}),
        ended("Email", success=False, effects={"Permit": 1, "Guess": 7}),
        ended(effects=None),
    )
    loaded = totals.Totals.load(made.dump())
    for found in (exported(made), exported(loaded)):
        assert {labels: value for (name, labels), value in found.items() if name == "x_effects_total"} == {
            ("Email", "Permit"): 3,
            ("Email", "Approval"): 1,
        }


def test_a_report_that_another_agent_had_to_replace_is_not_completed() -> None:
    made = counted(ended(confidence=0.2, retries=1, escalated=True), ended("LegacyAgent"))
    assert {key: one.escalations for key, one in made.series.items()} == {
        ("Research", "failed"): 1,
        ("LegacyAgent", "completed"): 0,
    }


def test_names_that_are_no_agents_and_too_many_of_them_are_one() -> None:
    made = counted(ended("Ann said: pay"), ended(""), {"success": True}, *(ended(f"A{n}") for n in range(60)))
    names = {agent for agent, _ in made.series}
    assert len(names) == totals.MOST_AGENTS + 1
    assert made.series["other", "completed"].delegations == 3 + 20
    made.add(ended("A1"))
    assert made.series["A1", "completed"].delegations == 2


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"agentName": 7, "startTime": "yesterday", "endTime": None, "tokenCount": "many", "confidence": float("nan")},
        {"agentName": "Research", "startTime": "2027-03-01T12:00:00", "endTime": "2027-03-01T12:00:00+00:00"},
        {"agentName": "Research", "llmCalls": -3, "retries": None},
    ],
)
def test_an_incomplete_document_counts_once_and_with_what_it_has(broken: dict[str, Any]) -> None:
    made = counted(broken)
    [series] = made.series.values()
    assert (series.delegations, series.model_calls, series.retries) == (1, 0, 0)
    assert (sum(series.seconds.counts), sum(series.confidence.counts)) == (0, 0)


def test_what_is_stored_is_what_is_read() -> None:
    made = counted(ended(), ended("Coding", retries=1, escalated=True, success=False))
    assert exported(totals.Totals.load(made.dump())) == exported(made)


def test_a_histogram_with_other_bounds_begins_anew_and_the_counters_go_on() -> None:
    [stored] = counted(ended()).dump()
    stored["tokens"] = {"bounds": [1.0], "counts": [0, 1], "total": 700.0}
    read = totals.Totals.load([stored]).series["Research", "completed"]
    assert (read.delegations, sum(read.seconds.counts), sum(read.tokens.counts)) == (1, 1, 0)


def test_one_that_stands_by_exports_no_samples() -> None:
    assert exported(totals.Totals()) == {}
