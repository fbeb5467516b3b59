"""Loopback ports for processes that a test starts."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

FIRST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Ports that the kernel gives to connections (ip(7)). One of these may be taken before the process listens on it."""

_next = itertools.count()


def free() -> int:
    """A port that nothing listens on now, that no connection will take, and that no earlier call in this process and no
    parallel worker of pytest was given."""
    low = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = (low - FIRST) // workers
    begin = FIRST + int(worker) * share
    for number in itertools.islice(_next, share):
        # Two runs on one machine begin at different places.
        port = begin + (os.getpid() * 97 + number) % share
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"no port is free from {begin} to {begin + share - 1}")
