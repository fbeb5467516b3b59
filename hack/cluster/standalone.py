"""etcd + kube-apiserver on loopback, for tests that need the real API and nothing that runs pods.

    with standalone.apiserver(directory) as server:
        subprocess.run(["kubectl", f"--kubeconfig={server.kubeconfig}", "get", "namespaces"])

No root, no network namespace, no controller: namespaces are deleted by nobody and garbage is not collected.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import apiserver as api
from hack.cluster import binaries, certificates, errors, etcd, process, progress

_ATTEMPTS = 3  # a port can be taken between choosing it and listening on it


@dataclass(frozen=True)
class Server:
    """A running API; both files and the URL are valid until the context ends."""

    kubeconfig: Path
    url: str


@contextlib.contextmanager
def apiserver(directory: Path, report: progress.Progress | None = None) -> Iterator[Server]:
    """Start both in `directory` (kept afterwards: logs, data) and stop them at the end, also when the caller is killed.

    Raises errors.NotReady with the end of the log when one of them does not start.
    """
    report = report or progress.Progress()
    directory = directory.resolve()
    programs = (
        binaries.program(binaries.ETCD, "etcd", report),
        binaries.program(binaries.KUBERNETES, "kube-apiserver", report),
    )
    for attempt in range(_ATTEMPTS):
        daemons = (process.Daemon("etcd", directory), process.Daemon("kube-apiserver", directory))
        with contextlib.ExitStack() as stack:
            for daemon in daemons:
                stack.callback(daemon.stop)
            try:
                server = _start(directory, daemons, programs)
            except errors.NotReady as failure:
                if attempt + 1 < _ATTEMPTS and "address already in use" in str(failure):
                    continue
                raise
            yield server
        return


def _start(directory: Path, daemons: tuple[process.Daemon, process.Daemon], programs: tuple[Path, Path]) -> Server:
    ports = free_ports(3)
    store = etcd.Addresses(f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}")
    endpoint = api.Endpoint("127.0.0.1", ports[2], "10.0.0.0/24", "10.0.0.1")
    files = api.Files.issue(certificates.Authority(directory / "certificates"), endpoint)
    # The kernel ends both when the thread that started them ends, so a killed test run leaves nothing behind.
    dies_with_us = ("setpriv", "--pdeathsig", "KILL", "--")
    daemons[0].start(etcd.command(programs[0], directory / "etcd", store), prefix=dies_with_us)
    daemons[1].start(
        # Loopback cannot be an endpoint of the Service `kubernetes`, and no pod is there to use it.
        api.command(programs[1], endpoint, files, store.client, ("--endpoint-reconciler-type=none",)),
        env={"GOMAXPROCS": str(min(4, os.cpu_count() or 1))},
        prefix=dies_with_us,
    )
    daemons[1].wait(lambda: api.ready(endpoint, files), 60)
    kubeconfig = files.authority.kubeconfig(directory / "kubeconfig", endpoint.url, files.admin)
    return Server(kubeconfig, endpoint.url)


def free_ports(count: int) -> list[int]:
    """Distinct ports of loopback that nobody listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
