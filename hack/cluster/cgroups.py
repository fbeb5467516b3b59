"""The control group above all pods of one cluster: made before the kubelet, emptied and removed after it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hack.cluster import errors, process

_ROOT = Path("/sys/fs/cgroup")


def make(name: str) -> None:
    """Create `name` (such as /jervis-cluster-x) in every hierarchy."""
    for hierarchy in _hierarchies():
        group = hierarchy / name.lstrip("/")
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty ones admit no process
            inherited = hierarchy / file
            if (group / file).exists() and inherited.exists() and not (group / file).read_text().strip():
                (group / file).write_text(inherited.read_text())
        available = hierarchy / "cgroup.controllers"
        if available.exists():  # version 2: children get the controllers that the parent hands down
            wanted = " ".join(f"+{controller}" for controller in available.read_text().split())
            if wanted:
                (hierarchy / "cgroup.subtree_control").write_text(wanted)
                (group / "cgroup.subtree_control").write_text(wanted)


def members(name: str) -> list[process.Identity]:
    """Every live process below the group."""
    pids: set[int] = set()
    for group in _groups(name):
        try:
            pids.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
        except OSError:  # removed meanwhile, or a threaded group
            continue
    identities = (process.Identity.of(pid) for pid in pids)
    return [identity for identity in identities if identity is not None]


def remove(name: str) -> None:
    """Remove the emptied group with all below it. Raises errors.Failure if a process is still inside after 10 s."""
    deadline = time.monotonic() + 10
    while groups := _groups(name):
        for group in groups:
            try:
                group.rmdir()
            except FileNotFoundError:
                continue
            except OSError as failure:  # the kernel lets go of a group a moment after its last process
                if time.monotonic() > deadline:
                    raise errors.Failure(f"cannot remove the control group {group}: {failure}") from failure
        time.sleep(0.02)


def _hierarchies() -> list[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    real = [entry for entry in sorted(_ROOT.iterdir()) if entry.is_dir() and not entry.is_symlink()]
    return [entry for entry in real if (entry / "cgroup.procs").exists()]


def _groups(name: str) -> list[Path]:
    """Deepest first."""
    found: list[Path] = []
    for hierarchy in _hierarchies():
        for directory, _, _ in os.walk(hierarchy / name.lstrip("/"), topdown=False):
            found.append(Path(directory))
    return found
