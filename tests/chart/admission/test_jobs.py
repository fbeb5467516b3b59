"""Runs on a real apiserver: the Lease's transitions against a Job's epoch, and who may mark a Job or pod as a run's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from controllers import settings
from controllers.pendingtask import job
from crds import pendingtask
from kube import lease
from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, TEAM, Caller

pytestmark = pytest.mark.apiserver
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/jervis-operator"
TEMPLATE = job.Template("default", "fake", "Never", "default", "http://kb", "http://router", "mongodb://m", "model")
TASK = {"type": "UserInputProcessing", "clientId": "acme", "content": "hello"}


def body(name: str, token: lease.FencingToken, namespace: str = HOME) -> dict[str, Any]:
    meta = {"name": "chat", "namespace": TEAM, "uid": "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"}
    task = pendingtask.PendingTask.model_validate({"metadata": meta, "spec": TASK})
    return job.manifest(task, 1, name, dataclasses.replace(TEMPLATE, namespace=namespace), token=token)


def send(who: Caller, verb: str, path: str, content: dict[str, Any], *, dry: bool = False) -> httpx.Response:
    headers = {"Impersonate-User": who.user} if who.user else {}
    kind = "merge-patch+json" if verb == "PATCH" else "json"
    dried = {"dryRun": "All"} if dry else {}
    headers["Content-Type"] = f"application/{kind}"
    return who.http.request(verb, path, json=content, headers=headers, params=dried)


def create(
    who: Caller, name: str, epoch: int, created: str = "", *, namespace: str = HOME, dry: bool = False
) -> httpx.Response:
    made = body(name, lease.FencingToken(epoch, created), namespace)
    return send(who, "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", made, dry=dry)


def patch(who: Caller, name: str, content: dict[str, Any]) -> httpx.Response:
    return send(who, "PATCH", f"/apis/batch/v1/namespaces/{HOME}/jobs/{name}", content)


def lead(admin: Caller, times: int) -> datetime:
    """Create the Lease of an operator that leads for that time; when it was created."""
    spec = {"holderIdentity": "operator-1", "leaseTransitions": times}
    made = {"metadata": {"name": "jervis-operator"}, "spec": spec}
    stored = callers.succeed(send(admin, "POST", LEASE.rpartition("/")[0], made))
    return datetime.fromisoformat(stored["metadata"]["creationTimestamp"])


def written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def since(admin: Caller, operator: Caller) -> Iterator[datetime]:
    """The operator leads for the fifth time, with a Lease that was created then."""
    at = lead(admin, 5)
    callers.refused_soon(partial(create, operator, "late", 4, dry=True))
    yield at
    callers.succeed(send(admin, "DELETE", LEASE, {}))
    callers.accepted_soon(partial(create, operator, "late", 4, dry=True))


@pytest.mark.usefixtures("since")
def test_a_job_of_a_former_leader_is_refused_with_a_code_that_means_later(operator: Caller) -> None:
    answer = create(operator, "late", 4)
    assert answer.status_code == 403, "for the operator: not now; a code for an invalid object would end the task"
    assert "4 is lower than 5, the leaseTransitions of Lease admission/jervis-operator" in callers.refusal(answer)
    callers.succeed(create(operator, "in-time", 5))
    callers.succeed(create(operator, "next", 6))  # the Lease is newer than the apiserver's copy of it


def test_a_former_leader_neither_suspends_nor_resumes_nor_expires(operator: Caller, since: datetime) -> None:
    callers.succeed(create(operator, "runs", 5))
    former = lease.FencingToken(4, written(since))
    for late in (job.suspension(True, former), job.suspension(False, former), job.expiry(60, former)):
        assert patch(operator, "runs", late).status_code == 403
    callers.succeed(patch(operator, "runs", job.suspension(True, lease.FencingToken(5, written(since)))))
    callers.succeed(patch(operator, "runs", job.suspension(False, lease.FencingToken(6, written(since)))))


def test_epochs_of_two_leases_are_compared_by_the_older_only(operator: Caller, since: datetime) -> None:
    """A Lease that was deleted and is there again counts from one, and the apiserver may still know the one before."""
    before, after = written(since - timedelta(seconds=1)), written(since + timedelta(seconds=1))
    assert create(operator, "older", 4, before, dry=True).status_code == 403
    assert create(operator, "same", 4, written(since), dry=True).status_code == 403
    callers.succeed(create(operator, "younger", 1, after, dry=True))


@pytest.mark.usefixtures("since")
def test_the_epoch_is_the_operators_alone(operator: Caller, admin: Caller) -> None:
    callers.succeed(create(operator, "held", 5))
    callers.succeed(patch(admin, "held", {"spec": {"suspend": True}}))
    callers.succeed(patch(admin, "held", {"metadata": {"annotations": {job.EPOCH_ANNOTATION: "1"}}}))


def test_without_a_lease_nobody_is_refused(operator: Caller) -> None:
    callers.succeed(create(operator, "alone", 0))


# -- who marks a run ---------------------------------------------------------------------------------------------------

POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "one", "image": "fake"}], "serviceAccountName": "default"}
MARKS = [job.UID_LABEL, job.TASK_LABEL, job.TASK_NAMESPACE_LABEL, job.ATTEMPT_LABEL]
JOBS, PODS, SECRETS = (
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/pods",
    "/api/v1/namespaces/{}/secrets",
)
CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def labelled(name: str, *, on: tuple[str, ...] = (), worn: tuple[str, ...] = ()) -> dict[str, Any]:
    """A Job with these labels, and its pods with those."""
    template = {"metadata": {"labels": dict.fromkeys(worn, "1")}, "spec": POD_SPEC}
    meta = {"name": name, "labels": dict.fromkeys(on, "1")}
    return {"metadata": meta, "spec": {"template": template}}


@pytest.fixture
def intruder(admin: Caller, release: object) -> Caller:
    """The cluster's administrator under another name: no role refuses him anything."""
    return Caller(admin.http, "")


@pytest.mark.parametrize("mark", MARKS)
def test_only_the_operator_makes_a_job_that_says_it_is_a_run(intruder: Caller, operator: Caller, mark: str) -> None:
    where = JOBS.format(HOME)
    for forged in (labelled("forged", on=(mark,)), labelled("forged", worn=(mark,))):
        assert f"{mark} mark a run of Jervis" in callers.refusal(send(intruder, "POST", where, forged, dry=True))
    callers.succeed(send(intruder, "POST", where, labelled("another", on=("app",), worn=("app",)), dry=True))
    callers.succeed(send(intruder, "POST", JOBS.format(TEAM), labelled("elsewhere", on=(mark,)), dry=True))


def test_a_run_is_suspended_and_deleted_by_others_and_keeps_its_labels(intruder: Caller, operator: Caller) -> None:
    callers.succeed(create(operator, "mine", 9))
    callers.succeed(patch(intruder, "mine", {"spec": {"suspend": True}}))
    callers.succeed(patch(intruder, "mine", {"metadata": {"labels": {"team": "red"}}}))
    for change in ({job.ATTEMPT_LABEL: "7"}, {job.UID_LABEL: None}):
        said = callers.refusal(patch(intruder, "mine", {"metadata": {"labels": change}}))
        assert next(iter(change)) in said
    callers.succeed(patch(operator, "mine", job.expiry(0, lease.FencingToken(9))))
    callers.succeed(send(intruder, "DELETE", f"{JOBS.format(HOME)}/mine", {}))


@pytest.mark.parametrize("mark", MARKS)
def test_only_the_job_controller_makes_a_pod_of_a_run(intruder: Caller, admin: Caller, mark: str) -> None:
    forged = {"metadata": {"name": "forged", "labels": {mark: "1"}}, "spec": POD_SPEC}
    plain = {"metadata": {"name": "plain"}, "spec": POD_SPEC}
    where = PODS.format(HOME)
    send(admin, "POST", f"/api/v1/namespaces/{HOME}/serviceaccounts", {"metadata": {"name": "default"}})
    assert f"{mark} mark a pod of a run" in callers.refusal(send(intruder, "POST", where, forged, dry=True))
    callers.succeed(send(intruder, "POST", where, plain, dry=True))
    cluster_role = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {
        "metadata": {"name": "test-job-controller"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": CONTROLLER}],
    }
    callers.succeed(send(admin, "POST", cluster_role, binding))
    callers.accepted_soon(partial(send, Caller(admin.http, CONTROLLER), "POST", where, forged, dry=True))
    callers.succeed(send(admin, "DELETE", f"{cluster_role}/test-job-controller", {}))


def test_the_operator_writes_secrets_of_runs_and_no_others(operator: Caller, admin: Caller) -> None:
    where = SECRETS.format(HOME)
    run = {"metadata": {"name": "run-1"}, "type": "jervis.dev/run-token", "stringData": {"token": "t"}}
    callers.succeed(send(operator, "POST", where, run))
    callers.succeed(send(operator, "PUT", f"{where}/run-1", run))
    other = {"metadata": {"name": "keys"}, "type": "Opaque", "stringData": {"uri": "mongodb://real"}}
    callers.succeed(send(admin, "POST", where, other))
    for verb, path, body in (
        ("POST", where, {**other, "metadata": {"name": "new"}}),
        ("PUT", f"{where}/keys", {**other, "stringData": {"uri": "mongodb://mine"}}),
    ):
        assert "run-token alone" in callers.refusal(send(operator, verb, path, body))
    for verb, path in (("GET", f"{where}/run-1"), ("GET", where), ("DELETE", f"{where}/keys")):
        assert send(operator, verb, path, {}).status_code == 403


def test_the_apiserver_takes_a_run_with_all_that_job_of_the_values_adds(admin: Caller, operator: Caller) -> None:
    """With unknown fields refused, and without a warning about the restricted Pod Security Standard."""
    config = settings.Settings(
        namespace=HOME,
        job_run_as_user=None,
        job_annotations={"team": "a"},
        job_node_selector={"pool": "agents"},
        job_tolerations=[{"key": "dedicated", "operator": "Equal", "value": "agents", "effect": "NoSchedule"}],
        job_affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "one"}}}
        ]}},
        job_topology_spread_constraints=[{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "orchestrator-job"}},
        }],
        job_priority_class_name="batch",
        job_runtime_class_name="gvisor",
        job_extra_env=[settings.EnvVar(name="A", value_from={"secretKeyRef": {"name": "one", "key": "a"}})],
        job_extra_volumes=[{"name": "ca-bundle", "configMap": {"name": "authorities"}}],
        job_extra_volume_mounts=[{"name": "ca-bundle", "mountPath": "/etc/jervis/ca-bundle", "readOnly": True}],
    )  # fmt: skip
    meta = {"name": "chat", "namespace": TEAM, "uid": "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"}
    task = pendingtask.PendingTask.model_validate({"metadata": meta, "spec": TASK})
    sent = job.manifest(task, 1, "placed", config.template())
    home = f"/api/v1/namespaces/{HOME}"
    warned = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    callers.succeed(send(admin, "PATCH", home, warned))
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    headers = {"Impersonate-User": operator.user or ""}
    answer = operator.http.post(JOBS.format(HOME), json=sent, headers=headers, params=params)
    callers.succeed(send(admin, "PATCH", home, {"metadata": {"labels": dict.fromkeys(warned["metadata"]["labels"])}}))
    kept = callers.succeed(answer)["spec"]["template"]["spec"]
    assert "warning" not in answer.headers
    own = sent["spec"]["template"]["spec"]
    for name in ("tolerations", "affinity", "nodeSelector", "runtimeClassName", "priorityClassName", "securityContext"):
        assert kept[name] == own[name]
    assert [one["name"] for one in kept["volumes"]] == ["tmp", "ca-bundle"]
