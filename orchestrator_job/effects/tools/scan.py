"""Scans of a workspace: for secrets by detect-secrets, for vulnerable dependencies against a mounted file.

detect-secrets runs as a process of its own over the files of the clone, with limits and without asking anyone whether a
secret is in use (`--no-verify`); its findings name type, file and line, never the secret. Dependencies are what lock
files pin: the list is in `lockfiles`. The vulnerability file holds OSV records (https://ossf.github.io/osv-schema/).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator_job import outcome
from orchestrator_job.effects.tools import bounds, checkout, connections, lockfiles, osv, port, workspace
from sources import client as sources_client

_SECONDS = 300.0
_OUTPUT = 8 << 20
_MOST_FOUND = 200
_MOST_LOCKS = 50


class Scan(port.Arguments):
    """`folder`: below it alone."""

    connection: connections.Name = ""
    folder: str = ""


class Secrets:
    """Where secrets may stand."""

    name = "scan_secrets"
    description = "Search the open repository for secrets: keys, tokens, passwords. Answers places, never values."
    arguments = Scan

    def __init__(self, checkouts: workspace.Checkouts) -> None:
        self._checkouts = checkouts

    async def read(self, given: Scan, place: port.Place) -> port.Result:
        """Places. Raises `sources_client.Unavailable` while the clone cannot be made."""
        try:
            at = self._checkouts.of(given.connection)
            await at.reading()
            return await self._scanned(at, given.folder)
        except (checkout.Unworkable, sources_client.Rejected) as error:
            outcome.recheck(error)
            return bounds.failed(error)

    async def _scanned(self, at: checkout.Checkout, folder: str) -> port.Result:
        import detect_secrets  # here: few runs scan

        under = "."
        if folder.strip("/"):
            under = str(workspace.inside(at.tree, folder.strip("/")).relative_to(at.tree))
        # Its own process has neither the run's environment nor its token.
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": ":".join(sys.path)}
        scan = [detect_secrets.__name__, "scan", "--no-verify", "--all-files", "--", under]
        # -I would leave PYTHONPATH out; -P leaves out the clone, whose files must not be imported.
        words = ["sh", "-c", f'ulimit -v {2 << 20}; ulimit -t {int(_SECONDS)}; exec "$@"', "sh", sys.executable]
        done = await asyncio.to_thread(
            checkout.run, [*words, "-P", "-m", *scan], at.tree, environment, b"", _SECONDS, _OUTPUT
        )
        if done.late or done.cut or done.code != 0:
            why = "took too long" if done.late else "found too much" if done.cut else done.said
            raise checkout.Unworkable(f"The scan {why}.")
        found = _places(json.loads(done.out))
        lines = [f"{path}:{line} {kind}" for path, line, kind in found[:_MOST_FOUND]]
        if len(found) > _MOST_FOUND:
            lines.append(f"[{len(found) - _MOST_FOUND} more]")
        text = "\n".join(lines) or "No secrets were found."
        return port.Result(bounds.cut(text), {"found": len(found)})


def _places(report: Any) -> list[tuple[str, int, str]]:
    return sorted(
        (path, int(one["line_number"]), str(one["type"]))
        for path, some in report.get("results", {}).items()
        if not path.startswith(".git/")
        for one in some
    )


class Dependencies:
    """What lock files pin, and which of it is known to be vulnerable."""

    name = "scan_dependencies"
    description = "List the dependencies that lock files of the open repository pin, and which are vulnerable."
    arguments = Scan

    def __init__(self, checkouts: workspace.Checkouts, vulnerabilities: Path | None) -> None:
        self._checkouts, self._file = checkouts, vulnerabilities

    async def read(self, given: Scan, place: port.Place) -> port.Result:
        """Packages by ecosystem, then vulnerabilities. Raises `sources_client.Unavailable`."""
        try:
            at = self._checkouts.of(given.connection)
            await at.reading()
            folder = given.folder.strip("/")
            paths = [one for one in await at.paths(folder) if lockfiles.reader(one) is not None]
            return await asyncio.to_thread(self._judged, at, paths)
        except (checkout.Unworkable, sources_client.Rejected) as error:
            outcome.recheck(error)
            return bounds.failed(error)

    def _judged(self, at: checkout.Checkout, paths: Sequence[str]) -> port.Result:
        lines: list[str] = []
        pinned: dict[lockfiles.Package, str] = {}
        for path in paths[:_MOST_LOCKS]:
            try:
                packages = lockfiles.read(path, workspace.load(workspace.inside(at.tree, path), path))
            except (lockfiles.Unreadable, checkout.Unworkable) as error:
                lines.append(f"{path}: not read: {error}")
                continue
            lines.append(f"{path}: {len(packages)} packages")
            pinned.update(dict.fromkeys(packages, path))
        if len(paths) > _MOST_LOCKS:
            lines.append(f"[{len(paths) - _MOST_LOCKS} more lock files are not read]")
        if not paths:
            return port.Result(f"There are no lock files. Read are {', '.join(lockfiles.NAMES)}.", {"packages": 0})
        data = {"packages": len(pinned), "vulnerable": -1}
        if self._file is None:
            lines.append("No vulnerability data is mounted, so nothing is said about them.")
            return port.Result(bounds.cut("\n".join(lines)), data)
        try:
            found = osv.affected(self._file, pinned)
        except osv.Unreadable as error:
            lines.append(f"The vulnerability data cannot be read: {error}")
            return port.Result(bounds.cut("\n".join(lines)), data, failed=True)
        for package, record in found[:_MOST_FOUND]:
            fixed = f", fixed in {', '.join(record.fixed)}" if record.fixed else ""
            where = f"{package.ecosystem} {package.name} {package.version} ({pinned[package]})"
            lines.append(f"{where}: {record.id} {record.summary}{fixed}")
        lines.append(f"{len(found)} known vulnerabilities in {len(pinned)} packages.")
        return port.Result(bounds.cut("\n".join(lines)), {**data, "vulnerable": len(found)})


def all_of(checkouts: workspace.Checkouts, vulnerabilities: Path | None) -> list[port.Tool]:
    """The tools of this module."""
    return [Secrets(checkouts), Dependencies(checkouts, vulnerabilities)]
