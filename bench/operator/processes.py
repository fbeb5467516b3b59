"""What a process has used, from /proc, and on which cores all of them run."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def pin(cores: int) -> list[int]:
    """Keep this process, and whatever it starts, to the first `cores` of the cores that it may use; 0 is no limit."""
    allowed = sorted(os.sched_getaffinity(0))
    if cores:
        os.sched_setaffinity(0, allowed[:cores])
    return sorted(os.sched_getaffinity(0))


def seconds(pid: int) -> float:
    """CPU seconds so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def resident(pid: int) -> float:
    """MiB of memory that is its own and in RAM (anonymous pages: no libraries, no page cache)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def peak(pid: int) -> float:
    """MiB at the most so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
