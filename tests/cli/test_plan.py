"""The plan of a run, as `kubectl jervis result` shows it."""

from __future__ import annotations

from typing import Any

import pytest

from cli import output
from cli.views import result, story
from crds import pendingtask
from tests.cli import objects

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
