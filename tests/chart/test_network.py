"""Who reaches whom: the arrows of the blueprint's picture pass, and the rest does not."""

from __future__ import annotations

import pytest

from tests.chart import policies, rendering
from tests.chart.policies import End
from tests.chart.rendering import Chart, Manifest

JOB = End("jervis", {"jervis.dev/task-uid": "7b1d", "batch.kubernetes.io/job-name": "mail-7b1d-1"})
TENANT = End("team-a", JOB.labels)
STRANGER = End("jervis", {"app": "something-else"})
VISITOR = End("tools", {"app": "notebook"})
METADATA = End(address="169.254.169.254")
OUTSIDE = End(address="203.0.113.7")
APISERVER = End(address="10.0.0.1")
LOCAL = ("--set", "simulator.enabled=true", "--set", "watchNamespaces={team-a}")

# From, to, port.
Arrow = tuple[str | End, str | End, int]
# What the processes need in order to work.
NEEDED: list[Arrow] = [
    ("operator", "kb", 8080), ("operator", "router", 11430), ("operator", APISERVER, 6443),
    ("operator", OUTSIDE, 27017),
    ("operator", "ollama-gpu", 11434), ("operator", OUTSIDE, 11434),
    ("router", "ollama-gpu", 11434), ("router", "ollama-cpu", 11434), ("router", APISERVER, 443),
    ("router", OUTSIDE, 11434), ("router", VISITOR, 11434),
    ("kb", "router", 11430), ("kb", OUTSIDE, 27017), ("kb", OUTSIDE, 8080), ("kb", OUTSIDE, 50051),
    (JOB, "router", 11430), (JOB, "kb", 8080), (JOB, OUTSIDE, 27017), (JOB, OUTSIDE, 53),
    ("test", "operator", 9090), ("test", "router", 11430), ("test", "kb", 8080),
    ("wait-for-crds", APISERVER, 443),
    # minikube, MicroK8s, OpenShift's DNS
    ("operator", APISERVER, 8443), ("router", APISERVER, 16443), (JOB, OUTSIDE, 5353),
]  # fmt: skip
# What would be a hole.
FORBIDDEN: list[Arrow] = [
    (JOB, "operator", 9090), (JOB, APISERVER, 6443), (JOB, APISERVER, 443), (JOB, OUTSIDE, 443), (JOB, OUTSIDE, 80),
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


@pytest.fixture(scope="module")
def local(chart: Chart) -> list[Manifest]:
    return chart.render(*LOCAL)


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


def network_policies(manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize(("source", "target", "port"), NEEDED, ids=str)
def test_what_is_needed_passes(local: list[Manifest], source: str | End, target: str | End, port: int) -> None:
    assert policies.allows(network_policies(local), end(local, source), end(local, target), port)


@pytest.mark.parametrize(("source", "target", "port"), FORBIDDEN, ids=str)
def test_what_would_be_a_hole_is_shut(local: list[Manifest], source: str | End, target: str | End, port: int) -> None:
    assert not policies.allows(network_policies(local), end(local, source), end(local, target), port)


@pytest.mark.parametrize("kb", ["kb-read", "kb-write"])
def test_the_distributed_profile_is_closed_and_open_alike(chart: Chart, kb: str) -> None:
    rendered = chart.render(*rendering.VARIANTS["distributed"])
    rules = network_policies(rendered)
    needed: list[Arrow] = [
        ("operator", kb, 8080), (kb, "router", 11430), (kb, OUTSIDE, 8529), ("test", kb, 8080),
    ]  # fmt: skip
    for source, target, port in needed:
        assert policies.allows(rules, end(rendered, source), end(rendered, target), port), (source, target)
    holes: list[Arrow] = [(STRANGER, kb, 8080), (kb, APISERVER, 6443), (kb, OUTSIDE, 443)]
    for source, target, port in holes:
        assert not policies.allows(rules, end(rendered, source), end(rendered, target), port), (source, target)


def test_the_graph_store_is_reached_only_when_there_is_one(local: list[Manifest]) -> None:
    assert not policies.allows(network_policies(local), end(local, "kb"), OUTSIDE, 8529)


def test_clients_and_monitoring_are_let_in_by_value(chart: Chart) -> None:
    peer = "[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=tools"
    rendered = chart.render("--set", f"networkPolicy.clients{peer}")
    assert policies.allows(network_policies(rendered), VISITOR, end(rendered, "router"), 11430)
    assert policies.allows(network_policies(rendered), VISITOR, end(rendered, "kb"), 8080)
    assert not policies.allows(network_policies(rendered), VISITOR, end(rendered, "operator"), 9090)
    rendered = chart.render("--set", f"networkPolicy.monitoring{peer}")
    assert policies.allows(network_policies(rendered), VISITOR, end(rendered, "operator"), 9090)


def test_a_router_that_leaves_reaches_the_next_where_there_are_several(chart: Chart) -> None:
    for replicas in (1, 2):
        rendered = chart.render("--set", f"router.replicas={replicas}")
        router = end(rendered, "router")
        assert policies.allows(network_policies(rendered), router, router, 11430) == (replicas > 1)


def test_a_place_can_be_narrowed(chart: Chart) -> None:
    rendered = chart.render("--set", "networkPolicy.mongodb.to[0].ipBlock.cidr=10.1.0.0/16")
    rules = network_policies(rendered)
    inside = End(address="10.1.2.3")
    for source in ("kb", JOB):
        assert policies.allows(rules, end(rendered, source), inside, 27017)
        assert not policies.allows(rules, end(rendered, source), OUTSIDE, 27017)


def test_every_pod_is_selected_in_both_directions(manifests: list[Manifest]) -> None:
    rules = network_policies(manifests)
    for name, pod in rendering.pods(manifests):
        selected = [p["spec"] for p in rules if policies.selects(p["spec"]["podSelector"], pod["metadata"]["labels"])]
        assert {kind for spec in selected for kind in spec["policyTypes"]} == {"Ingress", "Egress"}, name


def test_no_rule_speaks_of_a_watched_namespace(local: list[Manifest]) -> None:
    rules = network_policies(local)
    assert {rule["metadata"]["namespace"] for rule in rules} == {"jervis"}
    assert "team-a" not in str(rules)


def test_they_can_be_switched_off(chart: Chart) -> None:
    assert not network_policies(chart.render("--set", "networkPolicy.enabled=false"))
