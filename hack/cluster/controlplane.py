"""kube-controller-manager and kube-scheduler."""

from __future__ import annotations

from pathlib import Path

from hack.cluster import apiserver
from hack.cluster.layout import POD_RANGE, SERVICE_RANGE


def controller_manager(program: Path, kubeconfig: Path, files: apiserver.Files) -> list[str | Path]:
    ca = files.authority.pair
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={files.accounts}",
        f"--root-ca-file={ca.certificate}",
        f"--cluster-signing-cert-file={ca.certificate}",
        f"--cluster-signing-key-file={ca.key}",
        f"--cluster-cidr={POD_RANGE}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--profiling=false",
        # A machine busy with builds must not have its only node declared dead.
        "--node-monitor-grace-period=120s",
    ]


def scheduler(program: Path, kubeconfig: Path) -> list[str | Path]:
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--profiling=false",
    ]
