"""MongoDB and Weaviate for a cluster that has none: official images, in the namespace where the chart looks for them.

The local cluster runs both beside itself (`hack.cluster`), so nothing is applied there.
"""

from __future__ import annotations

from hack.cluster import progress
from hack.demo import kubectl
from hack.demo.kubectl import Kubectl
from hack.demo.settings import Settings

NAMESPACE = "jervis-data"
_MANIFEST = "hack/demo/services.yaml"


def ensure(wanted: Settings, cluster: Kubectl, report: progress.Progress) -> Settings:
    """Start what was not given by an address. Raises errors.Refused when a pod does not become ready."""
    if _given(wanted):
        return wanted
    with report.step(f"starting MongoDB and Weaviate in namespace {NAMESPACE}"):
        cluster.run("apply", "--server-side", "-f", str(wanted.checkout / _MANIFEST))
        cluster.apply([wall(wanted.namespace)])
        for name in ("mongodb", "weaviate"):
            cluster.run(
                *("rollout", "status", f"deployment/{name}", f"--namespace={NAMESPACE}", "--timeout=300s"), seconds=330
            )
    return wanted


def wall(namespace: str) -> kubectl.Manifest:
    """They ask for no password: only pods of the release's namespace reach them."""
    inside: kubectl.Manifest = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "demonstration", "namespace": NAMESPACE},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [inside]}]},
    }


def remove(wanted: Settings, cluster: Kubectl) -> None:
    """Take away what `ensure` applied, data included."""
    if not _given(wanted):
        cluster.run(*("delete", "--ignore-not-found", "-f", str(wanted.checkout / _MANIFEST)), seconds=180)


def _given(wanted: Settings) -> bool:
    return wanted.local or bool(wanted.mongodb_uri and wanted.weaviate_url)
