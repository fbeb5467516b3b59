"""The chart on the shared apiserver, with nobody but the apiserver running."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crds.phases import Phase
from hack.cluster import binaries, progress
from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, MARKED, OUTSIDE, TEAM, TENANT, Caller
from tests.chart.cluster import Cluster
from tests.chart.rendering import CHART, Chart

PERMITS = [
    {"tools": ["sendMail", "mcp:crm.*"], "targets": ["*@example.com", "acme/shop#*"]},
    {"tools": ["createIssue"], "targets": ["*"], "mayShare": True},
]
VALUES = (
    "--set", "crds.enabled=false", "--set", f"watchNamespaces={{{TEAM},{TENANT},{MARKED}}}",
    "--set", f"admission.namespaces.{TEAM}.contentBytes=64",
    "--set", f"admission.namespaces.{TEAM}.referencedBytes=1000",
    "--set", f"admission.namespaces.{TEAM}.types={{UserInputProcessing,ScheduledTask}}",
    "--set", f"admission.namespaces.{TENANT}.clients={{tess,shared}}",
    "--set", f"admission.namespaces.{TENANT}.modes={{Background}}",
    "--set", f"admission.namespaces.{TENANT}.queuePosition=1000",
    "--set-json", f"admission.namespaces.{TEAM}.permits=[]",
    "--set-json", f"admission.namespaces.{TENANT}.permits={json.dumps(PERMITS)}",
    "--set", "admission.allowedHosts.gpuBackends={gpu-0.lab,*.gpus.example.com}",
    "--set", "admission.allowedHosts.connections={git.example.com}",
    "--set", "gpuBackends[0].name=own,gpuBackends[0].url=http://own.lab:11434",
)  # fmt: skip


@pytest.fixture(scope="session")
def cluster(chart: Chart, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """kubectl and helm for the shared apiserver."""
    kubectl = binaries.program(binaries.KUBERNETES, "kubectl", progress.Progress())
    # Helm and kubectl keep caches below HOME.
    home = str(tmp_path_factory.mktemp("home"))
    return Cluster(chart, kubectl, {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": home})


@pytest.fixture(scope="session")
def admin(kubeconfig: Path) -> Iterator[Caller]:
    """The cluster's administrator, whom no role limits."""
    with callers.administrator(kubeconfig) as found:
        yield found


@pytest.fixture(scope="session")
def release(cluster: Cluster, admin: Caller) -> Iterator[Cluster]:
    """The release, with its policies in force."""
    for name in (HOME, TEAM, OUTSIDE, TENANT, MARKED):
        cluster.kubectl("create", "namespace", name)
    cluster.helm("install", "jervis", str(CHART), "-n", HOME, *VALUES)
    # A tenant who has given himself every right that roles can give: what refuses him is the policy.
    cluster.kubectl(
        "create", "clusterrole", "everything-of-jervis", "--verb=*",
        "--resource=*.jervis.dev,pendingtasks.jervis.dev/status,gpubackends.jervis.dev/status,connections.jervis.dev/status",
    )  # fmt: skip
    cluster.kubectl(
        "create", "clusterrolebinding", "tess", "--clusterrole=everything-of-jervis", "--user=tess",
        f"--serviceaccount={HOME}:jervis-router",
    )  # fmt: skip
    wait_enforced(admin)
    yield cluster
    cluster.helm("uninstall", "jervis", "-n", HOME)
    cluster.kubectl("delete", "clusterrolebinding/tess", "clusterrole/everything-of-jervis")


@pytest.fixture(scope="session")
def operator(release: Cluster, admin: Caller) -> Caller:
    """The operator's service account with the chart's roles."""
    return Caller(admin.http, f"system:serviceaccount:{HOME}:jervis-operator")


@pytest.fixture(scope="session")
def router(release: Cluster, admin: Caller) -> Caller:
    """The router's service account, here with a right to the status that the chart's roles do not give it."""
    return Caller(admin.http, f"system:serviceaccount:{HOME}:jervis-router")


@pytest.fixture(scope="session")
def tenant(release: Cluster, admin: Caller) -> Caller:
    """A user who may do everything that roles can allow."""
    return Caller(admin.http, "tess")


def wait_enforced(admin: Caller) -> None:
    """Return once each policy refuses something."""
    for namespace in (HOME, TEAM):
        body = callers.task()
        callers.succeed(admin.create(namespace, "pendingtasks", body))
        path = f"pendingtasks/{body['metadata']['name']}/status"
        callers.refused_soon(partial(admin.patch, namespace, path, callers.status(Phase.SCHEDULED), dry=True))
    for namespace, plural, body in (
        (TEAM, "pendingtasks", callers.task(content="x" * 65)),
        (HOME, "gpubackends", callers.backend("http://else.where:11434")),
        (HOME, "connections", callers.connection("https://else.where/x.git")),
        (TENANT, "connections", callers.connection("https://git.example.com/x.git")),
    ):
        callers.refused_soon(partial(admin.create, namespace, plural, body, dry=True))
