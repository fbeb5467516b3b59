"""The network namespace: a cable to the host, the bridge that holds the pods' gateway, and its packet filter.

No default route: a packet for an address that is not ours has nowhere to go. Only the host may open connections into
the namespace, so a neighbour on the machine's network cannot, even if the machine forwards packets.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from hack.cluster import errors
from hack.cluster.layout import POD_GATEWAY, POD_RANGE, SERVICE_RANGE, Layout

_FILTER = """
table inet jervis-cluster {{}}
delete table inet jervis-cluster
table inet jervis-cluster {{
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname "{uplink}" ct state established,related accept
    iifname "{uplink}" ip saddr {host} accept
    iifname "{uplink}" drop
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    iifname "{uplink}" ct state established,related accept
    iifname "{uplink}" ip saddr != {host} drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {pods} oifname "{uplink}" masquerade
  }}
}}
"""


def exists(layout: Layout) -> bool:
    """True when the namespace is mounted (a plain file is what an unmounted one leaves behind)."""
    path = layout.namespace_file
    return path.exists() and path.stat().st_dev != path.parent.stat().st_dev


def prefix(layout: Layout) -> tuple[str, ...]:
    """Runs a program inside. Not `ip netns exec`: that remounts /sys and the kubelet then finds no cgroups."""
    return ("nsenter", f"--net={layout.namespace_file}", "--")


def up(layout: Layout) -> None:
    """Make what is missing; harmless when all is there. Raises errors.Failure naming the command that failed."""
    for program in ("ip", "nsenter", "nft", "sysctl"):
        if shutil.which(program) is None:
            raise errors.Missing(f"{program} is missing: apt-get install iproute2 util-linux nftables procps")
    host_end, inner_end = layout.cable
    if not exists(layout):
        layout.namespace_file.unlink(missing_ok=True)
        _run("ip", "netns", "add", layout.name)
    if host_end not in _links():
        _claim_addresses(layout)
        _run("ip", "link", "add", host_end, "type", "veth", "peer", "name", inner_end, "netns", layout.name)
    _run("ip", "address", "replace", f"{layout.host}/30", "dev", host_end)
    _run("ip", "link", "set", host_end, "up")
    inside = prefix(layout)
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "address", "replace", f"{layout.node}/30", "dev", inner_end)
    _run(*inside, "ip", "link", "set", inner_end, "up")
    if "cluster0" not in _links(*inside):
        _run(*inside, "ip", "link", "add", "cluster0", "type", "bridge")
    _run(*inside, "ip", "address", "replace", f"{POD_GATEWAY}/32", "dev", "cluster0")
    _run(*inside, "ip", "link", "set", "cluster0", "up")
    _run(*inside, "ip", "route", "replace", SERVICE_RANGE, "dev", "cluster0")
    _run(*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    rules = _FILTER.format(uplink=inner_end, host=layout.host, pods=POD_RANGE)
    _run(*inside, "nft", "-f", "-", stdin=rules)


def down(layout: Layout) -> None:
    """Remove namespace and cable; routes and filter rules go with them."""
    if layout.cable[0] in _links():
        _run("ip", "link", "delete", layout.cable[0])
    if exists(layout):
        _run("ip", "netns", "delete", layout.name)
    layout.namespace_file.unlink(missing_ok=True)


def inhabitants(layout: Layout) -> list[int]:
    """Processes whose network is this namespace."""
    if not exists(layout):
        return []
    return [int(pid) for pid in _run("ip", "netns", "pids", layout.name).split()]


def _claim_addresses(layout: Layout) -> None:
    """Two names may hash to one subnet: say so instead of giving an address twice."""
    for link in json.loads(_run("ip", "-json", "address")):
        for address in link.get("addr_info", []):
            if address["local"] == layout.host:
                raise errors.Failure(
                    f"{layout.host} is already the address of {link['ifname']}: choose another JERVIS_CLUSTER_NAME"
                )


def _links(*inside: str) -> set[str]:
    return {link["ifname"] for link in json.loads(_run(*inside, "ip", "-json", "link") or "[]")}


def _run(*command: str | Path, stdin: str | None = None) -> str:
    done = subprocess.run([*map(str, command)], input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise errors.Failure(f"{' '.join(map(str, command))}: {done.stderr.strip() or f'exit {done.returncode}'}")
    return done.stdout
