"""The chart's table of who reaches whom, by packets between the pods of an installation.

Real: the pods of the release, two runs, the packet filter that the cluster keeps as the policies say. Beside them stand
pods that do nothing, for the peers that the table names and the release does not have, and a machine outside.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from hack.cluster import containerd, layout, networkpolicies, progress
from hack.cluster import netns as cluster_network
from hack.demo import kubectl, settings
from hack.demo.kubectl import Kubectl
from tests.chart import arrows, policies, rendering
from tests.chart.arrows import Arrow
from tests.chart.policies import End
from tests.e2e import packets, processes
from tests.e2e.conftest import JOINS, NAMESPACE
from tests.e2e.simulator import GATE, Simulator
from tests.e2e.site import Document, Site
from tests.e2e.test_kill import local_only, running, work
from tests.waiting import until

_TEST = "network"
_COMPONENTS = ("operator", "router", "kb", "ollama-gpu", "ollama-cpu", "sources")
_HOOKS = ("test", "wait-for-crds")
_TOOLS, _TEAM = f"{NAMESPACE}-tools", f"{NAMESPACE}-team"
_PORTS = (53, 80, 443, 5353, 8080, 8529, 9090, 9091, 11430, 11434, 27017, 50051)
_APISERVER = {443: "10.96.0.1", 6443: layout.from_environment().node}
# The data services and the DNS, which are no pods here.
_NODE, _GATEWAY = (End(address=address) for address in (layout.from_environment().node, layout.POD_GATEWAY))
# The labels of pods that hold foreign code are the operator's alone: these have their policies by another one.
_TWIN = "jervis.dev/e2e-twin"
_TWINS = {
    name: End(NAMESPACE, {_TWIN: component})
    for name, component in (("analysis", "code-analysis"), ("command", "sandbox"), ("transcription", "transcribe"))
}
_HOLDING = [arrows.JOB, *_TWINS.values()]
_ASKING: list[str | End] = ["operator", "router", "kb", *_HOLDING]
_OF_THIS_CLUSTER: list[Arrow] = [
    ("operator", _NODE, 27017), ("kb", _NODE, 27017), ("kb", _NODE, 8080), (arrows.JOB, _NODE, 27017),
    *((source, _GATEWAY, 53) for source in _ASKING),
]  # fmt: skip
_CLOSED: list[tuple[str | End, int]] = [
    *((arrows.OUTSIDE, port) for port in (53, 443, 5353, 8080, 27017)),
    (arrows.APISERVER, 6443), (arrows.METADATA, 80), (arrows.STRANGER, 53), (_NODE, 8080), (_GATEWAY, 8080),
    ("operator", 9090), ("ollama-gpu", 11434),
]  # fmt: skip
_CONFINED: list[Arrow] = [(pod, target, port) for pod in _HOLDING for target, port in _CLOSED]
_METADATA, _OUTSIDE = str(arrows.METADATA.address), str(arrows.OUTSIDE.address)

_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Place:
    """One end of connections: what a policy sees of it, its addresses, and a process that has its network."""

    end: End
    address: str
    pid: int = 0

    def at(self, port: int) -> tuple[str, int]:
        """Where the port is: the apiserver has its second one behind a Service."""
        return (_APISERVER[port] if self.end.address == arrows.APISERVER.address else self.address, port)


@dataclass(frozen=True)
class Stage:
    """All ends by name, and what lies between them."""

    site: Site
    places: dict[str, Place]

    def arrow(self, arrow: Arrow) -> tuple[Place, Place, int]:
        """The ends of an arrow of the table; a run that calls a run calls the other one."""
        source, target, port = arrow
        whom = "second run" if target is arrows.JOB else self._name(target)
        return self.places[self._name(source)], self.places[whom], port

    def outcomes(self, wanted: list[tuple[Place, Place, int]], *, silence: bool) -> list[str]:
        """What came of these connections, in their order; `silence` is what is expected of them."""
        sources: dict[int, list[packets.Target]] = {}
        for source, target, port in wanted:
            sources.setdefault(source.pid, []).append(target.at(port))
        found = packets.reach(sources, packets.SHORT if silence else packets.LONG)
        return [found[source.pid, target.at(port)] for source, target, port in wanted]

    def policies(self) -> list[Document]:
        """As the apiserver has them."""
        return self.site.kubectl.items("networkpolicies")

    def selected(self) -> set[str]:
        """Addresses of the pods that a policy is about."""
        selectors = [policy["spec"]["podSelector"] for policy in self.policies()]
        ours = [place for place in self.places.values() if place.end.namespace == NAMESPACE]
        return {place.address for place in ours if any(policies.selects(one, place.end.labels) for one in selectors)}

    def filtered(self) -> set[str]:
        """Addresses of the pods whose connections are filtered."""
        listing = [*cluster_network.prefix(layout.from_environment()), "nft", "list", "table", "inet"]
        text = subprocess.run([*listing, networkpolicies.TABLE], check=True, capture_output=True, text=True).stdout
        return {line.split()[1].partition("-")[2] for line in text.splitlines() if line.startswith("\tchain ")}

    def _name(self, place: str | End) -> str:
        if isinstance(place, str):
            return place
        return next(name for name, known in _NAMES.items() if known is place)


_NAMES = {
    "run": arrows.JOB,
    "tenant": arrows.TENANT,
    "stranger": arrows.STRANGER,
    "visitor": arrows.VISITOR,
    "metadata": arrows.METADATA,
    "outside": arrows.OUTSIDE,
    "apiserver": arrows.APISERVER,
    "node": _NODE,
    "gateway": _GATEWAY,
    **_TWINS,
}


def idle(name: str, namespace: str, labels: Mapping[str, str]) -> Document:
    """A pod that does nothing, of the image that holds every pod's network open."""
    container = {"name": "idle", "image": containerd.SANDBOX_IMAGE, "securityContext": _RESTRICTED}
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    spec = {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def place_of(pod: Document) -> Place:
    """A running pod as an end."""
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0].get("ports", ())}
    end = End(pod["metadata"]["namespace"], pod["metadata"]["labels"], ports)
    return Place(end, pod["status"]["podIP"], processes.of(pod)[0])


def twins() -> list[Document]:
    """The chart's policies for pods that hold foreign code or recordings, for pods with a label of this test."""
    switches = (
        "sandbox.enabled=true,kb.tokens.existingSecret.name=t,kb.tokens.clientSecret.name=t,sources.enabled=true,"
        "transcription.engine=scripted"
    )
    dns = f'networkPolicy.dns.to=[{{"ipBlock":{{"cidr":"{layout.POD_GATEWAY}/32"}}}}]'
    chart = rendering.Chart(kubectl.helm(progress.Progress()))
    rendered = chart.render("--set", switches, "--set-json", dns, namespace=NAMESPACE)
    found = []
    for policy in (one for one in rendered if one["kind"] == "NetworkPolicy"):
        component = policy["metadata"]["name"].removeprefix(f"{settings.RELEASE}-")
        if component in [labels for twin in _TWINS.values() for labels in twin.labels.values()]:
            policy["metadata"]["name"] += "-twin"
            policy["spec"]["podSelector"] = {"matchLabels": {_TWIN: component}}
            found.append(policy)
    assert len(found) == len(_TWINS)
    return found


@pytest.fixture(scope="module")
def bystanders(site: Site) -> Iterator[dict[str, Place]]:
    """The pods that do nothing, by name: hooks of the release, a stranger beside it, a tenant's and a visitor's."""
    local_only(site)
    release = site.component("operator")["metadata"]["labels"]
    own = {key: release[key] for key in ("app.kubernetes.io/name", "app.kubernetes.io/instance")}
    pods = [
        *(idle(name, NAMESPACE, {**own, "app.kubernetes.io/component": name}) for name in _HOOKS),
        idle("stranger", NAMESPACE, arrows.STRANGER.labels),
        *(idle(name, NAMESPACE, pod.labels) for name, pod in _TWINS.items()),
        idle("visitor", _TOOLS, arrows.VISITOR.labels),
        idle("tenant", _TEAM, arrows.TENANT.labels),
    ]
    clients = {name: dataclasses.replace(site.kubectl, namespace=name) for name in (NAMESPACE, _TOOLS, _TEAM)}

    def running_ones() -> dict[str, Place]:
        names = {pod["metadata"]["name"] for pod in pods}
        found = [pod for client in clients.values() for pod in client.items("pods") if pod["metadata"]["name"] in names]
        return {pod["metadata"]["name"]: place_of(pod) for pod in found if pod["status"]["phase"] == "Running"}

    for name, labels in ((_TOOLS, {}), (_TEAM, JOINS)):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        site.kubectl.apply([namespace])
    try:
        site.kubectl.apply(twins())
        for name, client in clients.items():
            client.apply(pod for pod in pods if pod["metadata"]["namespace"] == name)
        yield until(lambda: found if len(found := running_ones()) == len(pods) else {}, "the idle pods run")
    finally:
        own_pods = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["namespace"] == NAMESPACE]
        site.kubectl.run("delete", "pod", *own_pods, "--ignore-not-found", "--wait=false")
        names = [f"networkpolicy/{policy['metadata']['name']}" for policy in twins()]
        site.kubectl.run("delete", *names, "--ignore-not-found")
        site.kubectl.run("delete", "namespace", _TOOLS, _TEAM, "--ignore-not-found", "--wait=false")


@pytest.fixture
def stage(site: Site, bystanders: dict[str, Place], owner: str, gpu: Simulator) -> Iterator[Stage]:
    """Everything stands, two runs go on until the model answers, and the packet filter knows every pod."""
    gpu.faults({"match": {"tag": "job.respond/v1"}, "stall": {"afterBytes": 0, "gate": GATE}})
    site.apply(_TEST, tasks := work(_TEST, 2), owner)
    runs = [place_of(running(site, site.kubectl.task(name))) for name in tasks]
    places = {
        **bystanders,
        **{name: place_of(site.component(name)) for name in _COMPONENTS},
        "run": runs[0],
        "second run": runs[1],
        "apiserver": Place(arrows.APISERVER, _APISERVER[6443]),
    }
    with ExitStack() as stack:
        machine = stack.enter_context(packets.outside(layout.from_environment(), (_OUTSIDE, _METADATA)))
        places["outside"] = Place(arrows.OUTSIDE, _OUTSIDE, machine)
        places["metadata"] = Place(arrows.METADATA, _METADATA)
        places |= {name: Place(_NAMES[name], _NAMES[name].address) for name in ("node", "gateway")}
        for pid in (machine, *(place.pid for place in bystanders.values())):
            stack.enter_context(packets.listening(pid, _PORTS))
        found = Stage(site, places)
        until(lambda: found.selected() <= found.filtered(), "the packet filter knows every pod")
        yield found


def wrong(stage: Stage, table: list[Arrow], *expected: str) -> list[str]:
    """Arrows of which something else came."""
    ends = [stage.arrow(arrow) for arrow in table]
    outcomes = stage.outcomes(ends, silence=packets.SILENCE in expected)
    return [f"{arrow}: {came}" for arrow, came in zip(table, outcomes, strict=True) if came not in expected]


def test_the_table_is_what_packets_do(stage: Stage) -> None:
    assert wrong(stage, [*arrows.NEEDED, *_OF_THIS_CLUSTER], packets.CONNECTED) == []
    assert wrong(stage, [*arrows.FORBIDDEN, *_CONFINED], packets.SILENCE) == []

    # The tests of the rendered policies judge by a reading of our own: it agrees with the packets everywhere.
    stored, guarded = stage.policies(), stage.selected()
    sources = {name: place for name, place in stage.places.items() if place.pid}
    every = [
        (source, target, port)
        for name, source in sources.items()
        for whom, target in stage.places.items()
        for port in (_APISERVER if whom == "apiserver" else _PORTS)
        if name != whom and not (source.end.address and target.end.address)
    ]
    names = {place.address: name for name, place in stage.places.items()}
    differing = []
    for allowed in (True, False):
        meant = [one for one in every if policies.allows(stored, one[0].end, one[1].end, one[2]) is allowed]
        differing += [
            f"{names[source.address]} to {names[target.address]}:{port}: {came}"
            for (source, target, port), came in zip(meant, stage.outcomes(meant, silence=not allowed), strict=True)
            if allowed != (came != packets.SILENCE)
        ]
    assert differing == []

    # Nothing but the policies keeps those packets back.
    try:
        stage.site.kubectl.run("delete", "networkpolicies", "--all")
        until(lambda: not guarded & stage.filtered(), "no pod of ours is filtered")
        assert wrong(stage, arrows.FORBIDDEN, packets.CONNECTED, packets.REFUSED) == []
    finally:
        restore(stage.site.kubectl, stored)


def restore(kubectl: Kubectl, manifests: list[Document]) -> None:
    """Make what was there again."""
    for manifest in manifests:
        for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
            manifest["metadata"].pop(key, None)
    whole = {"apiVersion": "v1", "kind": "List", "items": manifests}
    kubectl.run("create", "-f", "-", stdin=json.dumps(whole))
