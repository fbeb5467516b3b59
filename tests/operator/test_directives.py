"""What the knowledge base says that a task needs first, as a person sees it: real apiserver, real operator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.operator import test_superseded
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
ASK = {"action": "Ask", "message": "The account is missing.", "questions": ["Which account?", "By when?"]}
FAIL = {"action": "Fail", "message": "It is encrypted.", "tags": ["encrypted", "mail"]}


def directed(fields: dict[str, Any]) -> str:
    return f"DIRECTIVE {orjson.dumps(fields).decode()}"


def test_each_directive_is_one_transition_and_an_answer_brings_the_task_to_its_run(
    space: Space, start: Start, gpu: str, knowledge: Knowledge, database: Any
) -> None:
    before = datetime.now(UTC)
    with Kubelet(space.api, space.name) as kubelet, start() as operator:
        space.backend(gpu, slots=4)
        space.submit("asks", directed(ASK))
        space.submit("hints", 'HINTS {"questions": ["Which one?"]}')
        space.submit("fails", directed(FAIL))
        space.submit("hopeless", directed(FAIL))
        space.submit("later", directed({"action": "Defer", "message": "After the freeze.", "deferMinutes": 600}))
        space.submit("works", directed({"action": "Execute", "message": "Do it."}))
        space.submit("news", directed({"action": "Execute", "message": "INFO, nothing to do."}))
        waiting = {"asks": "UserTask", "hints": "UserTask", "fails": "UserTask", "hopeless": "UserTask"}
        others = {"later": "Scheduled", "works": "Completed", "news": "Done"}
        until(lambda: space.phases() == waiting | others, "all are routed")

        asked = space.status("asks")
        assert asked["userTask"]["kind"] == "Question"
        assert asked["userTask"]["questions"] == [
            {"id": "q1", "text": "Which account?"},
            {"id": "q2", "text": "By when?"},
        ]
        assert asked["route"]["reason"] == "something has to be known first: The account is missing."
        assert space.status("fails")["userTask"]["kind"] == "Failure"
        assert space.status("fails")["result"]["summary"] == "It is encrypted."
        due = datetime.fromisoformat(space.status("later")["scheduledFor"])
        assert before + timedelta(minutes=599) < due < datetime.now(UTC) + timedelta(minutes=601)
        counted = {
            action: operator.metric(f'jervis_operator_directives_total{{action="{action}"}}')
            for action in ("InfoOnly", "Execute", "ExecuteHigh", "Defer", "Ask", "Fail")
        }
        assert counted == {"InfoOnly": 1, "Execute": 1, "ExecuteHigh": 0, "Defer": 1, "Ask": 2, "Fail": 2}
        assert len(kubelet.seen) == 1, "nothing runs before it is answered"
        memory = database["task_memory"].find_one({"name": "fails"})
        assert (memory["routingDecision"], memory["structuredData"]["tags"]) == ("Fail", "encrypted, mail")

        read = len(knowledge.requests)
        space.edit("asks", {"answers": [{"id": "q1", "text": "The old one."}]})
        space.edit("hints", {"answers": [{"id": "q1", "text": "That one."}]})
        space.edit("fails", {"answers": [{"id": "again", "text": "Here is the key."}]})
        space.edit("hopeless", {"approval": {"verdict": "Rejected"}})
        until(
            lambda: (
                space.phases()
                == {**others, "asks": "UserTask", "hints": "Completed", "fails": "Completed", "hopeless": "Error"}
            ),
            "what is answered runs",
        )
        space.edit("asks", {"answers": [{"id": "q1", "text": "The old one."}, {"id": "q2", "text": "Friday."}]})
        until(lambda: space.phase("asks") == "Completed", "both are answered")
        memory = database["task_memory"].find_one({"name": "asks"})
        assert [one["text"] for one in memory["answers"]] == ["The old one.", "Friday."]
        assert len(knowledge.requests) == read, "nothing is qualified twice"
        assert operator.metric('jervis_operator_directives_total{action="Ask"}') == 2
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


async def test_what_a_mail_leaves_open_is_asked_by_the_knowledge_base_s_model(
    space: Space, local: dict[str, Any], tmp_path: Path
) -> None:
    """The service, its simulated models and the operator: no directive is written by the test."""
    async with test_superseded.site(space, local, tmp_path) as at:
        for name, body in (
            ("open", "Please restart <environment> tonight."),
            ("held", "Please upgrade the router, but wait until next week."),
            ("sealed", "-----BEGIN PGP MESSAGE-----\n\nhQEMA5Xq"),
            ("done", "The router was restarted."),
        ):
            space.submit(name, f"From: a@x.example\nTo: b@x.example\nSubject: Router\n\n{body}\n")
            at.here.hear(space.get(name))
        expected = {"open": "UserTask", "held": "Scheduled", "sealed": "UserTask", "done": "Done"}
        await at.here.until(lambda: space.phases() == expected, "all are routed")
        asked = space.status("open")["userTask"]
        assert asked["kind"] == "Question"
        assert "<environment>" in asked["questions"][0]["text"]
        assert space.status("sealed")["userTask"]["kind"] == "Failure"
        assert space.status("held")["route"]["decision"] == "Defer"
        space.edit("open", {"answers": [{"id": "q1", "text": "Staging."}]})
        at.here.hear(space.get("open"))
        await at.here.until(lambda: space.phase("open") == "ReadyForGpu", "it is answered")
