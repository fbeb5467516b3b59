"""The proof of the delegating run, in small: what the figures of bench.agents rest on, and that the targets hold."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from bench.agents import crashes, runaway, shapes, short, trees
from bench.agents.report import Report, percentile, spread
from bench.agents.site import Point, kind_of, opened
from tests import thorough

SEEDS = [seed for seed in range(1, 60) if len(shapes.shape(seed).effects()) >= 3][: len(crashes.KINDS)]


def test_a_seed_is_a_shape_with_marks_of_its_own() -> None:
    some = [shapes.shape(seed) for seed in range(300)]
    assert some == [shapes.shape(seed) for seed in range(300)]
    for one in some:
        parts = list(one.all())
        assert len({part.name for part in parts}) == len(parts)
        calls = [call for part in parts for turn in part.turns for call in turn]
        assert len({call.mark for call in calls}) == len(calls)
        assert sum(call.tool == "delegate" for call in calls) == len(parts) - len(one.parts)
        assert all(call.arguments["query"] in one.found for call in calls if call.tool == "search_knowledge")
    tools = Counter(call.tool for one in some for call in one.effects())
    assert set(tools) == set(shapes.EFFECTS)
    assert any(part.doubts for one in some for part in one.all())
    assert any(part.gives_up for one in some for part in one.all())


def test_kinds_of_changes() -> None:
    announced = {"insert": "orchestrator_ledger", "documents": [{"_id": "uid/r1.d1.2/3"}]}
    started = {"query": {"_id": "uid/r1.d1/2"}, "update": {"$set": {"state": "started"}}}
    assert kind_of("orchestrator_ledger", announced) == "intent"
    assert kind_of("orchestrator_ledger", started) == "started"
    own = {"query": {"_id": "uid/r1.result/0"}, "update": {"$set": {"state": "done"}}}
    assert kind_of("orchestrator_ledger", own) == "result"
    assert kind_of("orchestrator_checkpoints", {}) == "checkpoint"
    assert kind_of("orchestrator_fences", {}) == "other"
    assert Point("done", 2, reached=False).name == "acknowledged"


def test_what_is_missed() -> None:
    report = Report(checks={"a": (1, 1), "b": (2, 1), "c": (math.nan, 1)})
    assert report.missed() == ["b: 2 is above 1", "c: nan is above 1"]
    assert [percentile([4, 1, 3, 2], which) for which in (50, 95)] == [2, 4]
    assert math.isnan(percentile([], 50))
    assert spread([0.1, 0.3]) == {"count": 2, "p50_ms": 100, "p95_ms": 300, "max_ms": 300}


def test_every_point_of_a_run() -> None:
    found = crashes.every(Counter({"checkpoint": 2, "sent": 1, "performed": 1, "done": 1}))
    assert [(one.name, one.number, one.reached) for one in found] == [
        ("checkpoint", 1, False),
        ("checkpoint", 1, True),
        ("checkpoint", 2, False),
        ("checkpoint", 2, True),
        ("acknowledged", 1, False),
        ("done", 1, True),
        ("performed", 1, True),
        ("sent", 1, False),
    ]


async def test_a_script_that_repeats_itself_is_ended_at_the_third_of_the_same() -> None:
    report = await runaway.run(thorough.examples(1200), 1)
    assert (report.missed(), report.figures["sameCallMost"]) == ([], 3)
    assert report.figures["withoutDetectionSameCallMost"] > 100


@pytest.mark.services
async def test_a_short_question_costs_one_model_call_and_with_all_flags_that_of_the_planner() -> None:
    report = await short.run(1)
    assert report.missed() == []
    assert report.figures["modelCalls"] == {"withoutFlags": [1], "allFlags": [2]}
    assert {report.figures[kind][way]["count"] for kind in ("forked", "fromNothing") for way in short.WAYS} == {1}


@pytest.mark.services
async def test_trees_overspend_a_call_in_each_branch_and_a_counter_read_before_it_more() -> None:
    report = await trees.run(thorough.examples(1000), 1)
    assert report.missed() == []
    naive = report.figures["checkBeforeCallKilled"]
    assert naive["callsBeyondTheBound"] > 0
    assert naive["callsThatWereNotCounted"] > 0


@pytest.mark.services
@thorough.only  # Kills at boundaries: tests/orchestrator_job/run/test_delegation_crashes.py.
async def test_a_killed_run_is_equal_to_the_undisturbed_one_and_a_plain_graph_is_not() -> None:
    cases = list(zip(crashes.KINDS, SEEDS, strict=True))
    async with opened() as site:
        for kind, seed in cases:
            shape = shapes.shape(seed)
            crashes.prepare(site, [shape])
            pair = await crashes.delegating(site, shape, kind, crashes.LOST)
            assert pair.good(), (kind, seed, pair.figures())
            assert pair.killed.points[:1] == [kind]
            assert pair.undisturbed.happened == Counter(shape.wanted())
        # The request was carried out when the process died: the graph does not know that and asks once more.
        plain = await crashes.plainly(site, shape, "performed", 0.0)
        assert plain.killed.points[:1] == ["performed"]
        assert plain.figures()["effectsTwice"] >= 1
