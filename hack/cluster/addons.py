"""What the API holds from the start: rights of components, Services of the data services, and disks for claims."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hack.cluster import errors, services
from hack.cluster.layout import Layout

DATA_NAMESPACE = "jervis-data"
_DISKS = 8


def apply(layout: Layout, kubectl: Path) -> None:
    """Server-side apply of all of it; harmless when it is there. Raises errors.Failure with the API's words."""
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": _manifests(layout)})
    command = [
        str(kubectl),
        f"--kubeconfig={layout.kubeconfig}",
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
    ]
    done = subprocess.run(command, input=content, capture_output=True, text=True)
    if done.returncode != 0:
        raise errors.Failure(f"the API refused an add-on: {done.stderr.strip()}")


def renew_disks(layout: Layout, kubectl: Path) -> None:
    """A disk of ours whose claim is gone is emptied, and made anew by the next `apply`."""
    base = [str(kubectl), f"--kubeconfig={layout.kubeconfig}"]
    listed = subprocess.run([*base, "get", "pv", "-o", "json"], check=True, capture_output=True, text=True)
    for name, path in left_disks(layout, json.loads(listed.stdout)["items"]):
        subprocess.run([*base, "delete", "pv", name], check=True, capture_output=True)
        shutil.rmtree(path, ignore_errors=True)


def left_disks(layout: Layout, volumes: list[dict[str, Any]]) -> list[tuple[str, Path]]:
    """Name and directory of each Released volume whose directory is one of ours; no other directory is ever emptied."""
    released = [one for one in volumes if one["status"].get("phase") == "Released"]
    found = [(one["metadata"]["name"], Path(one["spec"].get("local", {}).get("path", ""))) for one in released]
    ours = {_disk(layout, number) for number in range(_DISKS)}
    return [(name, path) for name, path in found if path in ours]


def _disk(layout: Layout, number: int) -> Path:
    return layout.directory / "disks" / str(number)


def _manifests(layout: Layout) -> list[dict[str, Any]]:
    return [
        *_rights("system:coredns", ("", ["services", "pods", "namespaces"]), ("discovery.k8s.io", ["endpointslices"])),
        *_rights("system:network-policies", ("", ["pods", "namespaces"]), ("networking.k8s.io", ["networkpolicies"])),
        *_data_services(layout),
        *_disks(layout),
    ]


def _rights(user: str, *rights: tuple[str, list[str]]) -> list[dict[str, Any]]:
    """`user` may list and watch these resources of these groups, everywhere."""
    verbs = ["list", "watch"]
    rules = [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources in rights]
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        },
    ]


def _data_services(layout: Layout) -> list[dict[str, Any]]:
    """Services without selector: their endpoints are the processes beside the cluster."""
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DATA_NAMESPACE}},
    ]
    for service in services.ALL:
        metadata = {"name": service.name, "namespace": DATA_NAMESPACE}
        ports = [{"name": name, "port": port, "protocol": "TCP"} for name, port in service.ports.items()]
        manifests.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"ports": [{**port, "targetPort": port["port"]} for port in ports]},
            }
        )
        manifests.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**metadata, "labels": {"kubernetes.io/service-name": service.name}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [layout.node], "conditions": {"ready": True}}],
                "ports": ports,
            }
        )
    return manifests


def _disks(layout: Layout) -> list[dict[str, Any]]:
    """A default StorageClass over directories of the state directory, so that a claim is bound as elsewhere."""
    manifests: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    ]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [layout.name]}
    for number in range(_DISKS):
        directory = _disk(layout, number)
        directory.mkdir(parents=True, exist_ok=True)
        manifests.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"local-{number}"},
                "spec": {
                    "storageClassName": "local",
                    "capacity": {"storage": "20Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": str(directory)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
                },
            }
        )
    return manifests
