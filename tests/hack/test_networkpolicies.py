"""The packet filter that NetworkPolicies become: what the chart's own policies do not use (packets test the rest)."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from hack.cluster import networkpolicies

Object = dict[str, Any]
NAMESPACES = [{"metadata": {"name": name, "labels": {"team": name}}} for name in ("a", "b")]


def pod(address: str, namespace: str = "a", ports: Object | None = None, **status: Any) -> Object:
    """A pod labelled with the last part of its address."""
    named = [{"name": name, "containerPort": number} for name, number in (ports or {}).items()]
    labels = {"app": address.rpartition(".")[2]}
    return {
        "metadata": {"namespace": namespace, "labels": labels},
        "spec": {"containers": [{"ports": named}]},
        "status": {"phase": "Running", "podIP": address, **status},
    }


PODS = [
    pod("10.244.0.2", ports={"http": 8080}),
    pod("10.244.0.3", ports={"http": 9090}),
    pod("10.244.0.10", "b"),
    pod("10.244.0.11", "b", phase="Succeeded"),
    pod("", "b", phase="Pending"),
]


def policy(selector: Object, **rules: Any) -> Object:
    kinds = [kind for kind in ("Ingress", "Egress") if kind.lower() in rules]
    return {"metadata": {"namespace": "a"}, "spec": {"podSelector": selector, "policyTypes": kinds, **rules}}


def chain(name: str, *policies: Object) -> list[str]:
    """What returns from a chain, without the line about the pod itself; fails unless the rest is dropped."""
    text = networkpolicies.script(PODS, NAMESPACES, policies)
    first, *passing, last = map(str.strip, text.split(f"chain {name} {{\n")[1].split("\n  }")[0].splitlines())
    assert (first.rpartition(" ")[2], last) == ("return", "drop")
    return [line.removesuffix("return").strip() for line in passing]


ONE = {"matchLabels": {"app": "2"}}
RULES: list[tuple[Object, list[str]]] = [
    ({}, [""]),
    ({"ports": [{"protocol": "UDP", "port": 53}]}, ["udp dport 53"]),
    ({"ports": [{"protocol": "TCP", "port": 80, "endPort": 90}]}, ["tcp dport 80-90"]),
    ({"ports": [{"protocol": "UDP"}]}, ["meta l4proto udp"]),
    ({"to": [{"podSelector": {"matchLabels": {"app": "no-such"}}}]}, []),
    ({"to": [{"namespaceSelector": {}}]}, ["ip daddr { 10.244.0.2, 10.244.0.3, 10.244.0.10 }"]),
    ({"to": [{"podSelector": {}}]}, ["ip daddr { 10.244.0.2, 10.244.0.3 }"]),
    ({"to": [{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}}]},
     ["ip daddr { 10.244.0.10 }"]),
    ({"to": [{"podSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, "namespaceSelector": {
        "matchLabels": {"team": "b"}}}], "ports": [{"port": 1}, {"port": 2}]},
     ["ip daddr { 10.244.0.10 } tcp dport 1", "ip daddr { 10.244.0.10 } tcp dport 2"]),
    ({"to": [{"podSelector": {}}], "ports": [{"port": "http"}]},
     ["ip daddr 10.244.0.2 tcp dport 8080", "ip daddr 10.244.0.3 tcp dport 9090"]),
    ({"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}, {"ipBlock": {"cidr": "::/0"}}]},
     ["ip daddr 0.0.0.0/0 ip daddr != { 169.254.0.0/16 }"]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "expected"), RULES, ids=str)
def test_what_leaves(rule: Object, expected: list[str]) -> None:
    assert chain("egress-10.244.0.2", policy(ONE, egress=[rule])) == expected


def test_a_named_port_is_the_target_s() -> None:
    rule = {"from": [{"podSelector": {}}], "ports": [{"port": "http"}, {"port": "no-such"}]}
    (passing,) = chain("ingress-10.244.0.3", policy({}, ingress=[rule]))
    assert passing == "ip saddr { 10.244.0.2, 10.244.0.3 } tcp dport 9090"


def test_policies_add_up_and_leave_the_others_and_the_other_direction_open() -> None:
    policies = (policy(ONE, ingress=[]), policy({}, ingress=[{"ports": [{"port": 1}]}]), policy(ONE, ingress=[{}]))
    assert chain("ingress-10.244.0.2", *policies) == ["", "tcp dport 1"]
    assert chain("ingress-10.244.0.3", *policies) == ["tcp dport 1"]
    text = networkpolicies.script(PODS, NAMESPACES, policies)
    assert "egress" not in text
    assert "ingress-10.244.0.10" not in text


@pytest.mark.skipif(shutil.which("nft") is None or shutil.which("unshare") is None, reason="needs nft and unshare")
def test_nft_takes_it_twice() -> None:
    policies = [policy({}, egress=[rule for rule, _ in RULES], ingress=[])]
    text = networkpolicies.script(PODS, NAMESPACES, policies)
    empty = networkpolicies.script([], [], [])
    inside = ["unshare", "--map-root-user", "--net", "nft", "-f", "-"]
    done = subprocess.run(inside, input=text + empty + text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
