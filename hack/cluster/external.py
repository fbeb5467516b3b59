"""A cluster that the user brought through KUBECONFIG: we look at it and change nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hack.cluster import errors
from hack.cluster.layout import Layout


def kubeconfig(layout: Layout, environment: Mapping[str, str]) -> str | None:
    """The user's KUBECONFIG; None when it is unset or names a file of ours (also that of `python -m hack.demo env`)."""
    named = environment.get("KUBECONFIG")
    if not named or Path(named).absolute().parent == layout.directory:
        return None
    return named


def check(config: str) -> str:
    """What the cluster says of itself. Raises errors.Failure when it does not answer."""
    if shutil.which("kubectl") is None:
        raise errors.Missing("kubectl is missing: install it (kubernetes.io/docs/tasks/tools), or unset KUBECONFIG")
    environment = {**os.environ, "KUBECONFIG": config}
    command = ["kubectl", "get", "nodes", "--request-timeout=10s"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise errors.Failure(
            f"the cluster of KUBECONFIG={config} does not answer ({done.stderr.strip().rpartition(chr(10))[2]}): "
            "correct it, or unset KUBECONFIG to use the local cluster"
        )
    return done.stdout.strip()
