"""What processes use: CPU seconds of this one, memory of it and of those beside it, from /proc."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def cpu() -> float:
    """CPU seconds of this process, all threads; simulators and services are others."""
    return time.process_time()


def named(pairs: Sequence[str]) -> dict[str, int]:
    """`["weaviate=1234"]` -> {"weaviate": 1234}."""
    found: dict[str, int] = {}
    for pair in pairs:
        name, _, pid = pair.partition("=")
        if not pid.isdigit():
            raise ValueError(f"--watch takes NAME=PID, not {pair!r}")
        found[name] = int(pid)
    return found


def memory(watched: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """MiB of this process ("kb") and of the watched ones: at the most, and now."""
    pids: dict[str, int | str] = {"kb": "self", **watched}
    return {name: _of(pid) for name, pid in pids.items()}


def _of(pid: int | str) -> dict[str, float]:
    fields = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        if ":" in line
    )
    return {
        "peakMebibytes": round(int(fields["VmHWM"].split()[0]) / 1024, 1),
        "residentMebibytes": round(int(fields["VmRSS"].split()[0]) / 1024, 1),
    }
