"""The Job of a command, and what its pod says."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.api import sandbox
from contracts.tokens import keyring, runtoken
from controllers.sandbox import job, reconcile
from kube import lease
from tests.controllers.test_job import TEMPLATE as RUN

TEMPLATE = job.Template(
    run=RUN,
    kb_url="http://kb-write",
    images={"python": "registry.test/python:3"},
    seconds=600,
    memory="2Gi",
    cpu="1",
    ttl_seconds=600,
)
REF = {"store": "gridfs", "key": "content/1", "sha256": "a" * 64, "bytes": 7}


def command(**more: Any) -> sandbox.Command:
    known = {
        "_id": "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00/r1.d1.4",
        "taskUid": "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00",
        "namespace": "team",
        "scope": {"clientId": "acme", "projectId": "", "groupId": ""},
        "image": "python",
        "argv": ["pytest", "-q", "$(id)"],
        "workspace": REF,
        "limits": {"seconds": 60, "memory": "1Gi"},
        "requestedAt": "2027-03-01T12:00:00Z",
    }
    return sandbox.Command.model_validate({**known, **more})


def pod() -> dict[str, Any]:
    body = job.manifest(command(), TEMPLATE, lease.NO_LEADER)
    found: dict[str, Any] = body["spec"]["template"]["spec"]
    return found


def test_the_command_has_neither_token_nor_address_and_no_shell_reads_its_words() -> None:
    fetch, run = pod()["initContainers"]
    (report,) = pod()["containers"]
    assert [one["name"] for one in (fetch, run, report)] == ["fetch", "command", "report"]
    assert run["image"] == "registry.test/python:3"
    assert run["command"][-3:] == ["pytest", "-q", "$(id)"]
    assert run["command"][:3] == ["/bin/sh", "-c", job.SCRIPT]
    assert {one["name"] for one in run["env"]} == {"HOME", "CI"}
    assert [one["name"] for one in run["volumeMounts"]] == ["work", "left", "command-tmp"]
    assert run["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    for one in (fetch, run, report):
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod()["automountServiceAccountToken"] is False
    assert pod()["securityContext"]["runAsNonRoot"]


def test_one_job_per_command_that_is_never_tried_twice() -> None:
    body = job.manifest(command(), TEMPLATE, lease.NO_LEADER)
    assert body["metadata"]["name"] == job.name(command()) != job.name(command(_id="x/r1.d1.5"))
    assert len(body["metadata"]["name"]) <= 63
    assert (body["spec"]["backoffLimit"], body["spec"]["activeDeadlineSeconds"]) == (0, 660)


def test_the_token_is_for_the_knowledge_base_and_the_scope_alone(tmp_path: Path) -> None:
    (tmp_path / keyring.SIGNING).write_text("key-" * 12)
    now = datetime(2027, 3, 1, tzinfo=UTC)
    keys = keyring.Keyring(tmp_path, lambda: 0.0)
    signer = runtoken.Signer(keys, lambda: now)
    made = job.secret(command(), TEMPLATE, "job-uid", signer)
    assert made["type"] == "jervis.dev/run-token"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert list(made["data"]) == ["token"]
    token = base64.b64decode(made["data"]["token"]).decode()
    claims = runtoken.Verifier(keys, lambda: now, runtoken.KNOWLEDGE_BASE).verify(token)
    assert (claims.sandbox, claims.scope, claims.task_uid) == (True, command().scope, command().task_uid)
    for service in (runtoken.ROUTER, runtoken.SOURCES):
        with pytest.raises(runtoken.WrongAudience):
            runtoken.Verifier(keys, lambda: now, service).verify(token)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"image": "rust"}, "There is no image 'rust'; images are: python"),
        ({"limits": {"seconds": 601, "memory": "1Gi"}}, "600 seconds at most"),
        ({"limits": {"seconds": 60, "memory": "3Gi"}}, "2Gi of memory at most"),
    ],
)
def test_what_is_refused(more: dict[str, Any], why: str) -> None:
    said = job.refuses(command(**more), TEMPLATE)
    assert said.startswith(why) or why in said
    assert bool(said) == bool(why)


def ended(**messages: Any) -> list[dict[str, Any]]:
    """A pod whose containers left these: a message, or (exit code, reason)."""
    statuses = []
    for name, said in messages.items():
        state = (
            {"exitCode": said[0], "reason": said[1]} if isinstance(said, tuple) else {"exitCode": 0, "message": said}
        )
        statuses.append({"name": name, "state": {"terminated": state}})
    made = {"creationTimestamp": str(datetime.now(UTC) + timedelta(0))}
    return [{"metadata": made, "status": {"initContainerStatuses": statuses[:2], "containerStatuses": statuses[2:]}}]


def test_what_a_pod_says() -> None:
    said = reconcile.reported(ended(fetch="", command="", report=json.dumps({"exitCode": 1, "outputRef": REF})))
    assert isinstance(said, reconcile.Report)
    assert (said.exit_code, said.patch_ref) == (1, None)
    assert reconcile.reported(ended(fetch=json.dumps({"failure": "The stored workspace is damaged."}))) == (
        "The stored workspace is damaged."
    )
    killed = reconcile.reported(ended(fetch="", command=(137, "OOMKilled")))
    assert killed == "Container command was killed for want of memory."
    # A command may write a termination message of its own.
    forged = reconcile.reported(
        ended(fetch="", command=json.dumps({"failure": "x", "exitCode": 0}), report=(1, "Error"))
    )
    assert isinstance(forged, str)
    assert "x" not in forged.split()
    assert reconcile.reported(ended(fetch="", command="", report='{"exitCode": 700}')) == (
        "What its report says is not of the form."
    )
    assert reconcile.reported([]) == ""
