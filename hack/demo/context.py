"""A kubeconfig of its own that points at the demonstration's namespace; the user's own file stays as it is."""

from __future__ import annotations

from pathlib import Path

from hack.demo.kubectl import Kubectl
from hack.demo.settings import Settings


def write(wanted: Settings, cluster: Kubectl) -> Path:
    """`demo.kubeconfig` in our state directory, readable by its owner alone."""
    target = wanted.state / f"{wanted.namespace}.kubeconfig"
    flat = cluster.run("config", "view", "--raw", "--minify", "--flatten")
    wanted.state.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(flat)
    Kubectl(cluster.program, str(target), wanted.namespace).run(
        "config", "set-context", "--current", f"--namespace={wanted.namespace}"
    )
    return target
