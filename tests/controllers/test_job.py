"""The Job of a run: its name, and that content decides nothing about it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.clusterstate import reading
from controllers.pendingtask import job
from crds import exit_reasons
from crds.flags import Flag
from crds.values import quantity_bytes
from orchestrator_job.effects.tools import settings as tool_settings
from tests.controllers.build import UID, task

TEMPLATE = job.Template(
    namespace="jervis",
    image="localhost/jervis:dev",
    image_pull_policy="Never",
    service_account="jervis-job",
    kb_url="http://kb",
    router_url="http://router",
    mongodb_uri="mongodb://m",
    model="qwen",
    environment={"JERVIS_TASK_UID": "never mine"},
    resources={"limits": {"memory": "1Gi"}},
)
DNS_LABEL = re.compile(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")


def made(**spec: Any) -> dict[str, Any]:
    current = task(spec=spec)
    return job.manifest(current, 3, job.name("mail-1", UID, 3), TEMPLATE)


def pod_of(template: job.Template = TEMPLATE, /, **spec: Any) -> dict[str, Any]:
    """What its pod is made from."""
    found: dict[str, Any] = job.manifest(task(spec=spec), 3, job.name("mail-1", UID, 3), template)["spec"]["template"]
    return dict(found["spec"])


def variables(template: job.Template = TEMPLATE, /, **spec: Any) -> dict[str, str]:
    """Of its container, by name."""
    return {one["name"]: one.get("value", "") for one in pod_of(template, **spec)["containers"][0]["env"]}


@given(st.from_regex(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", fullmatch=True), st.integers(1, 10**6))
def test_names_are_labels_that_leave_room_for_the_pods_suffix(name: str, attempt: int) -> None:
    found = job.name(name, UID, attempt)
    assert DNS_LABEL.match(found)
    assert len(found) <= 57
    assert found.endswith(f"-{UID[:8]}-{attempt}")
    assert found == job.name(name, UID, attempt)


def test_it_lives_in_the_releases_namespace_and_no_owner_reference_crosses() -> None:
    meta = made()["metadata"]
    assert (meta["namespace"], meta["labels"]["jervis.dev/task-namespace"]) == ("jervis", "default")
    assert "ownerReferences" not in meta
    assert meta["annotations"]["jervis.dev/task-name"] == "mail-1"


def test_labels_find_job_and_pods_again() -> None:
    body = made()
    for labels in (body["metadata"]["labels"], body["spec"]["template"]["metadata"]["labels"]):
        assert labels["jervis.dev/task-uid"] == UID
        assert labels["jervis.dev/task"] == "mail-1"
        assert labels["jervis.dev/attempt"] == "3"


def test_one_owner_of_retries_and_no_time_to_live_yet() -> None:
    spec = made()["spec"]
    assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (0, 1, 1)
    assert "ttlSecondsAfterFinished" not in spec
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "Ignore", "FailJob"]


def test_a_drained_pod_does_not_fail_the_job_that_was_suspended() -> None:
    rules = made()["spec"]["podFailurePolicy"]["rules"]
    assert [
        rule["action"] for rule in rules if exit_reasons.DRAINED in rule.get("onExitCodes", {}).get("values", ())
    ] == ["Ignore"]


def test_a_node_that_does_not_answer_is_not_waited_for_five_minutes() -> None:
    found = {one["key"]: one["tolerationSeconds"] for one in pod_of()["tolerations"]}
    assert found == {"node.kubernetes.io/not-ready": 15, "node.kubernetes.io/unreachable": 15}


def test_job_and_pods_tell_whose_slot_they_take() -> None:
    current = task(status={"dispatch": {"jobName": "j", "backend": "gpu-0"}})
    body = job.manifest(current, 1, "j", TEMPLATE)
    assert body["metadata"]["annotations"] == {
        "jervis.dev/task-name": "mail-1", "jervis.dev/backend": "gpu-0",
        "jervis.dev/leader-epoch": "0", "jervis.dev/lease-created": "",
    }  # fmt: skip
    assert body["spec"]["template"]["metadata"]["annotations"] == {"jervis.dev/backend": "gpu-0"}


@pytest.mark.parametrize(
    ("spec", "mode"),
    [({"mode": "Foreground"}, "Foreground"), ({"type": "UserInputProcessing"}, "Foreground"), ({}, "Background")],
)
def test_the_run_is_told_whether_a_person_waits(spec: dict[str, str], mode: str) -> None:
    assert variables(**spec)["JERVIS_MODE"] == mode


def test_the_pod_is_restricted_and_has_no_token() -> None:
    pod = pod_of()
    container = pod["containers"][0]
    assert pod["automountServiceAccountToken"] is False
    assert pod["restartPolicy"] == "Never"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all("hostPath" not in volume for volume in pod["volumes"])


def test_the_environment_is_the_contract() -> None:
    assert variables() == {
        "JERVIS_TASK_UID": UID,
        "JERVIS_TASK_NAME": "mail-1",
        "JERVIS_TASK_NAMESPACE": "default",
        "JERVIS_ATTEMPT": "3",
        "JERVIS_MODE": "Background",
        "JERVIS_KB_URL": "http://kb",
        "JERVIS_ROUTER_URL": "http://router",
        "JERVIS_MONGODB_URI": "mongodb://m",
        "JERVIS_DATABASE": "jervis",
        "JERVIS_MODEL": "qwen",
        "JERVIS_USE_DELEGATION_GRAPH": "false",
        "JERVIS_USE_SPECIALIST_AGENTS": "false",
        "JERVIS_USE_DAG_EXECUTION": "false",
        "JERVIS_USE_PROCEDURAL_MEMORY": "false",
        "JERVIS_USE_DECISION_AGENT": "false",
        "JERVIS_PRIORITY": "0",
        "JERVIS_WALL_CLOCK_SECONDS": "3600",
    }


def test_models_and_their_windows_reach_the_run() -> None:
    env = variables(replace(TEMPLATE, num_ctx=32768, planner_model="light", planner_num_ctx=8192))
    assert (env["JERVIS_MODEL"], env["JERVIS_NUM_CTX"]) == ("qwen", "32768")
    assert (env["JERVIS_PLANNER_MODEL"], env["JERVIS_PLANNER_NUM_CTX"]) == ("light", "8192")


def test_a_run_knows_the_release_that_counts_its_delegations() -> None:
    assert variables(replace(TEMPLATE, release="jervis/jervis-operator"))["JERVIS_RELEASE"] == "jervis/jervis-operator"


def test_a_task_s_flags_stand_above_those_of_the_release() -> None:
    template = replace(TEMPLATE, features={Flag.DELEGATION_GRAPH: True, Flag.DAG_EXECUTION: True})
    chosen = {Flag.DAG_EXECUTION: False, Flag.SPECIALIST_AGENTS: True}
    body = job.manifest(task(), 3, "n", template, chosen=chosen)
    env = {e["name"]: e["value"] for e in body["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert [env[one.variable] for one in Flag] == ["true", "true", "false", "false", "false"]


def test_an_address_from_a_secret_is_copied_into_no_job() -> None:
    template = replace(
        TEMPLATE,
        mongodb_uri="mongodb://root:pass@m",
        mongodb_secret="mongo",
        mongodb_secret_key="address",
        environment={"JERVIS_MONGODB_URI": "never mine"},
    )
    body = job.manifest(task(), 3, "n", template)
    variables = body["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [one for one in variables if one["name"] == "JERVIS_MONGODB_URI"] == [
        {"name": "JERVIS_MONGODB_URI", "valueFrom": {"secretKeyRef": {"name": "mongo", "key": "address"}}}
    ]
    assert "pass" not in json.dumps(body)
    assert len(variables) == len({one["name"] for one in variables})


def test_the_deadline_is_the_tasks_or_the_settings() -> None:
    assert made()["spec"]["activeDeadlineSeconds"] == 3600
    assert made(activeDeadlineSeconds=60)["spec"]["activeDeadlineSeconds"] == 60


@pytest.mark.parametrize("seconds", [60, 7200, 604_800])
def test_the_run_is_given_the_deadline_of_its_job(seconds: int) -> None:
    limit = variables(activeDeadlineSeconds=seconds)["JERVIS_WALL_CLOCK_SECONDS"]
    assert limit == str(made(activeDeadlineSeconds=seconds)["spec"]["activeDeadlineSeconds"]) == str(seconds)


@given(st.text(min_size=1, max_size=200), st.text(max_size=50), st.text(max_size=50))
def test_content_chooses_neither_image_nor_account_nor_path(content: str, message: str, author: str) -> None:
    messages = [{"id": "m", "text": message or "x", "author": author}]
    assert made(content=content, messages=messages) == made()


def test_a_run_mounts_the_secret_with_its_own_token() -> None:
    assert [volume["name"] for volume in pod_of()["volumes"]] == ["tmp"]
    shown = pod_of(replace(TEMPLATE, run_tokens=True))
    source = next(volume["secret"] for volume in shown["volumes"] if volume["name"] == "run-token")
    assert source["secretName"] == job.name("mail-1", UID, 3)
    (container,) = shown["containers"]
    mount = next(m for m in container["volumeMounts"] if m["name"] == "run-token")
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["JERVIS_RUN_TOKEN_FILE"] == "/var/run/jervis/token"
    assert (mount["mountPath"], mount["readOnly"], "subPath" in mount) == ("/var/run/jervis", True, False)
    assert shown["automountServiceAccountToken"] is False


def test_the_user_is_the_settings_and_may_be_the_platforms() -> None:
    context = pod_of()["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (10001, 10001, 10001)
    assigned = pod_of(replace(TEMPLATE, run_as_user=None))["securityContext"]
    assert assigned == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_where_it_runs_and_what_it_mounts_are_added_to_what_every_run_has() -> None:
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    }
    dedicated = {"key": "dedicated", "operator": "Equal", "value": "agents", "effect": "NoSchedule"}
    reference = {"secretKeyRef": {"name": "observability", "key": "headers"}}
    template = replace(
        TEMPLATE,
        run_tokens=True,
        pod={"priorityClassName": "batch", "affinity": affinity, "restartPolicy": "Always"},
        annotations={"team": "a", "jervis.dev/backend": "never mine"},
        tolerations=[dedicated],
        extra_env=[
            {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": reference},
            {"name": "JERVIS_TASK_UID", "value": "never mine"},
            {"name": "JERVIS_MONGODB_URI", "value": "never mine"},
        ],
        volumes=[{"name": "ca", "configMap": {"name": "authorities"}}],
        volume_mounts=[{"name": "ca", "mountPath": "/etc/jervis/ca", "readOnly": True}],
    )
    body = job.manifest(task(), 3, "n", template)
    pod = body["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["affinity"], pod["restartPolicy"]) == ("batch", affinity, "Never")
    assert pod["tolerations"] == [*pod_of()["tolerations"], dedicated]
    for metadata in (body["metadata"], body["spec"]["template"]["metadata"]):
        found = metadata["annotations"]
        assert (found["team"], found["jervis.dev/backend"]) == ("a", "")
    assert [one["name"] for one in pod["volumes"]] == ["tmp", "ca", "run-token"]
    (container,) = pod["containers"]
    assert [one["name"] for one in container["volumeMounts"]] == ["tmp", "ca", "run-token"]
    names = [one["name"] for one in container["env"]]
    assert len(names) == len(set(names))
    assert {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": reference} in container["env"]
    assert {"name": "JERVIS_TASK_UID", "value": UID} in container["env"]
    assert {"name": "JERVIS_MONGODB_URI", "value": "mongodb://m"} in container["env"]


def test_a_run_has_room_for_its_largest_clone_and_as_much_again() -> None:
    [room] = [one["emptyDir"]["sizeLimit"] for one in pod_of()["volumes"] if one["name"] == "tmp"]
    assert quantity_bytes(room) >= 2 * tool_settings.Settings(_env_file=None).clone_bytes


@pytest.mark.parametrize(
    ("allowed", "tokens", "logs"),
    [
        (None, True, ""),
        (reading.Allowed("jervis"), True, "false"),
        (reading.Allowed("default"), True, ""),
        (reading.Allowed("jervis"), False, ""),
        (reading.Allowed("default", frozenset({"default"}), frozenset({"*"})), True, "true"),
    ],
)
def test_a_run_learns_where_the_state_of_its_namespace_is_if_it_is_shown(
    allowed: reading.Allowed | None, tokens: bool, logs: str
) -> None:
    template = replace(TEMPLATE, run_tokens=tokens, cluster_state=allowed, cluster_state_url="http://operator")
    shown = {"JERVIS_CLUSTER_STATE_URL": "http://operator", "JERVIS_CLUSTER_STATE_LOGS": logs} if logs else {}
    assert {name: value for name, value in variables(template).items() if "CLUSTER_STATE" in name} == shown
