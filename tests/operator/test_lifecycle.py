"""A task's way, seen through the API alone, and what a cluster does to a run behind the operator's back: real
apiserver, real operator process, a kubelet that is played."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet, Work, answered, never
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def test_a_question_runs_to_completed_and_tells_its_story(
    space: Space, start: Start, database: Any, knowledge: Knowledge
) -> None:
    def says(task: str, attempt: int) -> dict[str, Any] | None:
        """A run that ends before its beginning is written costs one write less."""
        return answered(task, attempt) if space.phase(task) == "Orchestrating" else None

    with Kubelet(space.api, space.name, says) as kubelet, start() as operator:
        made = space.submit("ask", "Who pays?", type="UserInputProcessing", mode="Foreground", correlationId="chat-1")
        until(lambda: space.phase("ask") == "Completed", "the question is answered")
        until(lambda: space.events("ask")[-1:] == ["Completed"], "the last event is posted")
        status = space.get("ask")["status"]
        assert set(status["phaseTimes"]) == {
            "ReadyForQualification",
            "Qualifying",
            "ReadyForGpu",
            "DispatchedGpu",
            "Orchestrating",
            "Completed",
        }
        assert status["result"]["summary"] == "It is done."
        assert status["result"]["ref"]["key"] == "k"
        assert status["leaderEpoch"] == 1
        assert space.events("ask") == ["Accepted", "Qualifying", "Execute", "Dispatched", "Running", "Completed"]
        assert knowledge.requests == [], "a chat message is no knowledge"
        job = space.jobs()[0]
        assert job.metadata.name == f"ask-{made['metadata']['uid'][:8]}-1"
        assert kubelet.duplicates() == []
        memory = database["task_memory"].find_one({"_id": made["metadata"]["uid"]})
        assert memory is not None
        assert (memory["content"], memory["attempt"], memory["correlationId"]) == ("Who pays?", 1, "chat-1")
        assert memory["scope"] == {"clientId": "acme", "projectId": "", "groupId": ""}
        assert operator.metric("jervis_operator_jobs_created_total") == 1
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0
        writes = operator.metric('jervis_operator_api_requests_total{code="200",verb="PATCH"}')
        assert writes == 3, "New to DispatchedGpu, Orchestrating, Completed: the phases between are passed in one write"
        assert operator.stop() == 0


def test_three_way_routing(space: Space, start: Start, knowledge: Knowledge, database: Any) -> None:
    with Kubelet(space.api, space.name), start(slots=4, TEAM="ops, ada@example.org") as operator:
        for name, text in (
            ("info", "INFO"),
            ("mine", "ASSIGNED"),
            ("later", "DEADLINE"),
            ("work", "ASK"),
            ("wrong", "INVALID"),
        ):
            space.submit(name, text)
        expected = {"info": "Done", "mine": "Completed", "later": "Scheduled", "work": "Completed", "wrong": "Error"}
        until(lambda: space.phases() == expected, "all are routed")
        routes = {t["metadata"]["name"]: t["status"].get("route", {}).get("decision") for t in space.every()}
        assert routes == {
            "info": "InfoOnly",
            "mine": "ExecuteHigh",
            "later": "Defer",
            "work": "Execute",
            "wrong": None,
        }
        assert "Choose another." in space.get("wrong")["status"]["conditions"][0]["message"]
        memories = {one["name"]: one for one in database["task_memory"].find()}
        assert {name: one["routingDecision"] for name, one in memories.items()} == {
            name: decision for name, decision in routes.items() if decision
        }
        assert memories["later"]["structuredData"]["deadline"]
        assert "correlationId_1_scope.clientId_1" in database["task_memory"].index_information()
        for of_runs in ("journal", "ledger", "artifacts", "context"):
            assert "taskUid_1" in database[f"orchestrator_{of_runs}"].index_information(), of_runs
        assert "taskUid_1" in database["delegation_metrics"].index_information()
        assert any(name.startswith("clientId_1_projectId_1") for name in database["chat_history"].index_information())
        assert {tuple(one.team) for one in knowledge.requests} == {("ops", "ada@example.org")}
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


def test_questions_messages_and_lost_workers(space: Space, start: Start) -> None:
    def says(task: str, attempt: int) -> dict[str, Any] | int | None:
        if task == "asks" and attempt == 1:
            return {"exitReason": "NeedsInput", "summary": "?", "questions": [{"id": "r1-q1", "text": "Which one?"}]}
        if task == "dies" and attempt == 1:
            return 137
        if task == "talks" and attempt == 1 and len(space.get("talks")["spec"].get("messages", [])) == 0:
            return None
        return answered(task, attempt)

    with Kubelet(space.api, space.name, says) as kubelet, start():
        for name in ("asks", "dies", "talks"):
            space.submit(name, type="UserInputProcessing")
        until(lambda: space.phase("asks") == "UserTask", "it asks")
        request = space.get("asks")["status"]["userTask"]
        assert (request["kind"], request["questions"]) == ("Question", [{"id": "r1-q1", "text": "Which one?"}])
        assert request["requestId"].startswith("run-1-")
        space.edit("asks", {"answers": [{"id": "r1-q1", "text": "That one."}]})
        until(lambda: space.phase("talks") == "Orchestrating", "it talks")
        space.edit("talks", {"messages": [{"id": "m1", "text": "One more thing."}]})
        until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
        attempts = {t["metadata"]["name"]: t["status"]["attempt"] for t in space.every()}
        assert attempts == {"asks": 2, "dies": 2, "talks": 2}
        assert space.get("talks")["status"]["messagesSeen"] == 1
        assert kubelet.duplicates() == []
        assert len(kubelet.seen) == 6


def test_suspend_drains_and_the_same_job_goes_on(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start():
        space.bring("Orchestrating", "hold", type="UserInputProcessing")
        space.edit("hold", {"suspend": True})
        until(lambda: space.phase("hold") == "ReadyForGpu", "it is drained")
        assert space.jobs()[0].spec.suspend is True
        space.edit("hold", {"suspend": False})
        until(lambda: space.phase("hold") == "Orchestrating", "it runs again")
        work.done.add("hold")
        until(lambda: space.phase("hold") == "Completed", "it is completed")
        assert space.get("hold")["status"]["attempt"] == 1
        assert len(kubelet.seen) == 1


def test_an_existing_job_of_ours_is_success_and_a_foreign_one_is_not(space: Space, start: Start) -> None:
    """The names are known before the operator runs: one Job is put there as a lost reply would have left it.

    Its run is claimed: a Job of ours that no claim names has come too late, and goes.
    """
    from controllers.pendingtask import job
    from crds import pendingtask

    template = job.Template(
        space.name, "fake", "Never", "default", "http://kb", "http://router", "mongodb://m", "model"
    )
    ours, foreign = (space.submit(name, type="UserInputProcessing") for name in ("ours", "foreign"))
    task = pendingtask.PendingTask.model_validate(ours)
    name = job.name("ours", task.metadata.uid, 1)
    space.batch.create_namespaced_job(space.name, job.manifest(task, 1, name, template))
    space.edit_status("ours", {"phase": "DispatchedGpu", "attempt": 1, "dispatch": {"jobName": name}})
    body = job.manifest(task, 1, job.name("foreign", foreign["metadata"]["uid"], 1), template)
    space.batch.create_namespaced_job(space.name, body)
    with Kubelet(space.api, space.name), start() as operator:
        until(lambda: space.phase("ours") == "Completed", "the Job that was there is observed")
        until(lambda: space.phase("foreign") == "UserTask", "a foreign Job is not taken for ours")
        assert "is not this task's run" in space.get("foreign")["status"]["result"]["summary"]
        assert operator.metric("jervis_operator_jobs_created_total") == 0


def test_foreground_overtakes_background(space: Space, start: Start, work: Work) -> None:
    work.done.add("user")
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1) as operator:
        for number in range(5):
            space.submit(f"b{number}", queuePosition=10 - number)
        until(lambda: "Orchestrating" in list(space.phases().values()), "one of them runs")
        until(lambda: list(space.phases().values()).count("ReadyForGpu") == 4, "four wait")
        oldest = 'jervis_operator_waiting_oldest_seconds{lane="%s",phase="ReadyForGpu"}'
        until(lambda: operator.metric(oldest % "background") > 0, "the one that waits longest is measured")
        assert operator.metric(oldest % "foreground") == 0
        space.bring("Completed", "user", type="UserInputProcessing", mode="Foreground")
        assert kubelet.order[1] == "user"
        work.done |= set(space.phases())
        until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
        rest = [name for name in kubelet.order if name not in (kubelet.order[0], "user")]
        assert rest == sorted(rest, reverse=True), "by queuePosition"


def test_ten_qualifications_at_once(space: Space, start: Start, knowledge: Knowledge) -> None:
    knowledge.gate.clear()
    with start(QUALIFY_AT_ONCE=3):
        for number in range(8):
            space.submit(f"i{number}", "INFO")
        until(lambda: list(space.phases().values()).count("Qualifying") == 3, "three at once")
        until(lambda: knowledge.most_at_once == 3, "three requests")
        knowledge.gate.set()
        until(lambda: set(space.phases().values()) == {"Done"}, "all are done")
        assert knowledge.most_at_once == 3
        assert len(knowledge.requests) == 8


def test_a_busy_knowledge_base_and_an_absent_mongodb_postpone(space: Space, start: Start, knowledge: Knowledge) -> None:
    knowledge.busy = True
    with Kubelet(space.api, space.name), start(MONGODB_URI="mongodb://127.0.0.1:1") as operator:
        space.submit("info", "INFO")
        space.submit("chat", type="UserInputProcessing")
        until(lambda: space.status("info").get("retry", {}).get("count", 0) >= 1, "it is postponed")
        until(lambda: "MongoDB" in space.status("chat").get("retry", {}).get("reason", ""), "so is the run")
        assert space.phase("info") == "ReadyForQualification"
        assert space.get("info")["status"]["retry"]["nextAt"]
        assert space.jobs() == []
        for reason in ("QualificationPostponed", "DispatchFailed"):
            assert operator.metric(f'jervis_operator_retries_total{{reason="{reason}"}}') >= 1
        knowledge.busy = False
        until(lambda: space.phase("info") == "Done", "the knowledge base is back")
        space.submit("work", "ASK")
        until(lambda: "MongoDB" in space.status("work").get("retry", {}).get("reason", ""), "its memory has no place")
        assert space.phase("work") == "ReadyForQualification", "what is to be done is not routed without its memory"
        assert operator.get("/healthz").status_code == 200, "what it talks to may be down; it is alive"


def reasons(space: Space) -> set[str]:
    """Of the backend's conditions."""
    return {one["reason"] for one in space.get("gpu-0", "gpubackends")["status"]["conditions"]}


def test_a_job_that_is_deleted_by_hand_is_requeued_and_counts_once(space: Space, start: Start) -> None:
    with Kubelet(space.api, space.name, never) as kubelet, start(slots=1):
        space.bring("Orchestrating", "run")
        (first,) = space.jobs()
        space.batch.delete_namespaced_job(first.metadata.name, space.name, propagation_policy="Background")
        until(lambda: space.status("run")["attempt"] == 2, "the next run follows")
        kubelet.says = answered
        until(lambda: space.phase("run") == "Completed", "it is completed")
        assert space.status("run")["attempt"] == 2
        assert [attempt for _, attempt in kubelet.seen.values()] == ["1", "2"]
        assert space.events("run").count("Drained") == 1, "its pod could save its checkpoint"


def test_a_job_that_is_deleted_before_it_runs_is_made_again_as_the_same_run(space: Space, start: Start) -> None:
    with Kubelet(space.api, space.name) as kubelet, start(slots=1):
        kubelet.absent = True
        space.submit("run")
        until(lambda: space.phase("run") == "DispatchedGpu" and space.jobs() != [], "its Job waits for a node")
        (first,) = space.jobs()
        space.batch.delete_namespaced_job(first.metadata.name, space.name, propagation_policy="Background")
        until(lambda: [one.metadata.uid for one in space.jobs()] not in ([], [first.metadata.uid]), "it is there again")
        kubelet.absent = False
        until(lambda: space.phase("run") == "Completed", "it is completed")
        assert space.status("run")["attempt"] == 1, "it was not seen to run before"


def test_a_pod_that_is_evicted_is_replaced_within_the_same_run(space: Space, start: Start) -> None:
    """By the Job, whose policy ignores disruptions; the checkpoint is that of the run."""
    with Kubelet(space.api, space.name, never) as kubelet, start(slots=1):
        space.bring("Orchestrating", "run")
        (pod,) = kubelet.pods()
        space.core.delete_namespaced_pod(pod.metadata.name, space.name, grace_period_seconds=0)
        until(lambda: [one.metadata.uid for one in kubelet.pods()] not in ([], [pod.metadata.uid]), "another pod")
        kubelet.says = answered
        until(lambda: space.phase("run") == "Completed", "it is completed")
        assert (space.status("run")["attempt"], len(kubelet.seen)) == (1, 1)


def test_background_that_never_came_to_life_gives_its_slot_back_and_a_users_task_keeps_it(
    space: Space, start: Start
) -> None:
    """Also when the time was over while no operator was there."""
    with Kubelet(space.api, space.name) as kubelet:
        kubelet.absent = True
        with start(slots=2, IDENTITY="operator-0") as operator:
            space.bring("DispatchedGpu", "mail")
            space.submit("user", type="UserInputProcessing", mode="Foreground")
            until(lambda: space.phase("user") == "DispatchedGpu" and len(space.jobs()) == 2, "so does the user's task")
            kept = {one.metadata.uid for one in space.jobs() if one.metadata.name.startswith("user-")}
            operator.kill()
        with start(IDENTITY="operator-0", STALE_SECONDS=1):
            until(lambda: space.phase("mail") == "ReadyForGpu", "it goes back, and waits for the user")
            assert (space.status("mail")["attempt"], "dispatch" in space.status("mail")) == (1, False)
            assert space.conditions("mail")["Dispatched"] == "Stale"
            until(lambda: {one.metadata.uid for one in space.jobs()} == kept, "the user's task keeps slot and Job")
            assert space.phase("user") == "DispatchedGpu"
        # Without the second after which a busy machine would take each of its runs for one that never came to life.
        with start(IDENTITY="operator-0"):
            kubelet.absent = False
            until(lambda: set(space.phases().values()) == {"Completed"}, "both are completed")
            assert {name: space.status(name)["attempt"] for name in ("user", "mail")} == {"user": 1, "mail": 2}
            assert kubelet.duplicates() == []


def test_a_backend_that_drains_keeps_its_run_and_gets_no_other(space: Space, start: Start) -> None:
    soon = {"BACKEND_GONE_SECONDS": 1, "WAIT_REASON_SECONDS": 1}
    with Kubelet(space.api, space.name, never) as kubelet, start(slots=2, **soon):
        space.bring("Orchestrating", "run")
        space.edit("gpu-0", {"drain": True}, "gpubackends")
        space.submit("next")
        until(lambda: space.conditions("next").get("Dispatched") == "NoGpuBackend", "nothing is on offer")
        assert space.phase("run") == "Orchestrating"
        kubelet.says = answered
        until(lambda: space.phase("run") == "Completed", "it ends where it is")
        assert (space.status("run")["attempt"], kubelet.drained) == (1, [])
        assert space.phase("next") == "ReadyForGpu"
        space.edit("gpu-0", {"drain": False}, "gpubackends")
        until(lambda: space.phase("next") == "Completed", "the backend serves again")


def test_a_backends_status_is_written_when_it_says_something_new(space: Space, start: Start) -> None:
    with start(slots=1, PROBE_SECONDS=0.1) as operator:
        written = space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"]
        probes = "jervis_operator_backend_probes_total"
        before = operator.metric(probes)
        until(lambda: operator.metric(probes) >= before + 10, "it is asked again and again")
        assert space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"] == written
        space.edit("gpu-0", {"url": "http://127.0.0.1:1"}, "gpubackends")
        until(lambda: "Unreachable" in reasons(space), "it says that there is no answer")
        written = space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"]
        before = operator.metric(probes)
        until(lambda: operator.metric(probes) >= before + 2, "it is tried again")
        assert space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"] == written
