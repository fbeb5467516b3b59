"""`kubectl jervis history` and `queue` as a person without a token: apiserver's proxy, a ticket, the operator, and
MongoDB's wire. Why tasks wait: the operator's endpoint, the condition, the command line."""

from __future__ import annotations

import json
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from kubernetes import client

from tests import endpoints
from tests.cli import site
from tests.cli.test_acting import grant
from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, never
from tests.operator.process import Start
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def own_address() -> str:
    """An address of this machine that is not loopback: the apiserver's proxy leads to no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])


def expose(space: Space, port: int) -> None:
    """What the chart installs, and pod and endpoints for want of controllers."""
    named = [{"name": "history", "port": port, "protocol": "TCP"}]
    body = {"metadata": {"name": "jervis-operator"}, "spec": {"ports": [{**named[0], "targetPort": port}]}}
    space.core.create_namespaced_service(space.name, body)
    pod = {
        "metadata": {"name": "operator-0"},
        "spec": {"containers": [{"name": "operator", "image": "fake"}], "automountServiceAccountToken": False},
    }
    space.core.create_namespaced_pod(space.name, pod)
    own = own_address()
    status = {"status": {"podIP": own, "podIPs": [{"ip": own}]}}
    space.core.patch_namespaced_pod_status("operator-0", space.name, status)
    endpoints.make(space.core, space.name, "jervis-operator", own, "operator-0", named)
    account = {
        "metadata": {
            "name": "jervis-history",
            "labels": {"app.kubernetes.io/part-of": "jervis", "app.kubernetes.io/component": "history"},
            "annotations": {"jervis.dev/history": f"{space.name}/jervis-operator:history"},
        }
    }
    space.core.create_namespaced_service_account(space.name, account)


def test_history_of_a_namespace(
    space: Space, start: Start, kubeconfig: Path, database: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    custom = client.CustomObjectsApi(space.api)
    place = site.Site(kubeconfig, custom, space.core, space.name)
    with start(ARCHIVE_SECONDS=0.2, HISTORY_HOST="0.0.0.0") as operator:  # reached over the apiserver
        expose(space, operator.history_port)
        first = space.submit("disk", "INFO")["metadata"]["uid"]
        database["task_results"].insert_one({"_id": first, "answer": "Slot C4 holds the new disk."})
        until(lambda: database["task_archive"].count_documents({}) == 1, "it is archived")
        for name in ("wiki", "other"):
            space.submit(name, "INFO", clientId="beta" if name == "other" else "acme")
        until(lambda: database["task_archive"].count_documents({}) == 3, "all are archived")

        done = site.call(capsys, "history", *place.flags())
        assert not done.err, done.err
        head, *rows = done.out.splitlines()
        assert head.split() == ["NAME", "TYPE", "CLIENT", "PHASE", "REASON", "RUNS", "TOOK", "ENDED", "SUMMARY"]
        assert {row.split()[0] for row in rows} == {"disk", "wiki", "other"}
        assert all("InfoOnly" in row for row in rows)

        for flags, names in (
            (["--client", "beta"], ["other"]),
            (["--since", "1h", "--client", "acme", "--phase", "Done"], ["disk", "wiki"]),
            (["--since", "2999-01-01T00:00:00Z"], []),
            (["--phase", "Error"], []),
        ):
            listed = site.call(capsys, "history", *flags, "-o", "json", *place.flags()).json["items"]
            assert sorted(one["name"] for one in listed) == names
        assert len(site.call(capsys, "history", "-l", "2", "-o", "json", *place.flags()).json["items"]) == 2

        told = site.call(capsys, "history", "disk", *place.flags()).out
        assert "Phase:     Done" in told
        assert "Answer\nSlot C4 holds the new disk.\n" in told
        whole = json.loads(site.call(capsys, "history", "disk", "-o", "json", *place.flags()).out)
        assert (whole["uid"], whole["object"]["spec"]["content"]) == (first, "INFO")

        missing = site.call(capsys, "history", "nobody", *place.flags())
        assert (missing.code, "kubectl jervis get nobody" in missing.err) == (1, True)
        wrong = site.call(capsys, "history", "--since", "yesterday", *place.flags())
        assert (wrong.code, "field: --since" in wrong.err) == (1, True)
        refused = site.call(capsys, "history", "--phase", "Orchestrating", *place.flags())
        assert (refused.code, "field: phase" in refused.err) == (1, True)

        reader = place.user("reader")
        grant(place, "reader")
        listed = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list"]}
        proxy = {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": ["http:jervis-operator:history"],
            "verbs": ["get"],
        }
        accounts.permit(space.api, space.name, "reader", listed, proxy)
        denied = place.run("history", user=reader)
        assert (denied.code, "serviceaccounts" in denied.err) == (1, True), "no ticket without the right to one"
        ticket = {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": ["jervis-history"],
            "verbs": ["create"],
        }
        rbac: Any = client.RbacAuthorizationV1Api(space.api)
        rbac.patch_namespaced_role("reader-more", space.name, {"rules": [listed, proxy, ticket]})
        until(lambda: place.run("history", user=reader).code == 0, "with it the door opens")


def test_the_whole_result_of_a_live_task_and_of_one_that_is_gone(
    space: Space, start: Start, kubeconfig: Path, database: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = site.Site(kubeconfig, client.CustomObjectsApi(space.api), space.core, space.name)
    stored = {
        "exitReason": "Answered",
        "answer": "Slot C4 holds the new disk. " * 200 + "The end.",
        "citations": [2],
        "evidence": [{"id": 1, "source": "jira::A-1", "title": "No"}, {"id": 2, "source": "email::7", "title": "Disk"}],
    }
    with start(ARCHIVE_SECONDS=0.2, HISTORY_HOST="0.0.0.0") as operator:
        expose(space, operator.history_port)
        # It is held, so that it lives; what its run was given says whose it is.
        uid = space.submit("live", "INFO", suspend=True)["metadata"]["uid"]
        early = site.call(capsys, "result", "live", *place.flags())
        assert (early.code, "has no result yet" in early.err, "field: NAME" in early.err) == (1, True, True), early.err
        database["task_memory"].insert_one({"_id": uid, "namespace": space.name, "name": "live"})
        database["task_results"].insert_one({"_id": uid, **stored})
        done = site.call(capsys, "result", "live", *place.flags())
        assert done.code == 0, done.err
        assert "The end.\n" in done.out
        assert "email::7" in done.out
        assert "jira::A-1" not in done.out
        found = site.call(capsys, "result", "live", "-o", "json", *place.flags()).json
        assert (found["uid"], found["name"], found["archived"]) == (uid, "live", False)
        assert found["result"]["answer"] == stored["answer"]

        traced = site.call(capsys, "trace", "live", "-o", "json", *place.flags())
        assert (traced.code, traced.json["steps"]) == (0, []), traced.err
        about = {"taskUid": uid, "round": 1}
        metric = {"delegationId": "r1.d1", "agentName": "Git", "success": True, "llmCalls": 2, "tokenCount": 30}
        database["delegation_metrics"].insert_one({"_id": "m", **about, **metric, "endTime": "2027-03-01T12:00:00Z"})
        begun = {"kind": "begun", "value": '{"agent": "Coding"}'}
        entry = {"delegation": "r1.d2", "ordinal": 0, **begun, "at": datetime.now(UTC)}
        database["orchestrator_journal"].insert_one({"_id": "j", **about, **entry})
        noted = {"intake": {"startedAt": datetime.now(UTC), "endedAt": datetime.now(UTC), "status": "COMPLETED"}}
        fence = {"attempt": 1, "spent": {"r1": {"llmCalls": 7}}, "steps": {"r1": noted}}
        database["orchestrator_fences"].insert_one({"_id": uid, **fence})
        traced = site.call(capsys, "trace", "live", "-o", "json", *place.flags())
        assert (traced.json["attempt"], traced.json["llmCalls"]) == (1, 7)
        steps = [(one["id"], one["agent"], one["status"]) for one in traced.json["steps"]]
        assert steps == [
            ("r1.intake", "intake", "COMPLETED"),
            ("r1.d1", "Git", "COMPLETED"),
            ("r1.d2", "Coding", "RUNNING"),
        ]

        bare = site.call(capsys, "artifacts", "live", *place.flags())
        assert (bare.code, bare.out) == (0, "The result has no artifacts and no changed files.\n")
        more = {"artifacts": ["draft", "https://git.example/1"], "changedFiles": ["a.py"]}
        database["task_results"].update_one({"_id": uid}, {"$set": more})
        kept = [("draft", "Hello\u00e9"), ("prompt", "secret")]
        values = [{"_id": f"{uid}/{key}", "taskUid": uid, "body": json.dumps(text)} for key, text in kept]
        database["orchestrator_artifacts"].insert_many(values)
        listed = site.call(capsys, "artifacts", "live", "-o", "json", *place.flags()).json
        assert [(one["key"], one["bytes"]) for one in listed["artifacts"]] == [
            ("draft", 7),
            (more["artifacts"][1], None),
        ]
        assert listed["changedFiles"] == ["a.py"]
        target = tmp_path / "draft.txt"
        done = site.call(capsys, "artifacts", "live", "--get", "draft", "-o", str(target), *place.flags())
        assert (done.code, target.read_text()) == (0, "Hello\u00e9"), done.err
        hidden = site.call(capsys, "artifacts", "live", "--get", "prompt", *place.flags())
        assert (hidden.code, "no stored content 'prompt'" in hidden.err) == (1, True), "a result names it or it stays"

        # The same uid, were it another namespace's: the ticket opens this one alone.
        database["task_memory"].update_one({"_id": uid}, {"$set": {"namespace": "elsewhere"}})
        assert site.call(capsys, "result", "live", *place.flags()).code == 1
        for path in (f"results/{uid}", f"traces/{uid}", f"artifacts/{uid}", f"artifacts/{uid}/draft"):
            assert operator.history(f"/api/v1/{path}", space.ticket()).status_code == 404
            assert operator.history(f"/api/v1/{path}", "").status_code == 401
        assert operator.history(f"/api/v1/results/{uid}", "").status_code == 401
        assert operator.history("/api/v1/results/none", space.ticket()).status_code == 400
        database["task_memory"].delete_one({"_id": uid})

        space.edit("live", {"suspend": False})
        until(lambda: database["task_archive"].count_documents({}) == 1, "it is archived")
        space.delete("live")
        gone = site.call(capsys, "result", "live", "-o", "json", *place.flags()).json
        assert (gone["uid"], gone["archived"], gone["result"]["answer"]) == (uid, True, stored["answer"])
    assert site.call(capsys, "result", "nobody", *place.flags()).code == 75, "the operator is gone"


def test_a_namespace_without_history_says_so(
    space: Space, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = site.call(capsys, "history", "--kubeconfig", str(kubeconfig), "-n", space.name)
    assert (done.code, "watchNamespaces" in done.err) == (1, True)


def rows(done: site.Done) -> list[list[str]]:
    return [line.split() for line in done.out.splitlines()]


def test_why_tasks_wait(space: Space, start: Start, kubeconfig: Path, capsys: Any) -> None:
    custom = client.CustomObjectsApi(space.api)
    place = site.Site(kubeconfig, custom, space.core, space.name)
    with (
        Kubelet(space.api, space.name, never),
        start(slots=1, HISTORY_HOST="0.0.0.0", WAIT_REASON_SECONDS=1) as operator,  # reached over the apiserver
    ):
        expose(space, operator.history_port)
        space.bring("Orchestrating", "runs", clientId="acme")
        extra: tuple[tuple[str, dict[str, Any]], ...] = (
            ("a1", {}),
            ("a2", {}),
            ("b1", {"clientId": "beta"}),
            ("first", {"queuePosition": 1}),
            ("held", {"suspend": True}),
        )
        for name, spec in extra:
            space.submit(name, **{"clientId": "acme", **spec})
        waiting = ("a1", "a2", "b1", "first")
        until(lambda: all(space.phase(one) == "ReadyForGpu" for one in waiting), "they wait for the slot")
        until(lambda: space.conditions("held").get("Suspended") == "SuspendedByUser", "it is held")

        found = operator.history("/api/v1/queue", space.ticket()).json()
        assert (found["leading"], found["orchestratorHealthy"], found["breaker"]) == (True, True, "Closed")
        assert found["slots"] == {"total": 1, "free": 0}
        ours = [(one["name"], one["reason"], one["before"], one["beforeOwn"]) for one in found["items"]]
        assert ours[:4] == [
            ("first", "NoFreeSlot", 0, []),
            ("b1", "NoFreeSlot", 1, []),
            ("a1", "NoFreeSlot", 2, ["first"]),
            ("a2", "NoFreeSlot", 3, ["first", "a1"]),
        ], "clients take turns: one of acme's runs already"
        assert ours[4][:2] == ("held", "Suspended")
        assert operator.history("/api/v1/queue", "").status_code == 401
        assert operator.history("/api/v1/queue?namespace=default", space.ticket()).status_code == 403

        until(lambda: all(space.conditions(one).get("Dispatched") == "NoFreeSlot" for one in waiting), "and say so")
        assert not [one for name in waiting for one in space.events(name) if one == "NoFreeSlot"]
        versions = {name: space.get(name)["metadata"]["resourceVersion"] for name in waiting}
        reasons = 'jervis_operator_waiting_reasons{lane="background",reason="NoFreeSlot"}'
        assert operator.metric(reasons) == 4

        table = site.call(capsys, "queue", *place.flags())
        assert [row[1] for row in rows(table)[1:]] == ["first", "b1", "a1", "a2", "held"]
        assert rows(table)[0][-2:] == ["BEFORE", "SINCE"]
        assert "a GPU slot" in table.out
        assert "GPU slots: 0 of 1 free." in table.err
        listed = site.call(capsys, "queue", "-o", "json", *place.flags())
        assert (len(listed.json["items"]), listed.err) == (5, "")
        reasons_listed = [(one["name"], one["before"]) for one in listed.json["queue"]["items"]]
        assert reasons_listed[:4] == [("first", 0), ("b1", 1), ("a1", 2), ("a2", 3)]
        told = next(line for line in site.call(capsys, "get", "a2", *place.flags()).out.splitlines() if "Waits" in line)
        assert told.startswith("Waits:     for a GPU slot; 3 before it (first, a1, ...); since 20")

        with subprocess.Popen(
            place.command("queue", "--watch", "-o", "json"), cwd=site.ROOT, stdout=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            bound = Timer(PATIENCE, watching.kill)  # a line that does not come fails the test
            bound.start()
            assert len(json.loads(watching.stdout.readline())["items"]) == 5
            space.delete("held")
            while len(json.loads(watching.stdout.readline())["items"]) != 4:
                pass
            space.submit("b2", clientId="beta")
            while "b2" not in {one["name"] for one in json.loads(watching.stdout.readline())["items"]}:
                pass
            bound.cancel()
            watching.kill()
        assert {name: space.get(name)["metadata"]["resourceVersion"] for name in waiting} == versions, "said once"


def test_a_replica_that_stands_by_answers_from_its_own_cache(space: Space, start: Start) -> None:
    with start() as leader:
        until(leader.leads, "it leads")
        space.submit("x")
        until(lambda: space.conditions("x").get("Dispatched") == "NoGpuBackend", "it waits")
        with start() as standby:
            seen = standby.history("/api/v1/queue", space.ticket()).json()
            assert not standby.leads()
            assert not seen["leading"]
            assert [(one["name"], one["reason"]) for one in seen["items"]] == [("x", "NoGpuBackend")]


def test_without_an_operator_the_reasons_are_those_of_the_objects(space: Space, kubeconfig: Path, capsys: Any) -> None:
    place = site.Site(kubeconfig, client.CustomObjectsApi(space.api), space.core, space.name)
    place.task("x", status={"phase": "ReadyForGpu"})
    done = site.call(capsys, "queue", *place.flags())
    assert rows(done)[1][1] == "x"
    assert done.out.splitlines()[1].endswith("a GPU")
    assert "taken from their objects" in done.err
    refused = site.call(capsys, "queue", "--watch", "-A", *place.flags())
    assert (refused.code, "field: --watch" in refused.err) == (1, True)
    with place.start("queue", "-w") as watching:
        bound = Timer(PATIENCE, watching.kill)
        bound.start()
        assert watching.stdout.readline().split()[1] == "NAME"
        assert watching.stdout.readline().split()[1] == "x"
        place.task("y", status={"phase": "ReadyForGpu"})
        assert [watching.stdout.readline().split()[1] for _ in range(3)] == ["NAME", "x", "y"]
        bound.cancel()
        watching.kill()
