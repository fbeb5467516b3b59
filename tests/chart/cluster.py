"""A fresh apiserver for the chart: without our CRDs, with namespaces that enforce the restricted standard."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.cluster import binaries, progress, standalone
from tests.chart.rendering import Chart, Manifest

NAMESPACES = ("jervis", "team-a", "team-b", "empty")


@dataclass(frozen=True)
class Cluster:
    """An apiserver without controllers and without nodes: objects are kept, nothing runs."""

    chart: Chart
    kubectl_program: Path
    env: dict[str, str]

    @property
    def kubeconfig(self) -> Path:
        return Path(self.env["KUBECONFIG"])

    def helm(self, *arguments: str) -> str:
        result = self.chart.run(*arguments, env=self.env)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def try_kubectl(self, *arguments: str, document: Any = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.kubectl_program, *arguments],
            env=self.env, capture_output=True, text=True, input=None if document is None else json.dumps(document),
        )  # fmt: skip

    def kubectl(self, *arguments: str, document: Any = None) -> str:
        result = self.try_kubectl(*arguments, document=document)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def items(self, *arguments: str) -> list[Manifest]:
        found: list[Manifest] = json.loads(self.kubectl("get", "-o", "json", *arguments))["items"]
        return found


@contextmanager
def empty(directory: Path) -> Iterator[dict[str, str]]:
    """The environment in which Helm and kubectl find a cluster that holds nothing, for the length of the block."""
    with standalone.apiserver(directory / "apiserver") as server:
        # Helm and kubectl keep caches below HOME.
        yield {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(directory)}


@contextmanager
def running(chart: Chart, directory: Path) -> Iterator[Cluster]:
    """A cluster for the length of the block."""
    kubectl = binaries.program(binaries.KUBERNETES, "kubectl", progress.Progress())
    with empty(directory) as env:
        cluster = Cluster(chart, kubectl, env)
        for name in NAMESPACES:
            cluster.kubectl("create", "namespace", name)
            cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
            # The controller that makes it does not run here, and a pod needs one.
            cluster.kubectl("create", "serviceaccount", "default", "-n", name)
        yield cluster
