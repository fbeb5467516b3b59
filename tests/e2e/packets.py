"""TCP from inside the network namespaces of pods, which costs no program in their images."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from hack.cluster import netns
from hack.cluster.layout import Layout
from tests.waiting import until

CONNECTED, REFUSED, SILENCE = "connected", "refused", "silence"
"""A refusal comes from the target itself: the packet arrived. A packet filter is silent."""
Target = tuple[str, int]
T = TypeVar("T")

LONG, SHORT = 15.0, 3.0
"""Seconds of patience: with a target that is to answer, and where silence is expected. The second packet of a handshake
goes out after one second."""
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


def reach(sources: Mapping[int, Sequence[Target]], patience: float) -> dict[tuple[int, Target], str]:
    """What came of connections to these targets from the namespace of each process, all tried at once; silence
    is what lasts longer than `patience` seconds."""
    with ThreadPoolExecutor(len(sources)) as pool:
        found = [
            pool.submit(_inside, pid, lambda to=targets: asyncio.run(_all(to, patience)))
            for pid, targets in sources.items()
        ]
        return {
            (pid, target): outcome
            for (pid, targets), outcomes in zip(sources.items(), found, strict=True)
            for target, outcome in zip(targets, outcomes.result(), strict=True)
        }


@contextmanager
def listening(pid: int, ports: Collection[int]) -> Iterator[None]:
    """Connections to these ports of the namespace of that process are accepted (by the kernel alone)."""

    def bind() -> list[socket.socket]:
        return [socket.create_server(("0.0.0.0", port), backlog=1024) for port in ports]

    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        for listener in pool.submit(_inside, pid, bind).result():
            stack.enter_context(listener)
        yield


@contextmanager
def outside(layout: Layout, addresses: Sequence[str]) -> Iterator[int]:
    """A machine with these addresses, of which the cluster knows the way there and no more; gives a process of it.

    It is gone with its one process, which ends with this one.
    """
    (first, *others), gateway = addresses, addresses[0].rpartition(".")[0] + ".1"
    with subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) as machine:
        ours = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{machine.pid}/ns/net") != ours, "a network of its own")
        cluster, there = netns.prefix(layout), ("nsenter", f"--net=/proc/{machine.pid}/ns/net")
        peer = ("peer", "name", "eth0", "netns", str(machine.pid))
        for command in (
            (*cluster, "ip", "link", "add", "outside", "type", "veth", *peer),
            (*cluster, "ip", "address", "add", f"{gateway}/24", "dev", "outside"),
            (*cluster, "ip", "link", "set", "outside", "up"),
            *((*there, "ip", "address", "add", f"{address}/32", "dev", "eth0") for address in others),
            (*there, "ip", "address", "add", f"{first}/24", "dev", "eth0"),
            (*there, "ip", "link", "set", "eth0", "up"),
            (*there, "ip", "route", "add", "default", "via", gateway),
            *((*cluster, "ip", "route", "add", address, "via", first) for address in others),
        ):
            subprocess.run(command, check=True)
        yield machine.pid


def _inside(pid: int, work: Callable[[], T]) -> T:
    """Do the work with the network of that process; for a thread that does nothing else."""
    with Path(f"/proc/{pid}/ns/net").open() as namespace:
        if _LIBC.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return work()


async def _all(targets: Sequence[Target], patience: float) -> list[str]:
    return await asyncio.gather(*(_one(target, patience) for target in targets))


async def _one(target: Target, patience: float) -> str:
    with socket.socket() as caller:
        caller.setblocking(False)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(caller, target), patience)
        except TimeoutError:
            return SILENCE
        except ConnectionRefusedError:
            return REFUSED
    return CONNECTED
