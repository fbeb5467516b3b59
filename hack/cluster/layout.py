"""Names, places and addresses of one cluster; everything else asks here.

`JERVIS_CLUSTER_NAME` (default `jervis`) names the network namespace and, with it, the addresses. `JERVIS_CLUSTER_DIR`
holds state that survives `down` and the records of the processes; its default is `.cluster` in the checkout, or
`.cluster-NAME` for another name. So clusters of two names live side by side. Sockets and mounts are under `/run`, where
paths are short and a reboot cleans up.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import apiserver, errors

CHECKOUT = Path(__file__).resolve().parent.parent.parent
RUN = Path("/run/jervis-cluster")
POD_RANGE = "10.244.0.0/24"
POD_GATEWAY = "10.244.0.1"
SERVICE_RANGE = "10.96.0.0/16"
DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Layout:
    """Where one cluster lives."""

    directory: Path
    name: str
    host: str  # the host's end of the cable
    node: str  # the namespace's end: apiserver, kubelet and data services answer here

    @property
    def namespace_file(self) -> Path:
        return Path("/run/netns") / self.name

    @property
    def run(self) -> Path:
        """Sockets, mounts and process records; not state."""
        return RUN / self.name

    @property
    def daemons(self) -> Path:
        """Records and logs of the processes; survives /run being wiped, as the records name their boot."""
        return self.directory / "processes"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def cgroup(self) -> str:
        """Below it are all pods; no other kubelet may own them."""
        return f"/jervis-cluster-{self.name}"

    @property
    def cable(self) -> tuple[str, str]:
        """Interface names (15 characters at most) of the host's and of the namespace's end."""
        return (f"jv{_digest(self.name):08x}h"[:15], "uplink")

    @property
    def endpoint(self) -> apiserver.Endpoint:
        return apiserver.Endpoint(self.node, 6443, SERVICE_RANGE, "10.96.0.1")


def read(environment: Mapping[str, str]) -> Layout:
    """The layout that `environment` asks for. Raises errors.Failure for a name that cannot be an interface's."""
    name = environment.get("JERVIS_CLUSTER_NAME") or "jervis"
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise errors.Failure(f"JERVIS_CLUSTER_NAME={name!r}: use 1 to 32 of a-z, 0-9 and '-', beginning with a letter")
    own = ".cluster" if name == "jervis" else f".cluster-{name}"
    return of(Path(environment.get("JERVIS_CLUSTER_DIR") or CHECKOUT / own).absolute(), name)


def of(directory: Path, name: str) -> Layout:
    """The layout of `name` in `directory`; 198.18.0.0/15 is reserved for benchmarks and routed nowhere (RFC 2544)."""
    offset = 0 if name == "jervis" else 4 * (1 + _digest(name) % 32766)
    network = (198 << 24) + (18 << 16) + offset
    return Layout(directory, name, _dotted(network + 1), _dotted(network + 2))


def environment_of(layout: Layout) -> dict[str, str]:
    """What `python -m hack.cluster env` exports."""
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "JERVIS_TEST_MONGODB_URI": f"mongodb://{layout.node}:27017",
        "JERVIS_TEST_WEAVIATE_URL": f"http://{layout.node}:8080",
        "JERVIS_TEST_WEAVIATE_GRPC_PORT": "50051",
        "JERVIS_TEST_TIKA_URL": f"http://{layout.node}:9998",
        "JERVIS_CLUSTER_HOST_ADDRESS": layout.host,
    }


def from_environment() -> Layout:
    return read(os.environ)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _dotted(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
