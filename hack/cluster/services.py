"""The data services beside the cluster, inside the namespace: a MongoDB-wire server and Weaviate with their data on
disk, and Tika, which keeps none."""

from __future__ import annotations

import http.client
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from hack.cluster import binaries, errors, jars, netns, process, progress
from hack.cluster.layout import Layout

NAMES = ("mongodb", "weaviate", "tika")


@dataclass(frozen=True)
class Service:
    """One data service, its ports as pods see them, and how to see that it answers.

    `command` builds the program first, which takes about `build_seconds`, 0 when the cache has it.
    """

    name: str
    ports: dict[str, int]
    seconds: float  # longest start
    command: Callable[[Layout, progress.Progress], list[str]]
    environment: Callable[[Layout], dict[str, str]]
    ready: Callable[[Layout], bool]
    build_seconds: Callable[[], float]

    def daemon(self, layout: Layout) -> process.Daemon:
        return process.Daemon(self.name, layout.daemons)

    def launch(self, layout: Layout, report: progress.Progress) -> None:
        """Start it unless it runs; `wait` says when it answers."""
        command = self.command(layout, report)
        (layout.directory / self.name).mkdir(parents=True, exist_ok=True)
        self.daemon(layout).start(command, self.environment(layout), netns.prefix(layout))

    def wait(self, layout: Layout) -> None:
        """Raises errors.NotReady with the end of its log."""
        self.daemon(layout).wait(lambda: self.ready(layout), self.seconds)

    def stop(self, layout: Layout) -> None:
        self.daemon(layout).stop(grace=15)

    def state(self, layout: Layout) -> str:
        """`running`, `starting` or `stopped`."""
        if self.daemon(layout).identity() is None:
            return "stopped"
        return "running" if self.ready(layout) else "starting"


def named(name: str) -> Service:
    """Raises errors.Failure naming the services there are."""
    for service in ALL:
        if service.name == name:
            return service
    raise errors.Failure(f"there is no service {name!r}; there are {', '.join(NAMES)}")


def _mongodb_command(layout: Layout, report: progress.Progress) -> list[str]:
    return [*jars.mongodb(report), layout.node, "27017", str(layout.directory / "mongodb" / "data.mv")]


def _mongodb_ready(layout: Layout) -> bool:
    """Send OP_MSG {ping: 1, $db: "admin"} and look at the answer's opcode (MongoDB wire protocol)."""
    document = b"\x10ping\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0"
    body = struct.pack("<i", 0) + b"\0" + struct.pack("<i", len(document) + 4) + document
    try:
        with socket.create_connection((layout.node, 27017), timeout=2) as connection:
            connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body)
            header = connection.recv(16, socket.MSG_WAITALL)
    except OSError:  # not listening yet
        return False
    return len(header) == 16 and struct.unpack("<iiii", header)[3] == 2013


def _weaviate_command(layout: Layout, report: progress.Progress) -> list[str]:
    program = binaries.program(binaries.WEAVIATE, "weaviate-server", report)
    return [str(program), "--host", layout.node, "--port", "8080", "--scheme", "http"]


def _weaviate_environment(layout: Layout) -> dict[str, str]:
    return {
        "PERSISTENCE_DATA_PATH": str(layout.directory / "weaviate"),
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
        "DEFAULT_VECTORIZER_MODULE": "none",
        "ENABLE_API_BASED_MODULES": "false",
        "DISABLE_TELEMETRY": "true",
        "CLUSTER_HOSTNAME": "weaviate",
        "CLUSTER_ADVERTISE_ADDR": layout.node,
        "CLUSTER_GOSSIP_BIND_PORT": "7946",
        "CLUSTER_DATA_BIND_PORT": "7947",
        "RAFT_BOOTSTRAP_EXPECT": "1",
        "RAFT_HEARTBEAT_TIMEOUT": "1",
        "RAFT_ELECTION_TIMEOUT": "1",
        "GRPC_PORT": "50051",
        "QUERY_DEFAULTS_LIMIT": "25",
        # Up to 1.35 the block-max search by words loses the best of what was stored in the last minutes.
        "USE_BLOCKMAX_WAND": "false",
        "LOG_LEVEL": "warning",
        # Near it Weaviate refuses what is new: 100,000 chunks with their sentences need more than tests do.
        "GOMEMLIMIT": os.environ.get("JERVIS_WEAVIATE_MEMORY", "1GiB"),
        # A full disk elsewhere on the machine must not turn a store for tests read-only.
        "DISK_USE_WARNING_PERCENTAGE": "98",
        "DISK_USE_READONLY_PERCENTAGE": "99",
    }


def _weaviate_ready(layout: Layout) -> bool:
    connection = http.client.HTTPConnection(layout.node, 8080, timeout=2)
    try:
        connection.request("GET", "/v1/.well-known/ready")
        if connection.getresponse().status != 200:
            return False
        with socket.create_connection((layout.node, 50051), timeout=2):
            return True
    except (OSError, http.client.HTTPException):  # not listening yet
        return False
    finally:
        connection.close()


def _tika_command(layout: Layout, report: progress.Progress) -> list[str]:
    return [*jars.tika(report), "--host", layout.node, "--port", "9998"]


def _tika_ready(layout: Layout) -> bool:
    connection = http.client.HTTPConnection(layout.node, 9998, timeout=2)
    try:
        connection.request("GET", "/version")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):  # not listening yet
        return False
    finally:
        connection.close()


ALL = (
    Service(
        "mongodb", {"mongodb": 27017}, 30, _mongodb_command, lambda layout: {}, _mongodb_ready, jars.mongodb_seconds
    ),
    Service(
        "weaviate",
        {"http": 8080, "grpc": 50051},
        60,
        _weaviate_command,
        _weaviate_environment,
        _weaviate_ready,
        binaries.WEAVIATE.pending_seconds,
    ),
    Service("tika", {"http": 9998}, 60, _tika_command, lambda layout: {}, _tika_ready, jars.tika_seconds),
)
