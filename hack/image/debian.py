"""The local stand-in for python:3.11-slim: Debian from its own packages, made once per machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from hack.cluster import errors, progress
from hack.image.store import Store

_SUITE = "bookworm"  # its python3 is 3.11
_MIRROR = "http://deb.debian.org/debian"
_PACKAGES = ("ca-certificates", "python3", "python3-venv")
SECONDS = 50.0
"""What bootstrapping it takes."""
NAME = f"localhost/jervis-base:{_SUITE}-2"


def ensure(store: Store, report: progress.Progress) -> str:
    """The base image's name, bootstrapped first if the store lacks it.

    `JERVIS_DEBIAN_MIRROR` names another mirror than debootstrap's own, as `sources` does for the builds on it. Raises
    errors.Failure when that fails.
    """
    if not store.has(NAME):
        with (
            report.step(f"bootstrapping the base image (Debian {_SUITE})", SECONDS),
            tempfile.TemporaryDirectory(dir=store.directory) as scratch,
        ):
            root = Path(scratch) / "root"
            _bootstrap(root)
            container = store.buildah("from", "scratch", quiet=True)
            try:
                store.buildah("copy", "-q", container, root, "/", quiet=True)
                store.buildah("config", "--env", "LANG=C.UTF-8", container, quiet=True)
                store.buildah("commit", "-q", "--disable-compression", container, NAME, quiet=True)
            finally:
                store.buildah("rm", container, quiet=True)
    return NAME


def _bootstrap(root: Path) -> None:
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(root)]
    mirror = os.environ.get("JERVIS_DEBIAN_MIRROR")
    done = subprocess.run([*command, mirror] if mirror else command, capture_output=True, text=True)
    if done.returncode != 0:
        raise errors.Failure(f"debootstrap failed (a Debian mirror must be reachable): {done.stdout.strip()[-400:]}")
    clean(root)


def clean(root: Path) -> None:
    """Take away what no process needs, and what names the machine and the mirror that it was made on and from."""
    # Licences ask that their text goes along with a copy of the program.
    for document in (root / "usr/share/doc").rglob("*"):
        if not document.is_dir() and document.name != "copyright":
            document.unlink()
    for waste in ("var/cache/apt/archives", "var/lib/apt/lists", "var/log", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / waste, ignore_errors=True)
        (root / waste).mkdir(parents=True)
    for own in ("etc/hostname", "etc/resolv.conf"):
        (root / own).write_text("")
    (root / "etc/apt/sources.list").write_text(f"deb {_MIRROR} {_SUITE} main\n")
