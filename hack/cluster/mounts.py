"""Mounts that killed pods leave behind."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from hack.cluster import errors


def below(directories: list[Path]) -> list[Path]:
    """Mount points inside `directories`, the youngest first."""
    points = [_unescape(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    resolved = [directory.resolve() for directory in directories]
    return [point for point in reversed(points) if any(point.is_relative_to(directory) for directory in resolved)]


def unmount(directories: list[Path]) -> int:
    """Unmount everything inside `directories`; how many there were. Raises errors.Failure for one that stays."""
    points = below(directories)
    for point in points:
        subprocess.run(["umount", "--lazy", str(point)], capture_output=True)
    left = below(directories)
    if left:
        raise errors.Failure(f"cannot unmount {left[0]}; see which process holds it: fuser -vm {left[0]}")
    return len(points)


def _unescape(path: str) -> Path:
    """The kernel writes blanks in octal (proc(5))."""
    return Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path))
