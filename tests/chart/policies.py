"""What a set of NetworkPolicies lets through, for the selectors that the chart uses.

The rules are those of the documentation: a pod that no policy selects for a direction is open in it; otherwise some
rule of some policy that selects it must match. https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chart.rendering import Manifest


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod with its labels and named ports, or an address outside the cluster."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    address: str = ""


def allows(policies: list[Manifest], source: End, target: End, port: int) -> bool:
    """Whether a TCP connection from `source` to `target:port` passes both ends' policies."""
    return _passes(policies, "Egress", source, target, target, port) and _passes(
        policies, "Ingress", target, source, target, port
    )


def _passes(policies: list[Manifest], direction: str, subject: End, peer: End, target: End, port: int) -> bool:
    if subject.address:
        return True
    applying = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == subject.namespace
        and direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], subject.labels)
    ]
    rules = [rule for spec in applying for rule in spec.get(direction.lower(), [])]
    return not applying or any(_matches(rule, direction, subject, peer, target, port) for rule in rules)


def _matches(rule: Manifest, direction: str, subject: End, peer: End, target: End, port: int) -> bool:
    peers = rule.get("to" if direction == "Egress" else "from")
    ports = rule.get("ports")
    return (not peers or any(_is_peer(entry, subject, peer) for entry in peers)) and (
        not ports or any(_is_port(entry, target, port) for entry in ports)
    )


def _is_peer(entry: Manifest, subject: End, peer: End) -> bool:
    if "ipBlock" in entry:
        block = entry["ipBlock"]
        return (
            bool(peer.address)
            and _within(peer.address, block["cidr"])
            and not any(_within(peer.address, hole) for hole in block.get("except", []))
        )
    if peer.address:
        return False
    if "namespaceSelector" in entry:
        names = {"kubernetes.io/metadata.name": peer.namespace}
        return selects(entry["namespaceSelector"], names) and selects(entry.get("podSelector", {}), peer.labels)
    return peer.namespace == subject.namespace and selects(entry["podSelector"], peer.labels)


def _is_port(entry: Manifest, target: End, port: int) -> bool:
    wanted = entry["port"]
    number = target.ports.get(wanted) if isinstance(wanted, str) else wanted
    return entry.get("protocol", "TCP") == "TCP" and number == port


def _within(address: str, cidr: str) -> bool:
    network = ipaddress.ip_network(cidr)
    found = ipaddress.ip_address(address)
    return found.version == network.version and found in network


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes everything."""
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions", []):
        value = labels.get(expression["key"])
        if expression["operator"] == "In" and value not in expression["values"]:
            return False
        if expression["operator"] == "Exists" and value is None:
            return False
        if expression["operator"] not in ("In", "Exists"):
            raise NotImplementedError(f"selector operator {expression['operator']}")
    return True
