"""Who reaches whom: the table for the rendered policies (test_network) and for packets (tests/e2e/test_network)."""

from __future__ import annotations

from tests.chart import rendering
from tests.chart.policies import End
from tests.chart.rendering import Manifest

JOB = End("jervis", {"jervis.dev/task-uid": "7b1d", "batch.kubernetes.io/job-name": "mail-7b1d-1"})
TENANT = End("team-a", JOB.labels)
STRANGER = End("jervis", {"app": "something-else"})
VISITOR = End("tools", {"app": "notebook"})
METADATA = End(address="169.254.169.254")
OUTSIDE = End(address="203.0.113.7")
APISERVER = End(address="10.0.0.1")
DATA = End("jervis-data", {"app.kubernetes.io/name": "mongodb"})
DNS = End("kube-system", {"k8s-app": "kube-dns"})
OPENSHIFT_DNS = End("openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"})
NODE_LOCAL_DNS = End(address="169.254.20.10")
# Pods that hold foreign code or text, and what they may reach.
CONFINED = {
    "run": JOB,
    "analysis": End("jervis", {"jervis.dev/code-analysis": "7b1d"}),
    "command": End("jervis", {"jervis.dev/sandbox": "7b1d"}),
    "transcription": End("jervis", {"jervis.dev/meeting": "7b1d"}),
}

# From, to, port.
Arrow = tuple[str | End, str | End, int]
# What the processes need in order to work.
NEEDED: list[Arrow] = [
    ("operator", "kb", 8080), ("operator", "router", 11430), ("operator", APISERVER, 6443),
    ("operator", "ollama-gpu", 11434), ("operator", OUTSIDE, 11434),
    ("router", "ollama-gpu", 11434), ("router", "ollama-cpu", 11434), ("router", APISERVER, 443),
    ("router", OUTSIDE, 11434), ("router", VISITOR, 11434),
    ("kb", "router", 11430), ("kb", OUTSIDE, 8080), ("kb", OUTSIDE, 50051),
    (JOB, "router", 11430), (JOB, "kb", 8080),
    ("test", "operator", 9090), ("test", "router", 11430), ("test", "kb", 8080),
    ("wait-for-crds", APISERVER, 443),
]  # fmt: skip
# The same on minikube, MicroK8s and OpenShift, whose ports the local cluster does not have; and where DNS and databases
# are pods, which they are not in the local cluster.
NEEDED_ELSEWHERE: list[Arrow] = [
    ("operator", APISERVER, 8443), ("router", APISERVER, 16443),
    ("operator", DATA, 27017), ("kb", DATA, 27017), (JOB, DATA, 27017),
    *((source, DNS, 53) for source in ("operator", "router", "kb", "test", JOB)),
    (JOB, OPENSHIFT_DNS, 5353), (JOB, NODE_LOCAL_DNS, 53),
]  # fmt: skip
# What would be a hole.
FORBIDDEN: list[Arrow] = [
    (JOB, "operator", 9090), (JOB, APISERVER, 6443), (JOB, APISERVER, 443), (JOB, OUTSIDE, 443), (JOB, OUTSIDE, 80),
    *((JOB, OUTSIDE, port) for port in (53, 5353, 27017, 9091)), (JOB, METADATA, 53), ("kb", OUTSIDE, 53),
    ("kb", OUTSIDE, 27017), (JOB, STRANGER, 27017), (JOB, STRANGER, 53),
    (JOB, METADATA, 80), (JOB, "ollama-gpu", 11434), (JOB, JOB, 8080),
    ("kb", APISERVER, 6443), ("kb", OUTSIDE, 443), ("kb", METADATA, 80), ("kb", "ollama-gpu", 11434),
    ("kb", "operator", 9090),
    ("router", METADATA, 80), ("router", "kb", 8080), ("router", "operator", 9090),
    ("operator", METADATA, 80),
    (STRANGER, "router", 11430), (STRANGER, "kb", 8080), (STRANGER, "operator", 9090), (STRANGER, "ollama-gpu", 11434),
    (TENANT, "router", 11430), (TENANT, "kb", 8080), (TENANT, "operator", 9090), (TENANT, "ollama-gpu", 11434),
    (VISITOR, "router", 11430), (VISITOR, "kb", 8080), (OUTSIDE, "router", 11430),
    ("ollama-gpu", OUTSIDE, 443), ("ollama-cpu", "router", 11430), ("ollama-gpu", OUTSIDE, 53),
]  # fmt: skip


def end(manifests: list[Manifest], place: str | End) -> End:
    """The pod of a component as it is rendered, or the end itself."""
    if isinstance(place, End):
        return place
    for _, pod in rendering.pods(manifests):
        labels = pod["metadata"]["labels"]
        if labels["app.kubernetes.io/component"] == place:
            ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0].get("ports", [])}
            return End("jervis", labels, ports)
    raise AssertionError(f"no pod of component {place}")
