"""The kubelet: its configuration, as JSON (which is YAML), and its command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hack.cluster import certificates, configuration, errors
from hack.cluster.layout import DOMAIN, POD_GATEWAY, Layout

_LONGEST = 75  # its sockets lie below its root, and a socket's path has at most 107 characters


def root(layout: Layout) -> Path:
    return layout.directory / "kubelet"


def command(layout: Layout, program: Path, kubeconfig: Path, ca: Path, serving: certificates.Pair) -> list[str | Path]:
    """Write the configuration, give the command line. Raises errors.Failure if the state directory is too deep."""
    if len(str(root(layout))) > _LONGEST:
        raise errors.Failure(f"{root(layout)} is too long a path for sockets: set JERVIS_CLUSTER_DIR to a shorter one")
    root(layout).mkdir(parents=True, exist_ok=True)
    content = json.dumps(_configuration(layout, ca, serving), indent=2)
    path = configuration.write(layout.directory / "kubelet.json", content)
    return [
        program,
        f"--config={path}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={root(layout)}",
        f"--cert-dir={root(layout) / 'pki'}",
        f"--hostname-override={layout.name}",
        f"--node-ip={layout.node}",
    ]


def _configuration(layout: Layout, ca: Path, serving: certificates.Pair) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.node,
        "healthzBindAddress": "127.0.0.1",
        "readOnlyPort": 0,
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": layout.cgroup,
        "failSwapOn": False,
        "failCgroupV1": False,  # since 1.35 it refuses by default what build machines have
        "clusterDomain": DOMAIN,
        "clusterDNS": [POD_GATEWAY],
        "resolvConf": "",
        "podLogsDir": str(layout.directory / "pods"),
        "volumePluginDir": str(layout.directory / "volume-plugins"),
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,  # a negative one needs a capability that build machines lack
        # A disk filled by build caches must neither evict pods nor delete local images, which no registry has.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "serializeImagePulls": False,
        "registerWithTaints": [],
        "shutdownGracePeriod": "0s",
    }
