"""Mail servers for the tests of the sources: Dovecot installed, Cyrus, Courier and GreenMail kept in the user's cache.

Debian's packages of mail servers exclude each other and want a mail transport. So those of Cyrus and Courier are only
unpacked: none of their scripts runs, no service starts, and tests lay their files over /usr in a mount namespace.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hack.cluster import binaries, errors, jars, prerequisites, progress

# What each server needs beside what a Debian with Dovecot, containerd and Python has.
PACKAGES = {
    "courier": (
        "courier-authdaemon",
        "courier-authlib",
        "courier-authlib-userdb",
        "courier-base",
        "courier-imap",
        "courier-pop",
        "gamin",
        "libcourier-unicode4",
        "libgamin0",
        "libidn12",
        "libltdl7",
        "libpcre3",
    ),
    "cyrus": (
        "cyrus-common",
        "cyrus-imapd",
        "cyrus-pop3d",
        "libclamav12",
        "libical3",
        "libidn12",
        "libmspack0",
        "libpcre3",
        "libsasl2-modules",
        "libsasl2-modules-db",
        "libwrap0",
        "libxapian30",
        "libzephyr4",
        "sasl2-bin",
    ),
}
TRANSPORTS = {  # of `make test-thorough` alone, which unpacks them when it needs them; OpenSMTPD is installed
    "exim": ("exim4-base", "exim4-daemon-light", "libidn12"),
    "postfix": ("postfix",),
}
_SECONDS = 5.0


def ensure(report: progress.Progress) -> None:
    """Install, unpack and fetch all of them. Raises errors.Failure."""
    prerequisites.install(prerequisites.SERVERS, report)
    for name in PACKAGES:
        unpacked(name, report)
    jars.greenmail(report)


def unpacked(name: str, report: progress.Progress) -> Path:
    """The folder with the files of the server's packages, unpacked if the cache lacks it. Raises errors.Failure."""
    target = binaries.cache() / "tools" / f"{name}-{binaries.digest([Path(__file__)], name)}"
    if shutil.which("apt-get") is None:
        raise errors.Missing(f"{name} is tested with Debian's packages: {' '.join(_packages(name))}")
    binaries.build_once(target, report, f"unpacking {name}", lambda scratch: _unpack(name, scratch), _SECONDS)
    return target


def _packages(name: str) -> tuple[str, ...]:
    return (PACKAGES | TRANSPORTS)[name]


def _unpack(name: str, scratch: Path) -> None:
    scratch.mkdir(parents=True, exist_ok=True)
    files = scratch / "packages"
    files.mkdir()
    subprocess.run(["apt-get", "update"], capture_output=True, check=False)
    done = subprocess.run(["apt-get", "download", *_packages(name)], cwd=files, capture_output=True, text=True)
    if done.returncode != 0:
        raise errors.Failure(f"the packages of {name} cannot be downloaded: {done.stderr.strip()[-300:]}")
    for package in sorted(files.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(scratch)], check=True)
    shutil.rmtree(files)
    if (scratch / "lib").exists():  # a link to usr/lib on every Debian since 12
        shutil.copytree(scratch / "lib", scratch / "usr/lib", symlinks=True, dirs_exist_ok=True)
