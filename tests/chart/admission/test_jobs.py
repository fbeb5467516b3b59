"""Jobs are written by whoever leads now: the Lease's transitions against the Job's epoch, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from controllers import lease
from controllers.pendingtask import job
from crds import pendingtask
from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, TEAM, Caller

pytestmark = pytest.mark.apiserver
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/jervis-operator"
TEMPLATE = job.Template("fake", "Never", "default", "http://kb", "http://router", "mongodb://m", "model")
TASK = {"type": "UserInputProcessing", "clientId": "acme", "content": "hello"}


def body(name: str, token: lease.FencingToken, namespace: str = HOME) -> dict[str, Any]:
    meta = {"name": "chat", "namespace": namespace, "uid": "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"}
    task = pendingtask.PendingTask.model_validate({"metadata": meta, "spec": TASK})
    return job.manifest(task, 1, name, TEMPLATE, token=token)


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
    assert create(operator, "late", 4, namespace=TEAM).status_code == 403
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
def test_everybody_else_is_free(operator: Caller, admin: Caller) -> None:
    callers.succeed(create(admin, "by-hand", 0))
    callers.succeed(create(operator, "held", 5))
    callers.succeed(patch(admin, "held", {"spec": {"suspend": True}}))
    callers.succeed(patch(admin, "held", {"metadata": {"annotations": {job.EPOCH_ANNOTATION: "1"}}}))


def test_without_a_lease_nobody_is_refused(operator: Caller) -> None:
    callers.succeed(create(operator, "alone", 0))
