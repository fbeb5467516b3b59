"""kube-proxy in nftables mode (iptables mode programs nothing on kernels without the old tables)."""

from __future__ import annotations

import json
from pathlib import Path

from hack.cluster import configuration
from hack.cluster.layout import POD_RANGE, Layout


def command(layout: Layout, program: Path, kubeconfig: Path) -> list[str | Path]:
    content = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": layout.name,
        "clusterCIDR": POD_RANGE,
        "bindAddress": layout.node,
        "healthzBindAddress": f"{layout.node}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0},  # the limits are the whole machine's and not ours to set
        "oomScoreAdj": 0,
    }
    path = configuration.write(layout.directory / "kube-proxy.json", json.dumps(content, indent=2))
    return [program, f"--config={path}"]
