"""What a user sees when something is wrong: at once where the apiserver can tell, else as a condition with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from crds import API_VERSION, gpubackend
from crds.conditions import Condition
from crds.phases import Phase
from tests import thorough
from tests.e2e.site import Site
from tests.waiting import until

pytestmark = thorough.only


def task(spec: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": API_VERSION, "kind": "PendingTask", "metadata": {"name": "refused"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"type": "Mail", "clientId": "acme", "content": "x"}, "spec.type", "EmailProcessing"),
        ({"type": "UserTask", "content": "x"}, "spec.clientId", "Required value"),
        ({"type": "UserTask", "clientId": "acme"}, "spec", "set exactly one of content and contentRef"),
        ({"type": "UserTask", "clientId": "acme", "content": "x", "prority": 1}, "spec.prority", "unknown field"),
        ({"type": "UserTask", "clientId": "acme", "content": "á" * 20000}, "spec.content", "POST /api/v1/content"),
        ({"type": "UserTask", "clientId": "acme", "content": "x" * 40000}, "spec.content", "POST /api/v1/content"),
    ],
    ids=["type", "client", "content", "misspelt", "large-utf8", "large"],
)
def test_a_malformed_task_is_refused_by_kubectl(site: Site, spec: dict[str, Any], field: str, words: str) -> None:
    done = site.kubectl.attempt("apply", "-f", "-", stdin=task(spec))
    assert done.returncode != 0
    assert field in done.stderr
    assert words in done.stderr
    assert not site.kubectl.run("get", "pendingtask", "refused", "--ignore-not-found")


def ask_router(site: Site, services: httpx.Client, model: str) -> httpx.Response:
    """POST /api/chat with an account's token, where the apiserver's proxy, which keeps Authorization to itself, lets it
    pass."""
    token = site.kubectl.run("create", "token", "default", "--audience=jervis-router").strip()
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": False}
    return services.post("/jervis-router:11430/proxy/api/chat", json=body, headers={"x-api-key": token})


def test_an_unreachable_backend(site: Site, services: httpx.Client) -> None:
    """Its condition says so, and the router answers 503 for what only that backend has."""
    site.kubectl.apply(
        [
            {
                "apiVersion": API_VERSION,
                "kind": "GpuBackend",
                "metadata": {"name": "away"},
                "spec": {
                    "url": "http://jervis-nowhere:11434",
                    "kind": "CPU",
                    "modelSets": [{"name": "only", "models": [{"name": "only-there:1b", "cpuAllowed": True}]}],
                },
            }
        ]
    )
    try:

        def not_ready() -> list[Condition]:
            found = gpubackend.GpuBackend.model_validate(site.kubectl.get("gpubackend", "away"))
            return [c for c in found.status.conditions if c.type == "Ready" and c.status.value == "False"]

        (ready,) = until(not_ready, "a condition of the backend")
        assert "spec.url" in ready.message
        shown = site.kubectl.run("get", "gpu", "away")
        assert "False" in shown
        assert ready.reason in shown
        answer = ask_router(site, services, "only-there:1b")
        assert answer.status_code == 503
        assert "only-there:1b" in answer.json()["error"]
        assert int(answer.headers["Retry-After"]) > 0
    finally:
        site.kubectl.run("delete", "gpubackend", "away")


def test_a_wrong_model_name(site: Site, services: httpx.Client) -> None:
    answer = ask_router(site, services, "qwen9:1000b")
    assert answer.status_code == 404
    assert "qwen9:1000b" in answer.json()["error"]


def test_a_run_with_a_wrong_model_ends_with_its_name(site: Site, owner: str) -> None:
    """The operator is told to use a model that no backend has; the user reads which and what to do."""
    site.kubectl.run("set", "env", "deployment/jervis-operator", "JERVIS_OPERATOR_MODEL=qwen9:1000b")
    site.kubectl.run("rollout", "status", "deployment/jervis-operator", "--timeout=90s", seconds=100)
    try:
        spec = {"type": "UserInputProcessing", "mode": "Foreground", "content": "Who is on call?"}
        site.apply("model", {"wrong-model": spec}, owner)
        ended = site.ends("model", {"wrong-model": Phase.USER_TASK})["wrong-model"]
        assert ended.status.user_task is not None
        assert ended.status.user_task.kind.value == "Failure"
        assert ended.status.result is not None
        assert ended.status.result.exit_reason == "WrongModel"
        assert "qwen9:1000b" in ended.status.result.summary
    finally:
        site.kubectl.run("set", "env", "deployment/jervis-operator", "JERVIS_OPERATOR_MODEL=qwen3-coder:30b")
        site.kubectl.run("rollout", "status", "deployment/jervis-operator", "--timeout=90s", seconds=100)


def test_mongodb_stopped_and_started(site: Site, owner: str) -> None:
    """The task waits where everybody can see it, and goes on by itself."""
    if not site.wanted.local:
        pytest.skip("the data services of your cluster are not ours to stop")
    spec = {"type": "UserInputProcessing", "mode": "Foreground", "content": "Which node has a failed disk?"}
    hack(("service", "mongodb", "stop"))
    try:
        site.apply("mongodb", {"patient": spec}, owner)

        def waiting() -> str:
            retry = site.kubectl.task("patient").status.retry
            return retry.reason if retry and retry.next_at else ""

        assert "mongo" in until(waiting, "a visible retry").lower()
        stands = site.kubectl.task("patient").status.phase
        assert stands in {Phase.READY_FOR_GPU, Phase.DISPATCHED_GPU, Phase.READY_FOR_QUALIFICATION}
    finally:
        hack(("service", "mongodb", "start"))
    site.ends("mongodb", {"patient": {Phase.COMPLETED, Phase.USER_TASK}}, seconds=180)
    patient = site.kubectl.task("patient")
    assert sum(site.jobs([patient]).values()) == patient.status.attempt


def hack(arguments: tuple[str, ...]) -> None:
    """`python -m hack.cluster ARGUMENTS`."""
    subprocess.run([sys.executable, "-m", "hack.cluster", *arguments], check=True)
