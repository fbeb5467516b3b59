"""containerd: its configuration, the pods' network, the images it holds, and what it leaves behind when killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from hack.cluster import configuration, errors, process
from hack.cluster.layout import POD_GATEWAY, POD_RANGE, Layout

SANDBOX_IMAGE = "localhost/jervis-pause:1"
_CNI_PROGRAMS = Path("/usr/lib/cni")

_CONFIGURATION = """
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  enable_selinux = false
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{runc}"
"""


def command(layout: Layout) -> list[str | Path]:
    """Write the configuration and give the command line. Raises errors.Missing naming the Debian packages."""
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if shutil.which("containerd") is None or runc is None or not (_CNI_PROGRAMS / "ptp").exists():
        raise errors.Missing("containerd is not complete: apt-get install containerd runc containernetworking-plugins")
    networks = layout.run / "cni"
    configuration.write(networks / "10-jervis.conflist", json.dumps(_network(layout)))
    path = configuration.write(
        layout.directory / "containerd.toml",
        _CONFIGURATION.format(
            root=layout.directory / "containerd",
            state=layout.run / "containerd",
            socket=layout.containerd_socket,
            sandbox=SANDBOX_IMAGE,
            cni_programs=_CNI_PROGRAMS,
            cni=networks,
            runc=runc,
        ),
    )
    return ["containerd", f"--config={path}", "--log-level=warn"]


def ready(layout: Layout) -> bool:
    return layout.containerd_socket.exists() and _ctr(layout, "version").returncode == 0


def images(layout: Layout) -> dict[str, str]:
    """{name, or digest of the configuration: digest of the manifest} of the images that pods can use."""
    rows = [line.split() for line in _checked(layout, "images", "list").splitlines()[1:]]
    return {row[0]: row[2] for row in rows}


def import_image(layout: Layout, archive: Path) -> None:
    """Load an OCI or docker archive. Raises errors.Failure when containerd refuses it."""
    _checked(layout, "images", "import", str(archive))


def drop_unnamed_images(layout: Layout) -> int:
    """Let go of images that a newer build took the name from (running containers keep their layers); how many."""
    found = images(layout)
    named = {digest for name, digest in found.items() if not name.startswith("sha256:")}
    unnamed = [name for name, digest in found.items() if name.startswith("sha256:") and digest not in named]
    if unnamed:
        _checked(layout, "images", "remove", *unnamed)
    return len(unnamed)


def import_command(layout: Layout, archive: str) -> list[str]:
    """The program that loads an archive; "-" is its standard input."""
    return [*_base(layout), "images", "import", archive]


def contents(layout: Layout) -> set[str]:
    """Digests (sha256:...) of every blob it holds."""
    return set(_checked(layout, "content", "list", "-q").split())


def sweep(layout: Layout) -> int:
    """Remove every container (images stay); how many there were."""
    names = _checked(layout, "containers", "list", "-q").split()
    if names and _ctr(layout, "containers", "delete", *names).returncode != 0:  # some have a task
        for name in _checked(layout, "containers", "list", "-q").split():
            _ctr(layout, "tasks", "delete", "--force", name)
            _checked(layout, "containers", "delete", name)
    return len(names)


def shims(layout: Layout) -> list[process.Identity]:
    """The runtime shims that serve this containerd's socket; they outlive it by design."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[0].endswith(b"containerd-shim-runc-v2") and os.fsencode(layout.containerd_socket) in words:
            identity = process.Identity.of(int(entry.name))
            if identity is not None:
                found.append(identity)
    return found


def _network(layout: Layout) -> dict[str, object]:
    """Each pod has a cable of its own (ptp): pods reach each other by routing, past the node's filters."""
    allocation = {
        "type": "host-local",
        "dataDir": str(layout.run / "addresses"),
        "ranges": [[{"subnet": POD_RANGE, "gateway": POD_GATEWAY}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": layout.name,
        "plugins": [{"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": allocation}],
    }


def _base(layout: Layout) -> list[str]:
    return ["ctr", "--address", str(layout.containerd_socket), "--namespace", "k8s.io"]


def _ctr(layout: Layout, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_base(layout), *arguments], capture_output=True, text=True)


def _checked(layout: Layout, *arguments: str) -> str:
    done = _ctr(layout, *arguments)
    if done.returncode != 0:
        raise errors.Failure(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
