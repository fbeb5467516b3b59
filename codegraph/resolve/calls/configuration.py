"""The files of a folder that say what imports mean: `go.mod`, `pyproject.toml` and their like."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from codegraph.resolve import calls

_LARGEST = 1 << 20
_MOST = 2_000


def read(root: Path, left_out: Collection[str] = ()) -> dict[str, bytes]:
    """Their contents by path below `root`: at most 2,000 of at most 1 MiB. Links are not followed.

    `left_out` are names of folders that are passed over.
    """
    found: dict[str, bytes] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(names):
            if not calls.is_configuration(name) or len(found) >= _MOST:
                continue
            place = Path(folder, name)
            if place.is_symlink() or not place.is_file() or place.stat().st_size > _LARGEST:
                continue
            found[place.relative_to(root).as_posix()] = place.read_bytes()
    return found
