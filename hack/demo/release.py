"""`helm upgrade --install` of the chart, with progress that can be seen, and its removal."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from hack.cluster import layout, progress
from hack.demo import errors, images, kubectl, settings, small

_CRDS = ("pendingtasks.jervis.dev", "connections.jervis.dev", "gpubackends.jervis.dev")
TEAM = ("Platform Team", "platform-team@example.com")
"""Who "we" are in the demonstration's mails and issues."""
_RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SECONDS = 300.0
_ANYWHERE = [{"namespaceSelector": {}}, *({"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/0", "::/0"))]
"""For a database that a demonstration is given."""


def values(wanted: settings.Settings, *, owns_crds: bool) -> dict[str, Any]:
    """What differs from values-demo.yaml."""
    jervis, fakes = images.chosen(wanted)
    pull = "IfNotPresent"
    chosen: dict[str, Any] = {
        "image": {**images.split(jervis), "pullPolicy": pull},
        "simulator": {"enabled": wanted.simulated, "image": {**images.split(fakes), "pullPolicy": pull}},
        "operator": {"settings": {"team": list(TEAM)}},
        "crds": {"enabled": owns_crds},
        # Cluster-wide roles carry the release's name: only the release that owns the CRDs brings them.
        "rbac": {"aggregateClusterRoles": owns_crds},
    }
    if build := images.fingerprint(wanted):
        # The tag of a local image stays the same; this label is what makes new pods of a new build.
        chosen["commonLabels"] = {"jervis.dev/build": build}
    if wanted.small:
        chosen = overlaid(chosen, small.values())
    elif not wanted.simulated:
        # The name in values-demo.yaml is for the simulators: without it the role has OLLAMA_MODEL, or its default.
        chosen["models"] = {"decision": None, **wanted.models}
    if wanted.ollama_url:
        chosen["gpuBackends"] = [{"name": "ollama", "kind": "GPU", "url": wanted.ollama_url}]
    if wanted.local:
        # Their Services have no pods: DNS answers on the pods' gateway, the data services on the node.
        places = {"dns": layout.POD_GATEWAY, "mongodb": layout.from_environment().node}
        chosen["networkPolicy"] = {name: {"to": [_address(place)]} for name, place in places.items()}
    if wanted.mongodb_uri:
        chosen["mongodb"] = {"uri": wanted.mongodb_uri}
        chosen = overlaid(chosen, {"networkPolicy": {"mongodb": {"to": _ANYWHERE}}})
    if wanted.weaviate_url:
        chosen["weaviate"] = {"url": wanted.weaviate_url, "grpcPort": wanted.weaviate_grpc_port}
    return chosen


def _address(address: str) -> dict[str, Any]:
    return {"ipBlock": {"cidr": f"{address}/32"}}


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, `above` winning; mappings are merged at every level, as Helm does."""
    whole = dict(below)
    for key, value in above.items():
        old = whole.get(key)
        whole[key] = overlaid(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return whole


def install(
    wanted: settings.Settings,
    cluster: kubectl.Kubectl,
    report: progress.Progress,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Install or upgrade and wait until every pod is ready. `more` are values that overlay ours.

    Raises errors.Refused with Helm's words.
    """
    namespace(cluster)
    owner = _owner(cluster)
    owns_crds = owner in (None, f"{wanted.namespace}/{settings.RELEASE}")
    if not owns_crds:
        report.say(f"the CRDs belong to {owner}: applying them beside the chart")
        cluster.run("apply", "--server-side", "--force-conflicts", "-f", str(wanted.checkout / "crds"))
    chosen = overlaid(values(wanted, owns_crds=owns_crds), more or {})
    if not _offers_volumes(cluster):
        report.say("the cluster has no default StorageClass: what is known lives as long as the knowledge base's pod")
        chosen = overlaid(chosen, {"kb": {"local": {"persistence": {"enabled": False}}}})
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="jervis-demo-values-") as file:
        json.dump(chosen, file)
        file.flush()
        command = [
            *(
                str(kubectl.helm(report)),
                "upgrade",
                "--install",
                settings.RELEASE,
                str(wanted.checkout / "charts/jervis"),
            ),
            *("--namespace", wanted.namespace, "--values", str(wanted.checkout / "charts/jervis/values-demo.yaml")),
            *("--values", file.name, "--wait", "--timeout", f"{_SECONDS:.0f}s"),
        ]
        with tempfile.TemporaryFile("w+") as said:
            with subprocess.Popen(command, env=cluster.environment, stdout=said, stderr=subprocess.STDOUT) as helm:
                _watch(helm, cluster, report)
            said.seek(0)
            output = said.read()
    if helm.returncode != 0:
        raise errors.Refused("helm upgrade --install", output)


def remove(wanted: settings.Settings, cluster: kubectl.Kubectl, report: progress.Progress) -> None:
    """Uninstall the release, then the namespace, then the CRDs if they were the release's and no other uses them."""
    owned = _owner(cluster) == f"{wanted.namespace}/{settings.RELEASE}"
    done = subprocess.run(
        [
            str(kubectl.helm(report)),
            "uninstall",
            settings.RELEASE,
            "--namespace",
            wanted.namespace,
            "--ignore-not-found",
        ],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise errors.Refused("helm uninstall", done.stderr)
    cluster.run("delete", "namespace", wanted.namespace, "--ignore-not-found", seconds=180)
    if owned and not any(cluster.items(crd, "--all-namespaces") for crd in _CRDS):
        cluster.run("delete", "crd", *_CRDS, "--ignore-not-found", seconds=120)


def namespace(cluster: kubectl.Kubectl) -> None:
    """Make it. The restricted pod security level is enforced, as on a cluster that cares."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": cluster.namespace, "labels": _RESTRICTED},
    }
    cluster.apply([manifest])


def _offers_volumes(cluster: kubectl.Kubectl) -> bool:
    """Is a claim that names no StorageClass ever bound?"""
    classes = cluster.items("storageclasses")
    return any(one["metadata"].get("annotations", {}).get(_DEFAULT_CLASS) == "true" for one in classes)


def _owner(cluster: kubectl.Kubectl) -> str | None:
    """`namespace/release` whose CRDs are installed, "no release" if they have no owner; None when there are none."""
    found = cluster.run("get", "crd", _CRDS[0], "--ignore-not-found", "-o", "json")
    if not found:
        return None
    annotations = json.loads(found)["metadata"].get("annotations", {})
    release = annotations.get("meta.helm.sh/release-name")
    return f"{annotations.get('meta.helm.sh/release-namespace')}/{release}" if release else "no release"


def _watch(helm: subprocess.Popen[bytes], cluster: kubectl.Kubectl, report: progress.Progress) -> None:
    """Say which pods are ready, whenever that changes, until Helm has ended."""
    said = ""
    while helm.poll() is None:
        text = _pods(cluster)
        if text != said:
            report.say(text)
            said = text
        time.sleep(0.5)


def _pods(cluster: kubectl.Kubectl) -> str:
    listed = cluster.attempt("get", "pods", "-l", f"app.kubernetes.io/instance={settings.RELEASE}", "-o", "json")
    if listed.returncode != 0:
        return "the apiserver does not answer at the moment"
    states = {}
    for pod in json.loads(listed.stdout)["items"]:
        component = pod["metadata"]["labels"].get("app.kubernetes.io/component", pod["metadata"]["name"])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
        if pod["status"].get("phase") != "Succeeded":
            states[component] = "ready" if ready else _waiting(pod)
    return "  ".join(f"{name}: {state}" for name, state in sorted(states.items())) or "no pods yet"


def _waiting(pod: dict[str, Any]) -> str:
    for status in pod["status"].get("containerStatuses", ()):
        if reason := status.get("state", {}).get("waiting", {}).get("reason"):
            return str(reason)
    return "starting" if pod["status"].get("phase") == "Running" else str(pod["status"].get("phase", "unknown"))
