"""Servers and clients of the Model Context Protocol that others wrote: `python -m hack.tool_servers` prints a folder.

In it are `node_modules` (server-everything, filesystem, memory, a bridge from standard input to HTTP, the SDK of
TypeScript in two versions, the inspector), `servers` (a Python with FastMCP and the servers of Git and time) and
`client` (a Python with the SDK of protocol 2025-03). They are pinned with hashes in hack/tools/toolservers and
requirements/tool-*.txt; they come once, and are kept in the user's cache like the cluster's tools.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from hack.cluster import binaries, errors, prerequisites, progress

SOURCE = binaries.TOOLS / "toolservers"
_LOCKS = Path(__file__).resolve().parent.parent / "requirements"
PYTHONS = {"servers": _LOCKS / "tool-servers.txt", "client": _LOCKS / "tool-client.txt"}
_NPM = ("package.json", "package-lock.json")


def place() -> Path:
    """The folder, whether it is there or not."""
    locks = [*(SOURCE / name for name in _NPM), *PYTHONS.values(), Path(__file__)]
    return binaries.cache() / "tools" / f"tool-servers-{binaries.digest(locks, sys.version)}"


def folder(report: progress.Progress) -> Path:
    """`place`, filled first if the cache lacks it. Raises errors.Missing or errors.Failure with the remedy."""
    prerequisites.install(prerequisites.NODE, report)
    return binaries.build_once(place(), report, "fetching servers of tools (150 MB, once)", _fetch, 60)


def _fetch(scratch: Path) -> None:
    for name in _NPM:
        shutil.copy(SOURCE / name, scratch / name)
    # No package may run a program of its own while it is installed.
    command = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    binaries.logged("tool-servers", *command, cwd=scratch, reach="the npm registry")
    for name, lock in PYTHONS.items():
        venv.create(scratch / name, with_pip=False, symlinks=True)
        install = [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet"),
            *("--python", str(scratch / name / "bin" / "python"), "--no-deps", "--require-hashes", "-r", str(lock)),
        ]
        if subprocess.run(install).returncode != 0:
            raise errors.Failure(f"fetching {lock.name} failed; see the lines above (PyPI must be reachable)")


def main() -> int:
    """Fetch and print the folder; one line on stderr when that cannot be done."""
    try:
        print(folder(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no servers of tools: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
