"""A real Gitea for the tests of sources, built from its Go module: `python -m hack.gitea` prints its directory.

Beside the program are the templates and options that it serves from STATIC_ROOT_PATH. Its driver of SQLite is C. It
takes minutes, once: it is kept in the user's cache like the cluster's tools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hack.cluster import binaries, errors, prerequisites, progress

SOURCE = binaries.TOOLS / "gitea"
PACKAGE = "code.gitea.io/gitea"
SECONDS = 200.0
_TAGS = "sqlite sqlite_unlock_notify"
_STATIC = ("templates", "options")


def place() -> Path:
    """The directory with the program `gitea`, `templates` and `options`, or where it will be. Raises errors.Missing."""
    files = [SOURCE / "go.mod", SOURCE / "go.sum"]
    return binaries.cache() / "tools" / f"gitea-{binaries.digest(files, f'{binaries.go_version()}{_TAGS}')}"


def directory(report: progress.Progress) -> Path:
    """`place`, built first if the cache lacks it. Raises errors.Missing or errors.Failure with the remedy."""
    prerequisites.install(prerequisites.C, report)
    return binaries.build_once(place(), report, "building gitea (minutes, once)", _build, SECONDS)


def _build(scratch: Path) -> None:
    # Other work goes first.
    command = ["nice", "-n", "15", "go", "build", "-trimpath", "-mod=readonly", "-tags", _TAGS, "-ldflags", "-s -w"]
    target = str(scratch / "gitea")
    binaries.logged("gitea", *command, "-o", target, PACKAGE, cwd=SOURCE, reach="the Go module proxy", CGO_ENABLED="1")
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", PACKAGE], cwd=SOURCE, check=True, capture_output=True, text=True
    )
    for name in _STATIC:
        shutil.copytree(Path(listed.stdout.strip()) / name, scratch / name, copy_function=shutil.copyfile)
    # Modules are kept read-only; the copies are not.
    for folder, _, _ in os.walk(scratch):
        Path(folder).chmod(0o755)


def main() -> int:
    """Build and print the directory; one line on stderr when that cannot be done."""
    try:
        print(directory(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no real Gitea: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
