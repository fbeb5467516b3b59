"""`kubectl jervis` out of the checkout, for a shell that has no installed one."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence

from hack.cluster import layout
from hack.demo import errors
from hack.demo.kubectl import Kubectl
from hack.demo.settings import Settings

NAME = "kubectl-jervis"


def write(wanted: Settings) -> str:
    """Put the plugin into our state directory; the folder that PATH has to name."""
    folder = wanted.state / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / NAME
    checkout, python = shlex.quote(str(wanted.checkout)), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={checkout} exec {python} -m cli "$@"\n')
    program.chmod(0o755)
    return str(folder)


def run(cluster: Kubectl, *arguments: str) -> str:
    """What `kubectl jervis ARGUMENTS` prints. Raises errors.Refused with its message."""
    words = ("-m", "cli", f"--namespace={cluster.namespace}", *arguments)
    return _printed(cluster, f"kubectl jervis {' '.join(arguments)}", words)


def known(cluster: Kubectl, *arguments: str) -> str:
    """What `jervis-kb ARGUMENTS` prints. Raises errors.Refused with its message."""
    return _printed(cluster, f"jervis-kb {' '.join(arguments)}", ("-m", "cli.knowledge", *arguments))


def _printed(cluster: Kubectl, called: str, words: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        env={**cluster.environment, "PYTHONPATH": str(layout.CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise errors.Refused(called, done.stderr)
    return done.stdout
