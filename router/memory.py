"""How much memory the process may take, and what of it is for which purpose.

The kernel ends a process that takes more, and every stream with it. So what clients can fill is bounded by the limit of
the container: bodies that wait, bytes that clients do not take, connections.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_OWN = 96 << 20
"""Interpreter, libraries, clients of the apiserver, metrics, garbage between two collections."""
_LEAST = 32 << 20
_CONNECTION = 40 << 10
"""A connection with an unfinished head (`reading.MAX_HEAD`), or with a request that waits, and its task."""
_UNLIMITED = 4 << 30
"""Without a limit of its own a process takes part in this much."""
_FILES = ("memory.max", "memory/memory.limit_in_bytes")
"""Control groups version 2 and 1, as a container sees its own."""


class Shares(NamedTuple):
    """Bytes, but for `connections`."""

    buffered: int
    """Bodies of requests that have no answer yet."""
    unsent: int
    """Answers that clients have not taken."""
    connections: int


def limit(cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The container's limit in bytes; None when there is none."""
    for name in _FILES:
        try:
            text = (cgroups / name).read_text("ascii").strip()
        except OSError:
            continue
        # Version 1 writes a huge number where version 2 writes "max".
        return int(text) if text.isdigit() and int(text) < 1 << 60 else None
    return None


def shares(limit: int | None) -> Shares:
    """What clients may fill of a limit in bytes: half of the rest with bodies, an eighth with answers, the others with
    connections."""
    rest = max((limit or _UNLIMITED) - _OWN, _LEAST)
    return Shares(rest // 2, rest // 8, rest * 3 // 8 // _CONNECTION)
