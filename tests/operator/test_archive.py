"""Archived, marked, deleted, told of: real apiserver, real operator process, MongoDB's wire behind a proxy to cut."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes import client

import kube
from controllers.archive import mongo
from crds.phases import TERMINAL
from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator, Start
from tests.operator.proxy import Proxy
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
OFTEN = {"ARCHIVE_SECONDS": 0.2}


@pytest.fixture
def proxy(mongodb_uri: str) -> Iterator[Proxy]:
    address = urlsplit(mongodb_uri)
    assert address.hostname
    with Proxy(address.hostname, address.port or 27017) as made:
        yield made


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def names(space: Space) -> set[str]:
    return {task["metadata"]["name"] for task in space.every()}


def labelled(space: Space, label: str) -> set[str]:
    return {t["metadata"]["name"] for t in space.every() if t["metadata"].get("labels", {}).get(label) == "true"}


def ended(space: Space) -> set[str]:
    return {name for name, phase in space.phases().items() if phase in TERMINAL}


def finish(space: Space, start: Start, *tasks: str, **spec: Any) -> None:
    """Let an operator finish these and leave. It can archive nothing, and so delete nothing: its MongoDB is away."""
    for name in tasks:
        space.submit(name, "INFO", **spec)
    with start(IDENTITY="operator-0", MONGODB_URI="mongodb://127.0.0.1:1"):
        until(lambda: ended(space) >= set(tasks), "all are finished")


def test_a_finished_task_is_archived_then_deleted_and_its_history_stays(
    space: Space, start: Start, knowledge: Knowledge, database: Any
) -> None:
    knowledge.gate.clear()
    with start(**OFTEN) as operator:
        made = {
            name: space.submit(name, text, **spec)["metadata"]["uid"]
            for name, text, spec in (
                ("brief", "INFO", {"ttlSecondsAfterFinished": 0}),
                ("wrong", "INVALID", {"ttlSecondsAfterFinished": 0, "clientId": "beta"}),
                ("stays", "INFO", {}),
            )
        }
        database["task_results"].insert_one({"_id": made["brief"], "answer": "42", "citations": [1]})
        space.mark("brief", {"annotations": {"example.com/a.b": "c"}})
        before = space.get("brief")
        knowledge.gate.set()
        until(lambda: names(space) == {"stays"}, "those without time are deleted")
        until(lambda: labelled(space, "jervis.dev/archived") == {"stays"}, "the other is archived and stays")

        found = database["task_archive"].find_one({"_id": made["brief"]})
        assert (found["clientId"], found["phase"], found["result"]["answer"]) == ("acme", "Done", "42")
        assert found["object"]["spec"] == before["spec"]
        assert found["object"]["metadata"]["annotations"] == {"example.com/a.b": "c"}
        assert "managedFields" not in found["object"]["metadata"]
        assert found["object"]["status"]["phase"] == "Done"

        ticket = space.ticket()
        listed = operator.history("/api/v1/history", ticket).json()
        assert {(one["name"], one["phase"]) for one in listed["items"]} == {
            ("brief", "Done"),
            ("wrong", "Error"),
            ("stays", "Done"),
        }
        assert [one["name"] for one in operator.history("/api/v1/history?client=beta", ticket).json()["items"]] == [
            "wrong"
        ]
        named = operator.history("/api/v1/history?name=brief", ticket).json()
        assert [one["uid"] for one in named["items"]] == [made["brief"]]
        assert operator.history("/api/v1/history?since=2999-01-01T00:00:00Z", ticket).json()["items"] == []
        pages: list[str] = []
        path = f"/api/v1/history?namespace={space.name}&limit=1"
        answer = operator.history(path, ticket).json()
        while answer["items"]:
            pages += [one["uid"] for one in answer["items"]]
            answer = operator.history(f"{path}&before={answer['next']}", ticket).json()
        assert pages == [one["uid"] for one in listed["items"]]
        whole = operator.history(f"/api/v1/history/{made['brief']}", ticket).json()
        assert (whole["object"]["spec"]["content"], whole["result"]["answer"]) == ("INFO", "42")
        unknown = "/api/v1/history/00000000-0000-0000-0000-000000000000"
        assert operator.history(unknown, ticket).status_code == 404
        assert operator.metric("jervis_operator_archived_total") == 3
        assert operator.metric('jervis_operator_deleted_total{why="Expired"}') == 2
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


def test_while_mongodb_is_away_nothing_is_deleted(space: Space, start: Start, proxy: Proxy, database: Any) -> None:
    def failures(operator: Operator) -> int:
        return operator.log.read_text().count("nothing is archived or deleted")

    with start(MONGODB_URI=f"mongodb://{proxy.address}", **OFTEN) as operator:
        for name in ("a", "b"):
            space.submit(name, "INFO")
        until(lambda: labelled(space, "jervis.dev/archived") == {"a", "b"}, "both are archived")
        proxy.cut()
        for name in ("a", "b"):
            space.edit(name, {"ttlSecondsAfterFinished": 0})
        # Nothing is left to archive: it is the deletion that must not go on without MongoDB's word.
        until(lambda: failures(operator) >= 2, "two sweeps find no archive")
        assert names(space) == {"a", "b"}
        space.submit("later", "INFO", ttlSecondsAfterFinished=0)
        until(lambda: "later" in ended(space), "it is finished without MongoDB")
        seen = failures(operator)
        until(lambda: failures(operator) >= seen + 2, "two more find none for it either")
        assert operator.metric("jervis_operator_archive_up") == 0
        assert names(space) == {"a", "b", "later"}
        assert labelled(space, "jervis.dev/archived") == {"a", "b"}
        answer = operator.history("/api/v1/history", space.ticket())
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert operator.get("/healthz").status_code == 200
        proxy.repair()
        until(lambda: not names(space), "all are archived and deleted")
        until(lambda: operator.metric("jervis_operator_archive_up") == 1, "the metric says so")
        assert {one["name"] for one in database["task_archive"].find()} == {"a", "b", "later"}


def test_without_mongodb_work_that_needs_none_goes_on_and_the_rest_waits(
    space: Space, start: Start, proxy: Proxy
) -> None:
    """Information is read to its end; a mail to act upon waits with what was found out, a question with its input."""
    with Kubelet(space.api, space.name), start(slots=2, MONGODB_URI=f"mongodb://{proxy.address}") as operator:
        proxy.cut()
        for name, spec in (
            ("news", {"content": "INFO"}),
            ("mail", {"content": "ASK"}),
            ("question", {"content": "Why?", "type": "UserInputProcessing", "mode": "Foreground"}),
        ):
            space.submit(name, **spec)
        until(lambda: space.phase("news") == "Done", "information ends")
        until(lambda: retried(space, "mail"), "the mail is to be read again")
        until(lambda: retried(space, "question"), "the question is to be dispatched again")
        phases = space.phases()
        assert (phases["mail"], phases["question"]) == ("ReadyForQualification", "ReadyForGpu")
        assert "MongoDB" in str(space.status("mail")["retry"]) + str(space.status("mail")["conditions"])
        assert "MongoDB" in str(space.status("question")["retry"]) + str(space.status("question")["conditions"])
        assert space.jobs() == []
        proxy.repair()
        until(lambda: ended(space) == {"news", "mail", "question"}, "both go on by themselves")
        assert set(space.phases().values()) == {"Done", "Completed"}
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


def retried(space: Space, name: str) -> bool:
    """It is put off, with a moment for the next try."""
    return bool((space.status(name).get("retry") or {}).get("nextAt"))


def test_kill_9_in_the_middle_of_a_sweep_loses_no_history(space: Space, start: Start, database: Any) -> None:
    chance = random.Random(20270302)
    tasks = {f"t{number:02}" for number in range(40)}
    finish(space, start, *sorted(tasks), ttlSecondsAfterFinished=0)
    rounds = 0
    while rounds < 4 and names(space):
        with start(IDENTITY="operator-0", DELETES_PER_SECOND=20, **OFTEN) as operator:
            until(operator.leads, "it leads")
            time.sleep(chance.uniform(0.0, 0.5))
            operator.kill()
        rounds += 1
        archived = {one["name"] for one in database["task_archive"].find()}
        assert tasks - names(space) <= archived, "gone without a trace"
    with start(IDENTITY="operator-0", DELETES_PER_SECOND=200, **OFTEN):
        until(lambda: not names(space), "the last one finishes the work")
    assert {one["name"] for one in database["task_archive"].find()} == tasks
    assert rounds >= 2


def test_a_client_keeps_its_latest(space: Space, start: Start, database: Any) -> None:
    finish(space, start, *(f"a{number}" for number in range(6)))
    finish(space, start, "b0", "b1", clientId="beta")
    ended = {task["metadata"]["name"]: task["status"]["completedAt"] for task in space.every()}
    with start(IDENTITY="operator-0", FINISHED_PER_CLIENT=3, **OFTEN) as operator:
        until(lambda: len(names(space)) == 5, "three of six go")
        rest = names(space)
        assert rest >= {"b0", "b1"}
        gone = set(ended) - rest
        assert max(ended[name] for name in gone) <= min(ended[name] for name in rest if name.startswith("a"))
        assert operator.metric('jervis_operator_deleted_total{why="Crowded"}') == 3
        assert {one["name"] for one in database["task_archive"].find()} == set(ended)


def test_a_foreign_finalizer_is_left_alone_and_the_object_is_deleted_once(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    knowledge.gate.clear()
    with start(**OFTEN) as operator:
        space.submit("kept", "INFO", ttlSecondsAfterFinished=0)
        space.mark("kept", {"finalizers": ["example.com/keep"]})
        knowledge.gate.set()
        until(lambda: "deletionTimestamp" in space.get("kept")["metadata"], "it is deleted")
        space.submit("marker", "INFO", ttlSecondsAfterFinished=0)
        until(lambda: "marker" not in names(space), "another sweep has passed")
        assert space.get("kept")["metadata"]["finalizers"] == ["example.com/keep"]
        assert operator.metric("jervis_operator_deleted_total") == 2
        space.mark("kept", {"finalizers": None})
        until(lambda: not names(space), "its owner lets it go")


async def test_a_change_in_between_wins_over_a_deletion(api: kube.Kube, space: Space) -> None:
    made = space.submit("busy")["metadata"]
    space.edit("busy", {"queuePosition": 3})
    with pytest.raises(kube.Conflict):
        await api.delete(kube.TASKS, space.name, "busy", uid=made["uid"], version=made["resourceVersion"])
    with pytest.raises(kube.Conflict):
        await api.delete(kube.TASKS, space.name, "busy", uid="00000000-0000-0000-0000-000000000000")
    assert names(space) == {"busy"}
    current = space.get("busy")["metadata"]["resourceVersion"]
    await api.delete(kube.TASKS, space.name, "busy", uid=made["uid"], version=current)
    assert names(space) == set()


def test_a_mark_that_lies_is_made_true_before_anything_is_deleted(space: Space, start: Start, database: Any) -> None:
    finish(space, start, "forged")
    space.mark("forged", {"labels": {"jervis.dev/archived": "true"}})
    space.edit("forged", {"ttlSecondsAfterFinished": 0})
    with start(IDENTITY="operator-0", **OFTEN) as operator:
        until(lambda: not names(space), "it is deleted in the end")
        assert operator.metric("jervis_operator_archived_total") == 1
    assert database["task_archive"].count_documents({"name": "forged"}) == 1


def test_one_that_is_edited_after_it_was_archived_is_archived_as_it_is_deleted(
    space: Space, start: Start, database: Any
) -> None:
    finish(space, start, "edited")
    with start(IDENTITY="operator-0", **OFTEN) as operator:
        until(lambda: labelled(space, "jervis.dev/archived") == {"edited"}, "it is archived")
        space.edit("edited", {"ttlSecondsAfterFinished": 0})
        until(lambda: not names(space), "it is deleted")
        assert operator.metric("jervis_operator_archived_total") == 2
    assert database["task_archive"].find_one()["object"]["spec"]["ttlSecondsAfterFinished"] == 0


def test_one_that_mongodb_never_takes_stays_and_holds_up_no_other(space: Space, start: Start, database: Any) -> None:
    finish(space, start, "huge", "small", ttlSecondsAfterFinished=0)
    uid = space.get("huge")["metadata"]["uid"]
    # With its object it is just beyond what a document may have; alone it is not.
    database["task_results"].insert_one({"_id": uid, "answer": "x" * (16 * 1024 * 1024 - 500)})
    with start(IDENTITY="operator-0", **OFTEN) as operator:
        until(lambda: names(space) == {"huge"}, "the others go")
        until(lambda: operator.metric("jervis_operator_archive_rejected") == 1, "the metric says so")
        assert operator.log.read_text().count("a finished task cannot be archived") == 1, "not tried for ever"
    assert labelled(space, "jervis.dev/archived") == set()


def guarded(space: Space, operation: str, reason: str) -> AbstractContextManager[None]:
    """A foreign policy: the task `kept` is neither to be deleted nor to be marked as archived."""
    archived = "has(object.metadata.labels) && 'jervis.dev/archived' in object.metadata.labels"
    concerned = "oldObject.metadata.name == 'kept'" + (f" && {archived}" if operation == "UPDATE" else "")
    rule = {"apiGroups": ["jervis.dev"], "operations": [operation], "resources": ["pendingtasks"]}
    validation = {"expression": f"!({concerned})", "reason": reason, "message": "it is kept"}
    return accounts.policy(space, rule, validation, lambda: refuses(space, operation))


def refuses(space: Space, operation: str) -> bool:
    """Would the policy hold now? Nothing is changed."""
    objects: Any = client.CustomObjectsApi(space.api)
    path = ("jervis.dev", "v1alpha1", space.name, "pendingtasks", "kept")
    mark = {"metadata": {"labels": {"jervis.dev/archived": "true"}}}
    try:
        if operation == "DELETE":
            objects.delete_namespaced_custom_object(*path, dry_run="All")
        else:
            objects.patch_namespaced_custom_object(*path, mark, dry_run="All")
    except client.ApiException:
        return True
    return False


@pytest.mark.parametrize(
    ("operation", "reason"), [("DELETE", "Invalid"), ("DELETE", "Forbidden"), ("UPDATE", "Forbidden")]
)
def test_one_that_a_policy_keeps_stays_and_holds_up_no_other(
    space: Space, start: Start, operation: str, reason: str
) -> None:
    # One that goes at once is never marked: marking is refused for one that stays for a while.
    finish(space, start, "kept", ttlSecondsAfterFinished=0 if operation == "DELETE" else 3600)
    finish(space, start, "later", "last", ttlSecondsAfterFinished=0)
    with guarded(space, operation, reason), start(IDENTITY="operator-0", **OFTEN) as operator:
        until(lambda: names(space) == {"kept"}, "the others go")
        space.submit("new", "INFO", ttlSecondsAfterFinished=0)
        until(lambda: names(space) == {"kept"}, "also those that come later")
        assert operator.log.read_text().count("is left for the next sweep") == 1, "said once, not at every sweep"
    space.edit("kept", {"ttlSecondsAfterFinished": 0})
    with start(IDENTITY="operator-0", **OFTEN):
        until(lambda: not names(space), "without the policy it goes as well")


def test_what_runs_left_behind_goes_only_when_the_task_is_long_gone(space: Space, start: Start, database: Any) -> None:
    finish(space, start, "gone", "there")
    uids = {name: space.get(name)["metadata"]["uid"] for name in ("gone", "there")}
    for collection, field in mongo.LEFTOVERS.items():
        for uid in uids.values():
            row = {"_id": uid} if field == "_id" else {"_id": f"{uid}/{collection}", field: uid}
            database[collection].replace_one({"_id": row["_id"]}, row, upsert=True)
    space.edit("gone", {"ttlSecondsAfterFinished": 0})
    with start(IDENTITY="operator-0", RETENTION_DAYS=0.00001, **OFTEN) as operator:
        one_each = len(mongo.LEFTOVERS)
        until(lambda: operator.metric("jervis_operator_swept_documents_total") == one_each, "one of each collection")
        assert names(space) == {"there"}
    for collection, field in mongo.LEFTOVERS.items():
        assert [row[field] for row in database[collection].find()] == [uids["there"]], collection
    kept = {one["_id"]: "sweptAt" in one for one in database["task_archive"].find()}
    assert kept == {uids["gone"]: True, uids["there"]: False}


def test_a_ticket_opens_one_namespace_and_nothing_else_opens_any(
    space: Space, start: Start, database: Any, kubeconfig: Path
) -> None:
    other = Space(space.api, f"{space.name}-other")
    with start([space.name, other.name], **OFTEN) as operator:
        uids = {one.name: one.submit("info", "INFO")["metadata"]["uid"] for one in (space, other)}
        until(lambda: database["task_archive"].count_documents({}) == 2, "both are archived")
        for one in (space, other):
            ticket = one.ticket()
            listed = operator.history("/api/v1/history", ticket).json()["items"]
            assert [entry["namespace"] for entry in listed] == [one.name]
        ticket = space.ticket()
        assert operator.history(f"/api/v1/history/{uids[space.name]}", ticket).status_code == 200
        assert operator.history(f"/api/v1/history/{uids[other.name]}", ticket).status_code == 404
        refused = operator.history(f"/api/v1/history?namespace={other.name}", ticket)
        assert (refused.status_code, refused.json()["error"]["field"]) == (403, "namespace")
        for bad in (
            "",
            "not-a-token",
            space.ticket(account="default"),
            space.ticket(audience="https://kubernetes.default.svc.cluster.local"),
            ticket[:-3] + "abc",
        ):
            refused = operator.history("/api/v1/history", bad)
            assert refused.status_code == 401
            assert "kubectl create token jervis-history" in refused.json()["error"]["remedy"]
        assert operator.get("/api/v1/history").status_code == 404, "not on the port for metrics"
        assert operator.metric('jervis_operator_api_requests_total{code="201",verb="POST"}') > 0


def test_the_history_is_bounded(space: Space, start: Start, database: Any) -> None:
    finish(space, start, "old", "kept")
    uids = {name: space.get(name)["metadata"]["uid"] for name in ("old", "kept")}
    space.edit("old", {"ttlSecondsAfterFinished": 0})
    with start(IDENTITY="operator-0", RETENTION_DAYS=0.00001, ARCHIVE_DAYS=0.00001, **OFTEN) as operator:
        expired = 'jervis_operator_swept_documents_total{collection="task_archive"}'
        until(lambda: operator.metric(expired) == 1, "the old one is forgotten")
        assert {one["_id"] for one in database["task_archive"].find()} == {uids["kept"]}, "an object is still there"


def test_the_jobs_of_finished_tasks_go_many_at_a_time_and_do_not_wait_for_mongodb(space: Space, start: Start) -> None:
    with Kubelet(space.api, space.name), start(IDENTITY="operator-0"):
        for number in range(6):
            space.submit(f"t{number}", type="UserInputProcessing")
        until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
        space.submit("runs", type="UserInputProcessing", suspend=True)
    assert len(space.jobs()) == 6
    assert {one.spec.ttl_seconds_after_finished for one in space.jobs()} == {None}
    # An end is written in whole seconds, rounded up: until then a sweep would take some of them and leave the others.
    last = max(moment(one["status"]["completedAt"]) for one in space.every() if one["metadata"]["name"] != "runs")
    until(lambda: datetime.now(UTC) >= last, "the second in which they ended is over")
    away = {"MONGODB_URI": "mongodb://127.0.0.1:1", "JOB_TTL_SECONDS": 0}
    with start(IDENTITY="operator-0", **away, **OFTEN) as operator:
        until(lambda: not space.jobs(), "their Jobs are removed")
        deletions = 'jervis_operator_api_requests_total{code="200",verb="DELETE"}'
        until(lambda: operator.metric(deletions) >= 1, "their deletion is counted, at its answer")
        assert operator.metric(deletions) == 1
    assert names(space) == {*(f"t{number}" for number in range(6)), "runs"}
