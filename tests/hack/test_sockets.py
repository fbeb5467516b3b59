"""Nothing of the local cluster listens outside its namespace and loopback, and no packet can leave it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hack.cluster import cgroups, containerd, layout, lifecycle, netns, process

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def place() -> layout.Layout:
    place = layout.from_environment()
    if process.Daemon("kubelet", place.daemons).identity() is None:
        pytest.skip("the local cluster does not run (KUBECONFIG names another one, or make cluster-up is due)")
    return place


@pytest.fixture(scope="module")
def members(place: layout.Layout) -> dict[int, str]:
    """{pid: name} of every process of the cluster: daemons, data services, shims, pods."""
    found = {identity.pid: "pod" for identity in cgroups.members(place.cgroup)}
    found |= {identity.pid: "shim" for identity in containerd.shims(place)}
    found |= dict.fromkeys(netns.inhabitants(place), "inhabitant")
    for name in lifecycle.ALL:
        identity = process.Daemon(name, place.daemons).identity()
        assert identity is not None, f"{name} does not run"
        found[identity.pid] = name
    return found


def test_no_process_of_the_cluster_is_in_the_machines_network(members: dict[int, str]) -> None:
    here = os.stat("/proc/self/ns/net").st_ino
    outside = {}
    for pid, name in members.items():
        try:
            if os.stat(f"/proc/{pid}/ns/net").st_ino == here:
                outside[pid] = name
        except FileNotFoundError:  # a pod's process that ended meanwhile
            continue
    assert outside == {}


def test_no_socket_of_the_machines_network_belongs_to_the_cluster(members: dict[int, str]) -> None:
    owned = {inode for pid in members for inode in socket_inodes(pid)}
    listening = 0
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            listening += 1
            assert fields[9] not in owned, line
    assert len(owned) > 50  # it did look at the cluster's sockets
    assert listening > 0  # and at the machine's


def test_the_namespace_has_no_way_out(place: layout.Layout) -> None:
    command = [*netns.prefix(place), "ip", "-json", "route"]
    routes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert "default" not in [route["dst"] for route in routes]
    assert {route["dev"] for route in routes if route["dst"] == layout.SERVICE_RANGE} == {"cluster0"}
    for address in ("192.0.2.77", "8.8.8.8"):
        tried = subprocess.run([*netns.prefix(place), "ip", "route", "get", address], capture_output=True, text=True)
        assert "unreachable" in tried.stderr


def test_only_the_host_may_connect_into_it(place: layout.Layout) -> None:
    """A neighbour's packet, as a forwarding machine would hand it on, is dropped; the host's own is answered."""
    cable, stranger = place.cable[0], "203.0.113.9"  # TEST-NET-3: nobody's address
    subprocess.run(["ip", "address", "add", f"{stranger}/32", "dev", cable], check=True)
    back = [*netns.prefix(place), "ip", "route"]
    subprocess.run([*back, "add", f"{stranger}/32", "via", place.host], check=True)
    try:
        assert connects(place.host, place.node, 27017)
        assert not connects(stranger, place.node, 27017)
    finally:
        subprocess.run([*back, "delete", f"{stranger}/32"], check=True)
        subprocess.run(["ip", "address", "delete", f"{stranger}/32", "dev", cable], check=True)


def connects(source: str, target: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((target, port), timeout=2, source_address=(source, 0)).close()
    except TimeoutError:
        return False
    return True


def socket_inodes(pid: int) -> set[str]:
    found = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except FileNotFoundError:  # it ended meanwhile
        return set()
    return found
