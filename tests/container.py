"""A container of an image that was built here."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.image import build
from hack.image.store import Store


@dataclass(frozen=True)
class Container:
    """A container of the image, and its files below `root`."""

    store: Store
    name: str
    root: Path

    def run(self, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """As the image's user, in its folder and environment."""
        words = self.store.command("run", "--isolation", "chroot", self.name, "--", *command)
        return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=300)


@contextlib.contextmanager
def opened(target: str) -> Iterator[Container]:
    """One of the image of that target; gone afterwards."""
    store = Store.of_user()
    with store.exclusive():
        name = store.buildah("from", build.IMAGES[target], quiet=True)
        try:
            yield Container(store, name, Path(store.buildah("mount", name, quiet=True)))
        finally:
            store.buildah("rm", name, quiet=True)
