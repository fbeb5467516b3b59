"""The scripts that the chart's short-lived pods run, run as they run them: `python -c TEXT ARGUMENTS`."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from aiohttp import web

from crds import modelcheck, modelroles
from tests import httpserver
from tests.chart import cluster as clusters
from tests.chart import rendering
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart


def run(text: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A system Python without our packages must do: the script uses the standard library alone."""
    command = [sys.executable, "-I", "-c", text, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=120)


def script_of(chart: Chart, pod_name: str, *arguments: str) -> tuple[str, list[str]]:
    """The text and the arguments as they are rendered into a pod."""
    pod = next(pod for name, pod in rendering.pods(chart.render(*arguments)) if name == pod_name)
    python, dash_c, text, *rest = pod["spec"]["containers"][0]["command"]
    assert (python, dash_c) == ("python", "-c")
    return text, rest


@pytest.fixture
def neighbour() -> Iterator[str]:
    """An HTTP server: /ready answers 200, /missing answers 503 with a reason, /late 503 once and then 200."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        ready = request.path == "/ready" or (request.path == "/late" and asked.count("/late") > 1)
        return web.Response(status=200 if ready else 503, body=b"fine" if ready else b"weaviate is down")

    with httpserver.in_thread(httpserver.serving(answer, method="GET")) as url:
        yield url


def test_all_four_doors_are_asked(chart: Chart) -> None:
    _, addresses = script_of(chart, "Pod/jervis-test-ready")
    assert [urlsplit(address).netloc for address in addresses] == [
        "jervis-operator.jervis.svc:9090", "jervis-router.jervis.svc:11430",
        "jervis-kb-read.jervis.svc:8080", "jervis-kb-write.jervis.svc:8080",
    ]  # fmt: skip
    assert {urlsplit(address).path for address in addresses} == {"/readyz"}


def test_ready_neighbours_pass(chart: Chart, neighbour: str) -> None:
    text, _ = script_of(chart, "Pod/jervis-test-ready")
    result = run(text, f"{neighbour}/ready", f"{neighbour}/late")
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stderr.splitlines()] == ["ready", "ready"]


def test_a_missing_neighbour_is_named(chart: Chart, neighbour: str) -> None:
    text, _ = script_of(chart, "Pod/jervis-test-ready")
    text = text.replace("TRIES = 30", "TRIES = 2")
    result = run(text, f"{neighbour}/missing", f"{neighbour}/ready", "http://127.0.0.1:9/readyz")
    assert result.returncode == 1
    assert f"NOT READY {neighbour}/missing 503: weaviate is down" in result.stderr
    assert "Connection refused" in result.stderr


def test_nothing_to_ask_is_no_success(chart: Chart) -> None:
    text, _ = script_of(chart, "Pod/jervis-test-ready")
    assert run(text).returncode == 1


@pytest.mark.apiserver
def test_the_wait_for_the_kinds(chart: Chart, tmp_path: Path) -> None:
    """With the token of an account that has no role at all: too early, and after the CRDs are there."""
    text, _ = script_of(chart, "Job/jervis-wait-for-crds", "--set", "simulator.enabled=true")
    with clusters.running(chart, tmp_path) as cluster:
        env = mounted_account(cluster, tmp_path)
        early = run(text.replace("TRIES = 60", "TRIES = 1"), str(tmp_path), env=env)
        assert early.returncode == 1
        assert "are not served: HTTP Error 404" in early.stderr
        cluster.kubectl("apply", "--server-side", "-f", str(CHART.parents[1] / "crds"))
        late = run(text, str(tmp_path), env=env)
        assert late.returncode == 0, late.stderr


def mounted_account(cluster: Cluster, folder: Path) -> dict[str, str]:
    """What the kubelet gives a pod: the token and the CA as files in `folder`, the address as environment."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    encoded = config.get("certificate-authority-data")
    authority = base64.b64decode(encoded) if encoded else Path(config["certificate-authority"]).read_bytes()
    (folder / "ca.crt").write_bytes(authority)
    (folder / "token").write_text(cluster.kubectl("create", "token", "default", "-n", "jervis").strip())
    address = urlsplit(config["server"])
    return {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}


def answering(document: object) -> AbstractContextManager[str]:
    """A router that has this status for those who show a token."""

    async def answer(request: web.Request) -> web.StreamResponse:
        known = request.headers.get("Authorization") == "Bearer secret"
        return httpserver.reply(document if known else {}, 200 if known else 401)

    return httpserver.in_thread(httpserver.serving(answer, method="GET"))


@pytest.mark.parametrize(("has", "code"), [("qwen2.5:7b", 0), ("other", 1)])
def test_a_role_without_a_model_fails_the_test_of_the_release(
    chart: Chart, tmp_path: Path, has: str, code: int
) -> None:
    text, arguments = script_of(chart, "Pod/jervis-test-models", "--set", "router.auth.tokenReview=true")
    assert arguments == ["http://jervis-router.jervis.svc:11430/router/status"]
    says = modelcheck.Facts(frozenset({"completion"}), 32_768)
    backend = modelcheck.Backend("gpu-0", frozenset({has}), {has: says})
    report = modelcheck.check([modelroles.Assigned(role="qualifier", model="qwen2.5:7b")], [backend])
    (tmp_path / "token").write_text("secret\n")
    with answering({"models": report.model_dump(mode="json", by_alias=True)}) as url:
        shown = {"ROUTER_TOKEN_FILE": str(tmp_path / "token")}
        done = run(text.replace("TRIES = 60", "TRIES = 2"), f"{url}/router/status", env=shown)
    assert done.returncode == code, done.stderr
    stops = [line for line in done.stdout.splitlines() if line.startswith("STOPS")]
    assert len(stops) == code
    assert all("no document is read" in line for line in stops)
