"""etcd: one member without fsync; its data is as disposable as the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Addresses:
    """Both on loopback: nothing but this machine's kube-apiserver speaks to etcd."""

    client: str  # URL
    peer: str  # URL


def command(program: Path, data: Path, addresses: Addresses) -> list[str | Path]:
    return [
        program,
        "--name=jervis",
        f"--data-dir={data}",
        f"--listen-client-urls={addresses.client}",
        f"--advertise-client-urls={addresses.client}",
        f"--listen-peer-urls={addresses.peer}",
        f"--initial-advertise-peer-urls={addresses.peer}",
        f"--initial-cluster=jervis={addresses.peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        "--auto-compaction-retention=5m",
    ]
