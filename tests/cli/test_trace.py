"""`kubectl jervis trace` and the plan in `kubectl jervis result`: what is drawn of a run, and what has changed between
two looks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cli import output
from cli.views import result, story, trace
from contracts.api.history import Trace
from crds import pendingtask
from tests.cli import objects

STEPS: list[dict[str, Any]] = [
    {
        "id": "r1.d1",
        "round": 1,
        "agent": "Coding",
        "status": "COMPLETED",
        "startedAt": objects.at(-90),
        "endedAt": objects.at(-30),
        "llmCalls": 4,
        "tokens": 800,
        "confidence": 0.9,
        "needsVerification": True,
        "effects": [{"ordinal": 3, "what": "push_branch", "state": "done", "asked": True}],
    },
    {"id": "r1.d1.1", "parent": "r1.d1", "round": 1, "agent": "Test", "status": "FAILED"},
    {"id": "r1.d2", "round": 1, "agent": "Git\x1b[2J", "status": "RUNNING", "startedAt": objects.at(-10)},
]


def read(*steps: Any) -> Trace:
    about = {"uid": "u", "namespace": "team", "name": "mail-7", "attempt": 2, "round": 1, "llmCalls": 5, "tokens": 900}
    return Trace.model_validate({**about, "steps": steps})


def test_the_tree() -> None:
    head, _, *rows = output.plain(trace.draw(read(*STEPS), objects.NOW)).splitlines()
    assert head == "team/mail-7: run 2, round 1, 5 model calls, 900 tokens"
    assert [re.split(" {2,}", row) for row in rows] == [
        ["STEP", "AGENT", "STATUS", "BEGAN", "TOOK", "CALLS", "TOOLS", "TOKENS", "CONFIDENCE"],
        ["r1.d1", "Coding", "COMPLETED", "11:58:30Z", "60s", "4", "-", "800", "0.90 (to be verified)"],
        ["└ effect 3", "push_branch", "done (asked)", *["-"] * 6],
        ["└ r1.d1.1", "Test", "FAILED", *["-"] * 6],
        ["r1.d2", "Git\N{REPLACEMENT CHARACTER}[2J", "RUNNING", "11:59:50Z", "10s", *["-"] * 4],
    ]


def test_the_nodes_of_a_run_without_delegations() -> None:
    done = {"round": 1, "status": "COMPLETED", "startedAt": objects.at(-9), "endedAt": objects.at(-8)}
    nodes = [
        {"id": "r1.intake", "agent": "intake", **done},
        {"id": "r1.respond", "agent": "respond", **done, "llmCalls": 1, "tokens": 650, "confidence": 0.9},
        {"id": "r1.finalize", "agent": "finalize", "round": 1, "status": "RUNNING", "startedAt": objects.at(-8)},
    ]
    _, _, _, *rows = output.plain(trace.draw(read(*nodes), objects.NOW)).splitlines()
    assert [re.split(" {2,}", row) for row in rows] == [
        ["r1.intake", "intake", "COMPLETED", "11:59:51Z", "1s", *["-"] * 4],
        ["r1.respond", "respond", "COMPLETED", "11:59:51Z", "1s", "1", "-", "650", "0.90"],
        ["r1.finalize", "finalize", "RUNNING", "11:59:52Z", "8s", *["-"] * 4],
    ]


def test_a_run_of_which_nothing_is_kept() -> None:
    drawn = output.plain(trace.draw(read(), objects.NOW)).splitlines()
    assert drawn[1:] == ["No steps of it are kept."]


def test_only_what_changed_is_printed_again() -> None:
    first = read(STEPS[2])
    assert list(trace.changes(None, first, objects.NOW)) == ["r1.d2 Git\N{REPLACEMENT CHARACTER}[2J RUNNING"]
    assert list(trace.changes(first, first, objects.NOW)) == []
    second = read(*STEPS)
    assert list(trace.changes(first, second, objects.NOW)) == [
        "r1.d1 Coding COMPLETED 60s confidence 0.90 (to be verified)",
        "r1.d1 effect 3: push_branch done, a person was asked",
        "r1.d1.1 Test FAILED",
    ]


STEP = {"description": "Find the slot", "tools": ["search", "ask"], "successCriteria": "The slot is known."}


def lines(**plan: Any) -> list[str]:
    stored = {"exitReason": "Answered", "answer": "C4.", "plan": {"version": 1, "steps": [], **plan}}
    return output.plain(result.draw(stored)).splitlines()


def test_the_steps_and_what_changed_them() -> None:
    shown = lines(
        version=2,
        steps=[STEP, {**STEP, "tools": []}],
        amendments=[{"version": 2, "reason": "Step 2 found nothing."}],
        notes=["Step 1: the tool 'sendMail\x1b[2J' was dropped, no run has it."],
    )
    assert shown == [
        "C4.",
        "",
        "Plan (version 2)",
        "  #   STEP            TOOLS         DONE WHEN",
        "  1   Find the slot   search, ask   The slot is known.",
        "  2   Find the slot   -             The slot is known.",
        "  Version 2: Step 2 found nothing.",
        "  Step 1: the tool 'sendMail\ufffd[2J' was dropped, no run has it.",
    ]


def test_a_failed_plan_has_its_reason() -> None:
    assert lines(failure="It took more than 120 seconds.") == [
        "C4.",
        "",
        "Plan",
        "  No plan: It took more than 120 seconds.",
    ]


@pytest.mark.parametrize(("plan", "shown"), [({"plan": "Failed"}, ["  Plan:    Failed"]), ({}, [])])
def test_the_story_of_a_task_says_what_became_of_it(plan: dict[str, str], shown: list[str]) -> None:
    status = {"phase": "Completed", "result": {"exitReason": "Answered", "summary": "C4.", **plan}}
    task = pendingtask.PendingTask.model_validate(objects.task("disk", status=status))
    told = output.plain(story.draw(task, objects.NOW)).splitlines()
    assert [line for line in told if line.startswith("  Plan")] == shown


def test_a_run_without_a_plan_says_nothing_of_it() -> None:
    assert output.plain(result.draw({"exitReason": "Answered", "answer": "C4.", "plan": None})).splitlines() == ["C4."]


def test_what_the_models_were_not_shown_is_said() -> None:
    said = "9000 of the 32000 characters of the task's text are left out.\x1b[2J"
    stored = {"exitReason": "Answered", "answer": "C4.", "leftOut": [said]}
    assert output.plain(result.draw(stored)).splitlines() == [
        "C4.",
        "",
        "Not looked at",
        "  9000 of the 32000 characters of the task's text are left out.\ufffd[2J",
    ]
    assert output.plain(result.draw({**stored, "leftOut": []})).splitlines() == ["C4."]
