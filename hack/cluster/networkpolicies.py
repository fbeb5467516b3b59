"""NetworkPolicies as a script for nft: the packet filter of the namespace that all pods of the one node hang on.

https://kubernetes.io/docs/concepts/services-networking/network-policies/: a pod that no policy selects for a direction
is open in it; otherwise some rule of some policy that selects it must match. A connection must pass the egress of its
source and the ingress of its target. What the node sends to a pod passes, and so does what a pod sends to itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
TABLE = "network-policies"

# Addresses of Services are those of pods here: kube-proxy translates before these hooks. The filter is silent where it
# refuses, so that the first packet of a pod whose address is not published yet is sent again a second later.
_TABLE = """
table inet {table} {{}}
delete table inet {table}
table inet {table} {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    jump connections
  }}
  chain input {{
    type filter hook input priority filter; policy accept;
    ct state established,related accept
    jump connections
  }}
  chain connections {{
{jumps}
  }}
{chains}
}}
"""

_OPERATORS: dict[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


@dataclass(frozen=True)
class Pod:
    """A pod that has an address of its own."""

    namespace: str
    labels: Mapping[str, str]
    address: str
    ports: tuple[tuple[str, str, int], ...]  # name, protocol, number

    def number(self, name: str, protocol: str) -> int | None:
        """The port that the pod calls `name`."""
        return next((number for called, spoken, number in self.ports if (called, spoken) == (name, protocol)), None)


def script(pods: Sequence[Object], namespaces: Sequence[Object], policies: Sequence[Object]) -> str:
    """What `nft -f` has to read for these objects of the API; it replaces what was there, in one step."""
    living = sorted((pod for one in pods if (pod := _pod(one))), key=lambda pod: ipaddress.ip_address(pod.address))
    labels = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in namespaces}
    jumps, chains = [], []
    for direction, word in (("Egress", "saddr"), ("Ingress", "daddr")):
        verdicts = []
        for pod in living:
            applying = [
                policy
                for policy in policies
                if policy["metadata"]["namespace"] == pod.namespace
                and direction in policy["spec"]["policyTypes"]
                and selects(policy["spec"]["podSelector"], pod.labels)
            ]
            if applying:
                name = f"{direction.lower()}-{pod.address}"
                rules = [rule for policy in applying for rule in policy["spec"].get(direction.lower()) or ()]
                passing = sorted({line for rule in rules for line in _lines(rule, direction, pod, living, labels)})
                itself = f"ip {'daddr' if direction == 'Egress' else 'saddr'} {pod.address}"
                lines = [*(f"    {' '.join([line, 'return']).strip()}" for line in (itself, *passing)), "    drop"]
                chains.append("\n".join([f"  chain {name} {{", *lines, "  }"]))
                verdicts.append(f"{pod.address} : jump {name}")
        if verdicts:
            jumps.append(f"    ip {word} vmap {{ {', '.join(verdicts)} }}")
    return _TABLE.format(table=TABLE, jumps="\n".join(jumps), chains="\n".join(chains))


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes everything."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _OPERATORS[one["operator"]](labels.get(one["key"]), one.get("values") or ()) for one in expressions
    )


def _pod(one: Object) -> Pod | None:
    """None for a pod without an address of its own; one that has ended may have passed its address on."""
    status, spec = one["status"], one["spec"]
    if not status.get("podIP") or status.get("phase") in ("Succeeded", "Failed") or spec.get("hostNetwork"):
        return None
    ports = [port for container in spec["containers"] for port in container.get("ports", ())]
    named = tuple((port.get("name", ""), port.get("protocol", "TCP"), port["containerPort"]) for port in ports)
    return Pod(one["metadata"]["namespace"], one["metadata"].get("labels", {}), status["podIP"], named)


def _lines(
    rule: Object, direction: str, subject: Pod, pods: Sequence[Pod], namespaces: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """What the packets that one rule lets through look like; an empty line is any packet."""
    side = "daddr" if direction == "Egress" else "saddr"
    peers = rule.get("to" if direction == "Egress" else "from") or ()
    blocks = [clause for one in peers if "ipBlock" in one for clause in _block(one["ipBlock"], side)]
    chosen = [pod for pod in pods if any(_is_peer(one, subject, pod, namespaces) for one in peers)]
    places = [*blocks, *([f"ip {side} {{ {', '.join(pod.address for pod in chosen)} }}"] if chosen else [])]
    if not peers:
        places, chosen = [""], list(pods)
    ports: Sequence[Object] = rule.get("ports") or [{}]
    for port in ports:
        protocol, wanted = port.get("protocol", "TCP"), port.get("port")
        if isinstance(wanted, str) and direction == "Egress":  # each target says itself which number that is
            for pod in chosen:
                if (number := pod.number(wanted, protocol)) is not None:
                    yield f"ip daddr {pod.address} {protocol.lower()} dport {number}"
            continue
        if isinstance(wanted, str):
            wanted = subject.number(wanted, protocol)
            if wanted is None:
                continue
        if not port:
            what = ""
        elif wanted is None:
            what = f"meta l4proto {protocol.lower()}"
        else:
            what = f"{protocol.lower()} dport {wanted}" + (f"-{port['endPort']}" if "endPort" in port else "")
        for place in places:
            yield f"{place} {what}".strip()


def _is_peer(one: Object, subject: Pod, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    if "ipBlock" in one:
        return False
    at_home = "namespaceSelector" not in one and pod.namespace == subject.namespace
    chosen = "namespaceSelector" in one and selects(one["namespaceSelector"], namespaces.get(pod.namespace, {}))
    return (at_home or chosen) and selects(one.get("podSelector") or {}, pod.labels)


def _block(block: Object, side: str) -> Iterator[str]:
    """The pods have IPv4 addresses only."""
    if ":" not in block["cidr"]:
        holes = [hole for hole in block.get("except") or () if ":" not in hole]
        yield f"ip {side} {block['cidr']}" + (f" ip {side} != {{ {', '.join(holes)} }}" if holes else "")
