"""A Service of the release at an address of this machine, by `kubectl port-forward`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from subprocess import PIPE, Popen

from hack.demo import errors
from hack.demo.kubectl import Kubectl


@contextlib.contextmanager
def opened(cluster: Kubectl, service: str, port: int) -> Iterator[str]:
    """Its URL. Raises errors.Failure where nothing is forwarded."""
    command = cluster.command("port-forward", f"svc/{service}", f":{port}")
    with Popen(command, env=cluster.environment, stdout=PIPE, text=True) as forward:
        assert forward.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
        try:
            if found is None:
                raise errors.Failure(f"kubectl port-forward svc/{service} ended: is the demonstration up? `make demo`")
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            forward.terminate()
