"""What a Prometheus with its operator does: follow ServiceMonitors to pods and read their metrics."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from hack.cluster import binaries
from hack.demo.kubectl import Kubectl

_MODULE = "github.com/prometheus-operator/prometheus-operator"
_KINDS = ("servicemonitors", "prometheusrules")


class Target(NamedTuple):
    """A pod that a ServiceMonitor selects."""

    monitor: str
    namespace: str
    pod: str


@contextmanager
def kinds(cluster: Kubectl) -> Iterator[None]:
    """The CustomResourceDefinitions of the Prometheus operator, for as long as it lasts if the cluster has none."""
    missing = [kind for kind in _KINDS if cluster.attempt("get", "crd", f"{kind}.monitoring.coreos.com").returncode]
    files = [_module() / f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml" for kind in missing]
    for file in files:
        cluster.run("apply", "--server-side", "-f", str(file))
    for kind in missing:
        cluster.run("wait", "--for=condition=Established", "crd", f"{kind}.monitoring.coreos.com", "--timeout=30s")
    try:
        yield
    finally:
        for kind in missing:
            cluster.run("delete", "crd", f"{kind}.monitoring.coreos.com", "--ignore-not-found", seconds=90)


def scrape(cluster: Kubectl) -> dict[Target, list[Sample]]:
    """Every sample of each target of the ServiceMonitors in the namespace of `cluster`."""
    return {target: _read(cluster, target, port, path) for target, port, path in _targets(cluster)}


def _targets(cluster: Kubectl) -> Iterator[tuple[Target, int, str]]:
    """(target, port, path), by the labels and names of ports that the ServiceMonitors give."""
    for monitor in cluster.items("servicemonitors"):
        spec = monitor["spec"]
        labels = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
        for namespace in spec["namespaceSelector"]["matchNames"]:
            for service in cluster.items("services", "-n", namespace, "-l", labels):
                belongs = f"kubernetes.io/service-name={service['metadata']['name']}"
                for part in cluster.items("endpointslices", "-n", namespace, "-l", belongs):
                    numbers = {port["name"]: int(port["port"]) for port in part["ports"]}
                    for endpoint in spec["endpoints"]:
                        for address in part["endpoints"]:
                            target = Target(monitor["metadata"]["name"], namespace, address["targetRef"]["name"])
                            yield target, numbers[endpoint["port"]], endpoint["path"]


def _read(cluster: Kubectl, target: Target, port: int, path: str) -> list[Sample]:
    text = cluster.run("get", "--raw", f"/api/v1/namespaces/{target.namespace}/pods/{target.pod}:{port}/proxy{path}")
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def _module() -> Path:
    """The sources of the operator's Go module, fetched if the cache lacks them."""
    found = subprocess.run(
        ["go", "mod", "download", "-json", _MODULE],
        cwd=binaries.TOOLS / "prometheus-operator",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Path(json.loads(found.stdout)["Dir"])
