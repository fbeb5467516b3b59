"""etcd + kube-apiserver on loopback, for tests that need the real API and nothing that runs pods.

    with standalone.apiserver(directory) as server:
        subprocess.run(["kubectl", f"--kubeconfig={server.kubeconfig}", "get", "namespaces"])

No root, no network namespace, no controller: namespaces are not deleted and garbage is not collected. Either
process can be killed and started again on its data (`Part`), as a machine that reboots would do it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import apiserver as api
from hack.cluster import binaries, certificates, errors, etcd, process, progress

_ATTEMPTS = 3  # a port can be taken between choosing it and listening on it


@dataclass(frozen=True)
class Part:
    """One of the two processes. It dies with the thread that started it last, so start it in one that stays."""

    daemon: process.Daemon
    argv: tuple[str | Path, ...]
    ready: Callable[[], bool]

    def start(self) -> None:
        """Start it, on the same ports and data as before; `ready` tells when it answers."""
        # The kernel ends both when the thread that started them ends, so a killed test run leaves nothing behind.
        dies_with_us = ("setpriv", "--pdeathsig", "KILL", "--")
        # Both are small here: they may have five times what they use before they look for garbage, which saves time.
        env = {"GOMAXPROCS": str(min(4, len(os.sched_getaffinity(0)))), "GOGC": "400"}
        self.daemon.start(self.argv, env=env, prefix=dies_with_us)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        identity = self.daemon.identity()
        if identity is not None:
            os.kill(identity.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # not our child: the command that started it reaps it
                os.waitpid(identity.pid, 0)
        self.daemon.stop()


@dataclass(frozen=True)
class Server:
    """A running API; both files and the URLs are valid until the context ends. `store` is etcd's URL, without TLS."""

    kubeconfig: Path
    url: str
    store: str
    etcd: Part
    api: Part


@contextlib.contextmanager
def apiserver(
    directory: Path, report: progress.Progress | None = None, *, extra: Sequence[str] = ()
) -> Iterator[Server]:
    """Start both in `directory` (kept afterwards: logs, data) and stop them at the end, also when the caller is killed.

    `extra` are arguments for kube-apiserver. Raises errors.NotReady with the end of the log when one of them does not
    start.
    """
    report = report or progress.Progress()
    directory = directory.resolve()
    programs = (
        binaries.program(binaries.KUBERNETES, "etcd", report),
        binaries.program(binaries.apiserver(), "kube-apiserver", report),
    )
    for attempt in range(_ATTEMPTS):
        daemons = (process.Daemon("etcd", directory), process.Daemon("kube-apiserver", directory))
        with contextlib.ExitStack() as stack:
            for daemon in daemons:
                stack.callback(daemon.stop)
            try:
                server = _start(directory, daemons, programs, extra)
            except errors.NotReady as failure:
                if attempt + 1 < _ATTEMPTS and "address already in use" in str(failure):
                    continue
                raise
            yield server
        return


def _start(
    directory: Path,
    daemons: tuple[process.Daemon, process.Daemon],
    programs: tuple[Path, Path],
    extra: Sequence[str],
) -> Server:
    ports = free_ports(3)
    store = etcd.Addresses(f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}")
    endpoint = api.Endpoint("127.0.0.1", ports[2], "10.0.0.0/24", "10.0.0.1")
    files = api.Files.issue(certificates.Authority(directory / "certificates"), endpoint)
    parts = (
        Part(
            daemons[0],
            tuple(etcd.command(programs[0], directory / "etcd", store)),
            lambda: _listening(ports[0]),
        ),
        Part(
            daemons[1],
            # Loopback cannot be an endpoint of the Service `kubernetes`, and no pod is there to use it.
            tuple(api.command(programs[1], endpoint, files, store.client, ("--endpoint-reconciler-type=none", *extra))),
            lambda: api.ready(endpoint, files),
        ),
    )
    for part in parts:
        part.start()
    daemons[1].wait(parts[1].ready, 60)
    kubeconfig = files.authority.kubeconfig(directory / "kubeconfig", endpoint.url, files.admin)
    return Server(kubeconfig, endpoint.url, store.client, *parts)


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Distinct ports of loopback that no process listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
