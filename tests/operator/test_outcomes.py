"""What runs leave behind: outcomes for the knowledge base, plans, delegations, spans, and a log that says nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts import trace
from tests.controllers.delegations.test_totals import ended
from tests.controllers.test_tracing import Collector, collector
from tests.operator import kubelet
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Start
from tests.waiting import until

__all__ = ["collector"]

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
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


PLANS = {"planned": "Made", "amended": "Amended", "failed": "Failed"}


def said(task: str, attempt: int) -> dict[str, Any]:
    plan = {"plan": PLANS[task]} if task in PLANS else {}
    return {**kubelet.answered(task, attempt), **plan}


def test_the_status_and_the_metric_say_what_became_of_a_plan(space: Space, start: Start) -> None:
    names = [*PLANS, "unplanned"]
    with kubelet.Kubelet(space.api, space.name, said), start(slots=4) as operator:
        for name in names:
            space.submit(name, "Replace the disk.")
        until(lambda: space.phases() == dict.fromkeys(names, "Completed"), "all have run")
        assert {name: space.status(name)["result"].get("plan") for name in names} == {**PLANS, "unplanned": None}
        for outcome in PLANS.values():
            assert operator.metric(f'jervis_operator_plans_total{{outcome="{outcome}"}}') == 1
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


COUNTED = "jervis_operator_delegations_total"


def leave(database: Any, release: str, *names: str) -> None:
    """As runs write them."""
    documents = [{"_id": f"u/{name}", "taskUid": "u", "release": release, **ended()} for name in names]
    database["delegation_metrics"].insert_many(documents)


def test_the_next_operator_goes_on_with_the_totals(space: Space, start: Start, database: Any) -> None:
    release = f"{space.name}/jervis-operator"
    leave(database, release, "r1.d1", "r1.d2", "r1.d3")
    leave(database, "elsewhere/jervis-operator", "r1.d4")
    with start(IDENTITY="operator-0") as operator:
        until(lambda: operator.metric(COUNTED) == 3, "the delegations are counted")
        assert operator.metric("jervis_operator_delegation_seconds_count") == 3
        operator.kill()
        leave(database, release, "r2.d1")
        with start(IDENTITY="operator-0") as successor:
            until(lambda: successor.metric(COUNTED) == 4, "the totals go on, with the one that ended meanwhile")
            assert successor.metric("jervis_operator_delegation_tokens_count") == 4
    assert database["delegation_metrics"].count_documents({"counted": True}) == 4


def test_one_trace_from_the_object_to_the_run(
    space: Space, start: Start, knowledge: Knowledge, collector: Collector
) -> None:
    with Kubelet(space.api, space.name), start(TRACING="true") as operator:
        uid = space.submit("work", type="UserTask", mode="Foreground", correlationId="chat-7")["metadata"]["uid"]
        until(lambda: space.phase("work") == "Completed", "it is completed")
        assert space.status("work")["traceId"] == uid.replace("-", "")
        assert knowledge.parents == [trace.parent(uid)]
        variables = {one.name: one.value for one in space.jobs()[0].spec.template.spec.containers[0].env}
        assert variables["JERVIS_TRACEPARENT"] == trace.parent(uid)
        assert operator.stop() == 0
        spans = collector.spans()
        assert {span.trace_id.hex() for span in spans.values()} == {uid.replace("-", "")}
        assert {"Qualifying", "Orchestrating", "task UserTask"} <= set(spans)
        lines = [json.loads(line) for line in operator.log.read_text().splitlines() if line.startswith("{")]
        about = [line for line in lines if line.get("task") == "work"]
        assert about
        assert {(line["uid"], line["correlation_id"]) for line in about} == {(uid, "chat-7")}
        assert about[-1]["trace_id"] == uid.replace("-", "")


def test_untraced_by_default(space: Space, start: Start, knowledge: Knowledge) -> None:
    with start():
        space.bring("Done", "info", "INFO")
        assert "traceId" not in space.status("info") or space.status("info")["traceId"] == ""
        assert knowledge.parents == [None]


SAID = [f"quetzal{number}" for number in range(6)]
SECRETS = ["canary-kb-token", "canary-mailbox-password", "canary-old-password"]


def test_neither_content_nor_secrets(space: Space, start: Start) -> None:
    space.secret("mailbox", username="ada", password=SECRETS[2])
    connection = {
        "type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mailbox"},
    }  # fmt: skip
    with Kubelet(space.api, space.name), start(slots=2, LOG_LEVEL="debug", KB_TOKEN=SECRETS[0]) as operator:
        space.create("connections", "Connection", "mailbox", connection)
        space.submit("mail", f"ASK {SAID[0]}")
        space.submit("chat", f"{SAID[1]}?", type="UserInputProcessing", mode="Foreground")
        space.submit("bad", f"INVALID {SAID[2]}")
        space.submit("told", f"INFO {SAID[3]}", messages=[{"id": "m1", "text": SAID[4], "at": "2026-03-01T00:00:00Z"}])
        space.secret("mailbox", password=SECRETS[1])
        until(
            lambda: all(phase in ("Completed", "Done", "Error", "UserTask") for phase in space.phases().values()),
            "all have ended",
        )
        log = operator.log.read_text()
    assert '"level": "debug"' in log, "it logs as much as it can"
    found = [line for line in log.splitlines() if any(text in line for text in (*SAID, *SECRETS))]
    assert found == []
