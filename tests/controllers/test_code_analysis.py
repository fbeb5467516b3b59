"""Analyses of repositories without a cluster: the gate, the manifests, and what pods may report."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contracts.tokens import runtoken
from controllers import settings
from controllers.codeanalysis import job, outcome, status
from controllers.pendingtask import job as runs
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import ObservedState
from crds import conditions, connection, pendingtask, scope
from crds.pendingtask import Analysis
from crds.phases import Phase
from kube import lease
from tests.controllers.build import present

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KEYS = runtoken.ring([b"k" * 48])
RUN = runs.Template(
    namespace="jervis", image="jervis:1", image_pull_policy="Always", service_account="jervis-job", kb_url="http://kb-read",
    router_url="http://router", mongodb_uri="mongodb://user:password@db", model="m",
)  # fmt: skip
TEMPLATE = job.Template(
    RUN, "http://sources", "http://kb-write", joern="joern:1", seconds=600, memory="4Gi", heap="3g", ttl_seconds=600
)
SOURCE = connection.Spec.model_validate(
    {"type": "Git", "clientId": "acme", "projectId": "shop", "url": "https://git.example.com/acme/storage.git"}
)


def task(*analysis: Analysis, phase: Phase = Phase.READY_FOR_QUALIFICATION, **more: Any) -> pendingtask.PendingTask:
    git = {"connection": "code", "ref": "main", "analysis": [one.value for one in analysis]}
    spec = {"type": "GitProcessing", "clientId": "acme", "projectId": "shop", "git": git}
    meta = {"name": "cpg", "namespace": "team-a", "uid": "0b7f", "creationTimestamp": "2026-03-01T00:00:00Z"}
    return pendingtask.PendingTask.model_validate(
        {"metadata": meta, "spec": spec, "status": {"phase": phase.value, **more}}
    )


def attempt(*steps: Analysis, joern: bool = True) -> job.Attempt:
    """What is to be done for a task with these steps."""
    return present(job.of_task(task(*steps), SOURCE, joern=joern))


def manifest(*steps: Analysis, joern: bool = True) -> dict[str, Any]:
    return job.manifest(attempt(*steps, joern=joern), TEMPLATE, lease.NO_LEADER)


def said(ok: bool | None, reason: str) -> dict[str, Any]:
    return conditions.make("CodeAnalyzed", ok, reason, "", now=NOW).wire()


def test_a_task_is_read_once_its_analysis_has_ended_however() -> None:
    fresh = decide(task(Analysis.CPG), ObservedState(), NOW)
    [written] = fresh.status_patch["conditions"]
    assert (fresh.phase, written["status"], written["reason"]) == (None, "Unknown", "Waiting")
    waits = decide(task(Analysis.CPG, conditions=[said(None, "Running")]), ObservedState(), NOW)
    assert (waits.status_patch, waits.effects, waits.requeue_after) == ({}, (), None)
    for ok in (True, False):
        ended = decide(task(Analysis.CPG, conditions=[said(ok, "Word")]), ObservedState(), NOW)
        assert ended.phase is Phase.QUALIFYING


@pytest.mark.parametrize(
    ("steps", "joern", "containers"),
    [
        ((Analysis.OVERVIEW, Analysis.STRUCTURE, Analysis.CPG), True, ["clone", "structure", "joern", "report"]),
        ((Analysis.CPG,), True, ["clone", "joern", "report"]),
        ((Analysis.STRUCTURE,), True, ["clone", "report"]),
        ((Analysis.CPG, Analysis.STRUCTURE), False, ["clone", "report"]),
    ],
)
def test_containers_come_in_order_and_only_ours_have_the_token(
    steps: tuple[Analysis, ...], joern: bool, containers: list[str]
) -> None:
    made = manifest(*steps, joern=joern)
    assert made["metadata"]["name"] == "code-0b7f"
    pod = made["spec"]["template"]["spec"]
    found = [*pod["initContainers"], *pod["containers"]]
    assert [each["name"] for each in found] == containers
    for each in found:
        mounted = {mount["name"] for mount in each["volumeMounts"]}
        ours = each["name"] != "joern"
        assert ("token" in mounted) is ours
        assert any("URL" in value["name"] for value in each["env"]) is ours
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    assert "password" not in str(made)


def test_what_joern_runs_changes_nothing_that_a_container_with_the_token_obeys() -> None:
    """A Git of the report would do what the settings of a changed clone say, and Python what is in its folders."""
    pod = manifest(*Analysis)["spec"]["template"]["spec"]
    found = {each["name"]: each for each in (*pod["initContainers"], *pod["containers"])}
    written = {
        name: {mount["name"]: mount["mountPath"] for mount in each["volumeMounts"] if not mount.get("readOnly")}
        for name, each in found.items()
    }
    shared = written["joern"].keys() & written["report"].keys()
    assert {written["joern"][name] for name in shared} == {"/workspace/.jervis"}
    # Its mount point is in a volume that Joern's container cannot write to: the first one has it made.
    assert written["clone"] == written["report"] == {"work": "/workspace", "left": "/workspace/.jervis", "tmp": "/tmp"}
    assert {volume["name"] for volume in pod["volumes"]} == {"work", "left", "tmp", "joern", "token"}


@pytest.mark.parametrize("seconds", [0, 600, 86_400])
def test_a_job_whose_end_is_recorded_is_known_by_its_time_to_live(seconds: int) -> None:
    made = manifest(Analysis.CPG)["spec"]["ttlSecondsAfterFinished"]
    assert made != runs.expiry(seconds, lease.NO_LEADER)["spec"]["ttlSecondsAfterFinished"]


def test_a_pod_invents_no_series_of_the_metrics() -> None:
    end = outcome.read([pod("joern", 1, '{"failure": {"reason": "Random4711"}}')], None)
    assert [status.label(one) for one in (present(end.failure).reason, "OutOfMemory")] == ["Other", "OutOfMemory"]


def test_without_joern_nothing_is_left_of_a_cpg() -> None:
    assert job.of_task(task(Analysis.CPG), SOURCE, joern=False) is None


def test_a_foreign_query_is_beside_no_token() -> None:
    where = scope.Scope(client_id="acme")
    one = job.Attempt("q1", "code-query-q1", "team-a", "code", "acme/s", "", where, query="cpg.all", seconds=90_000)
    made = job.manifest(one, TEMPLATE, lease.NO_LEADER)
    assert made["spec"]["activeDeadlineSeconds"] == TEMPLATE.seconds
    pod = made["spec"]["template"]["spec"]
    joern = next(each for each in pod["initContainers"] if each["name"] == "joern")
    [query] = [volume for volume in pod["volumes"] if volume["name"] == "query"]
    assert [item["key"] for item in query["secret"]["items"]] == ["query"]
    assert {mount["name"] for mount in joern["volumeMounts"]} == {"work", "left", "joern", "query"}
    signer = runtoken.Signer(lambda: KEYS, lambda: NOW)
    assert set(job.secret(one, TEMPLATE, "uid", signer)["data"]) == {"token", "query"}


def test_its_token_is_of_the_connection_s_scope_and_of_no_run() -> None:
    signer = runtoken.Signer(lambda: KEYS, lambda: NOW)
    token = base64.b64decode(job.secret(attempt(Analysis.CPG), TEMPLATE, "uid", signer)["data"]["token"]).decode()
    for audience in (runtoken.KNOWLEDGE_BASE, runtoken.SOURCES):
        claims = runtoken.Verifier(lambda: KEYS, lambda: NOW, audience).verify(token)
        assert (claims.analysis, claims.repository, claims.task_uid) == (True, "acme/storage", "0b7f")
        assert claims.scope == scope.Scope(client_id="acme", project_id="shop")
        assert claims.expires_at - NOW > timedelta(seconds=TEMPLATE.seconds)
    with pytest.raises(runtoken.WrongAudience):
        runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.ROUTER).verify(token)


def test_what_nothing_can_be_cloned_for_is_not_made() -> None:
    known: dict[str, Any] = {"sources_url": "http://sources", "run_token_keys": "/keys"}
    joern: dict[str, Any] = {"joern_enabled": True, "joern_image": "joern:1"}
    made = present(settings.Settings(_env_file=None, **known, **joern).code_analysis())
    assert made.joern == "joern:1"
    without = present(settings.Settings(_env_file=None, **known, joern_image="joern:1").code_analysis())
    assert without.joern == ""
    for name in known:
        assert settings.Settings(_env_file=None, **{**known, **joern, name: ""}).code_analysis() is None
    with pytest.raises(ValueError, match="joern_image"):
        settings.Settings(_env_file=None, joern_enabled=True)


def pod(name: str, code: int = 0, message: str = "", reason: str = "") -> dict[str, Any]:
    ended = {"terminated": {"exitCode": code, "message": message, "reason": reason}}
    return {"metadata": {}, "status": {"containerStatuses": [{"name": name, "state": ended}]}}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (pod("report", message="[1]"), "ReportIncomplete"),
        (pod("report", message='{"cpg": {"methods": 1e99}}'), "ReportUnreadable"),
        (pod("report", message='{"cpg": {"languages": ["' + "x" * 3000 + '"]}}'), "ReportUnreadable"),
        (pod("report", message='{"failure": {"reason": "not a word"}}'), "ReportIncomplete"),
        (pod("report", 1, '{"failure": "text"}'), "ReportFailed"),
        (pod("joern", 137, reason="OOMKilled"), "OutOfMemory"),
        (pod("joern", 2), "JoernFailed"),
        (pod("clone", 1), "CloneFailed"),
        (pod("report", message="[" * 4000), "ReportIncomplete"),
        (pod("joern", 1, '{"failure": {"reason": "JoernFailed", "message": "\\ud800"}}'), "JoernFailed"),
    ],
)
def test_what_a_pod_says_is_bounded_and_never_fatal(found: dict[str, Any], reason: str) -> None:
    end = outcome.read([found], None)
    git, written = status.result(task(Analysis.CPG), end, NOW, joern=True)
    assert (written.status, written.reason) == (conditions.Status.FALSE, reason)
    assert len(written.message.encode()) <= 2048
    pendingtask.GitStatus.model_validate(git)


def test_what_joern_s_container_says_is_no_report() -> None:
    """Foreign code runs in it: it names no content that the task would be about, and no commit."""
    foreign = {"store": "gridfs", "key": "0" * 64, "sha256": "0" * 64, "bytes": 1}
    message = json.dumps({"overview": foreign, "commit": "abc", "cpg": {"methods": 1}})
    end = outcome.read([pod("joern", message=message)], None)
    assert end.report == outcome.Report()


def test_a_connection_that_may_come_is_waited_for() -> None:
    times: dict[str, Any] = {"phaseTimes": {"ReadyForQualification": "2026-03-01T00:00:00Z"}}
    waiting = task(Analysis.CPG, **times)
    assert status.blocked(waiting, None) == (
        "ConnectionNotFound", "There is no Git Connection code that the task's scope may read.",
    )  # fmt: skip
    assert status.patient(waiting, NOW + status.PATIENCE - timedelta(seconds=1))
    assert not status.patient(waiting, NOW + status.PATIENCE)
    known = connection.Connection.model_validate({"metadata": {"name": "code"}, "spec": SOURCE.wire()})
    blocked = present(status.blocked(waiting, known))
    assert blocked[0] == "NotReady"
    other = known.model_copy(update={"spec": SOURCE.model_copy(update={"client_id": "other"})})
    assert status.blocked(waiting, other) == status.blocked(waiting, None)


@pytest.mark.parametrize(
    ("symbols", "words"),
    [(None, "whose declarations were known"), (0, "with 0 declarations"), (7, "with 7 declarations")],
)
def test_what_was_known_before_is_not_counted_as_nothing(symbols: int | None, words: str) -> None:
    found = pendingtask.GitStatus(repository="acme/storage", branch="main", commit="0" * 40, files=3, symbols=symbols)
    assert status.sentence(found, known=True) == f"acme/storage main at 000000000000: 3 files {words}."
