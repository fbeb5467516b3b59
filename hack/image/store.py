"""buildah with a storage of its own, so that no other images are touched."""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.cluster import binaries, errors


@dataclass(frozen=True)
class Store:
    """Images and layers below `directory`; its locks and mounts below /run."""

    directory: Path

    @classmethod
    def of_user(cls) -> Store:
        return cls(binaries.cache() / "image")

    @property
    def layouts(self) -> Path:
        """Exported OCI layouts; each holds only blobs that are new to it."""
        return self.directory / "layouts"

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """One build at a time per user; a second one waits."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def has(self, image: str) -> bool:
        done = self._run("inspect", "--type", "image", image, quiet=True)
        return done.returncode == 0

    def buildah(self, *arguments: str | Path, quiet: bool = False) -> str:
        """Run `buildah ARGUMENTS` and give its output. Raises errors.Failure when it fails."""
        done = self._run(*arguments, quiet=quiet)
        if done.returncode != 0:
            raise errors.Failure(
                f"buildah {arguments[0]} failed{': ' + done.stderr.strip() if quiet else '; see above'}"
            )
        return done.stdout.strip()

    def logged(self, name: str, *arguments: str | Path) -> None:
        """Run `buildah ARGUMENTS` with what it says in a log. Raises errors.Failure with the log's end and its path."""
        command = self.command(*arguments)
        binaries.logged(name, *command, cwd=self.directory, reach="the package index")

    def manifest(self, image: str) -> dict[str, Any]:
        """The OCI manifest as stored: digests and sizes of the plain layers."""
        inspected = json.loads(self.buildah("inspect", "--type", "image", image, quiet=True))
        found: dict[str, Any] = json.loads(inspected["Manifest"])
        return found

    def digest(self, image: str) -> str:
        """Of the image's manifest as it is stored here: sha256:... ."""
        return self.buildah("inspect", "--type", "image", "--format", "{{.FromImageDigest}}", image, quiet=True)

    def start(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        """`buildah ARGUMENTS` as a running process whose words go to the terminal."""
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.DEVNULL)

    def _run(self, *arguments: str | Path, quiet: bool) -> subprocess.CompletedProcess[str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        errors_to = subprocess.PIPE if quiet else None
        return subprocess.run(self.command(*arguments), stdout=subprocess.PIPE, stderr=errors_to, text=True)

    def command(self, *arguments: str | Path) -> list[str]:
        """The words of `buildah ARGUMENTS` on this storage."""
        places = ("--root", self.directory / "storage", "--runroot", "/run/jervis-image", "--storage-driver", "overlay")
        return ["buildah", *map(str, places), *map(str, arguments)]
