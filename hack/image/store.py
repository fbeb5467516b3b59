"""buildah with a storage of its own, so that nobody else's images are touched."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

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

    def has(self, image: str) -> bool:
        done = self._run("inspect", "--type", "image", image, quiet=True)
        return done.returncode == 0

    def buildah(self, *arguments: str | Path, quiet: bool = False) -> str:
        """Run `buildah ARGUMENTS` and give its output. Raises errors.Failure when it fails (its words are on the terminal)."""
        done = self._run(*arguments, quiet=quiet)
        if done.returncode != 0:
            raise errors.Failure(f"buildah {arguments[0]} failed{': ' + done.stderr.strip() if quiet else '; see above'}")
        return done.stdout.strip()

    def _run(self, *arguments: str | Path, quiet: bool) -> subprocess.CompletedProcess[str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        places = ("--root", self.directory / "storage", "--runroot", "/run/jervis-image", "--storage-driver", "overlay")
        return subprocess.run(
            ["buildah", *map(str, places), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if quiet else None,
            text=True,
        )
