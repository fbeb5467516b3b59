"""What finished runs taught reaches the knowledge base: real apiserver, real operator process, MongoDB's wire."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
OFTEN = {"ARCHIVE_SECONDS": 0.2, "OUTCOME_SECONDS": 0.2, "IDENTITY": "operator-0"}
STEP = {"action": "found wiki::1", "result": "How it is done."}
STORED = {"attempt": 1, "exitReason": "Answered", "answer": "Done [2].", "question": "Do it."}
CHAT: dict[str, Any] = {"type": "UserInputProcessing", "ttlSecondsAfterFinished": 0}


def noted(database: Any) -> dict[str, str]:
    """What became of each outcome, by the name of the task."""
    return {one["name"]: one["outcome"]["told"] for one in database["task_archive"].find() if "outcome" in one}


def test_each_run_is_told_once_when_it_is_over_also_by_another_operator(
    space: Space, start: Start, knowledge: Knowledge, database: Any
) -> None:
    with Kubelet(space.api, space.name), start(**OFTEN) as operator:
        made = {}
        for name, category, steps in (("learned", "single_task", [STEP]), ("asked", "advice", [])):
            # Held until its result is there: it could be over before.
            made[name] = space.submit(name, **CHAT, suspend=True)["metadata"]["uid"]
            result = {**STORED, "_id": made[name], "taskCategory": category, "taskAction": "respond"}
            database["task_results"].insert_one({**result, "stepResults": steps})
            space.edit(name, {"suspend": False})
        space.submit("read", "INFO")
        until(lambda: len(noted(database)) == 2, "both runs are told about")
        assert noted(database) == {"learned": "remembered", "asked": "insignificant"}
        until(lambda: operator.metric("jervis_operator_outcomes_total") == 2, "both are counted, after the note")
        until(lambda: space.phase("read") == "Done", "what has not run is done")
        operator.kill()
        with start(**OFTEN):
            space.submit("next", **CHAT)
            until(lambda: len(noted(database)) == 3, "the next one is told about")
        told = {one.task_id: one for one in knowledge.outcomes}
        assert len(knowledge.outcomes) == len(told) == 3
        learned = told[made["learned"]]
        assert (learned.final_result, learned.question, learned.task_category) == ("Done [2].", "Do it.", "single_task")
        assert [(one.action, one.result) for one in learned.step_results] == [(STEP["action"], STEP["result"])]
        assert learned.scope.client_id == "acme"


def test_a_knowledge_base_that_is_away_holds_nothing_up_and_is_told_later(
    space: Space, start: Start, knowledge: Knowledge, database: Any
) -> None:
    knowledge.busy = True
    with Kubelet(space.api, space.name), start(**OFTEN) as operator:
        for name in ("first", "second"):
            space.submit(name, **CHAT)
        until(lambda: not space.every(), "both are completed, archived and deleted all the same")
        until(lambda: operator.metric("jervis_operator_outcomes_total") > 1, "it was tried more than once")
        assert (noted(database), knowledge.outcomes) == ({}, [])
        knowledge.busy = False
        until(lambda: len(noted(database)) == 2, "both are told about later")
        assert len({one.task_id for one in knowledge.outcomes}) == len(knowledge.outcomes) == 2
