"""Killing what runs in a container, the hard way: SIGKILL from the host, which sees the container's processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any


def of(pod: dict[str, Any]) -> list[int]:
    """Process ids of the pod's running containers on this machine, oldest first (so the first is a container's own)."""
    identities = [
        status["containerID"].rpartition("/")[2]
        for status in pod["status"].get("containerStatuses", ())
        if "running" in status.get("state", {}) and status.get("containerID")
    ]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            groups = (entry / "cgroup").read_text()
            started = int((entry / "stat").read_text().rpartition(")")[2].split()[19])
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            continue
        if any(identity in groups for identity in identities):
            found.append((started, int(entry.name)))
    return [pid for _, pid in sorted(found)]


def kill(pod: dict[str, Any]) -> int:
    """SIGKILL the container's own process; returns its id. Fails when the pod has none on this machine."""
    pids = of(pod)
    assert pids, f"{pod['metadata']['name']} has no process on this machine"
    os.kill(pids[0], signal.SIGKILL)
    return pids[0]
