"""What the machine must have before a cluster or an image can be made: the one list of Debian packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hack.cluster import binaries, errors, progress

# Debian package: a program (or, with a slash, a file) that it brings.
CLUSTER = {
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "containerd": "containerd",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "iproute2": "ip",
    "maven": "mvn",
    "nftables": "nft",
    "openjdk-17-jdk-headless": "javac",
    "openssl": "openssl",
    "procps": "sysctl",
    "runc": "runc",
    "util-linux": "nsenter",
}
SOURCES = {  # what the demonstration connects: a mailbox, and a Gitea whose driver of SQLite is C
    "dovecot-imapd": "dovecot",
    "gcc": "gcc",
    "git": "git",
    "libc6-dev": "/usr/include/stdio.h",
}
SPEECH = {"espeak-ng": "espeak-ng"}  # it speaks recordings
SERVERS = {  # tests of the sources
    **SOURCES,
    **SPEECH,
    "dovecot-lmtpd": "/usr/lib/dovecot/lmtp",
    "dovecot-submissiond": "/usr/lib/dovecot/submission",
    "opensmtpd": "smtpd",
    "dovecot-pop3d": "/usr/lib/dovecot/pop3",
    "openssh-server": "/usr/sbin/sshd",
}
C = {"gcc": "gcc", "libc6-dev": "/usr/include/stdlib.h"}  # Gitea's driver of SQLite
CPP = {"g++": "g++"}  # parts of Ollama
NPM = {"npm": "npm"}  # recorded answers of GitHub
NODE = {"nodejs": "node", **NPM}  # the reference of TypeScript in bench/codegraph
BENCH = {"isync": "mbsync", "offlineimap3": "offlineimap"}  # programs beside which mailboxes are measured
BROWSER = {"chromium": "chromium"}  # tests of the pages
IMAGE = {"buildah": "buildah", "debootstrap": "debootstrap"}
_TESSDATA = "/usr/share/tesseract-ocr/5/tessdata"
OCR = {
    # What the simulated vision model reads images with, and the font that the tests draw them in.
    "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "tesseract-ocr": "tesseract",
    "tesseract-ocr-ces": f"{_TESSDATA}/ces.traineddata",
    "tesseract-ocr-deu": f"{_TESSDATA}/deu.traineddata",
    "tesseract-ocr-eng": f"{_TESSDATA}/eng.traineddata",
}
TESTS = {  # `make test`, all of it
    **CLUSTER,
    **IMAGE,
    **SERVERS,
    **C,
    **CPP,
    **NPM,
    **BROWSER,
    **OCR,
    "curl": "curl",
}
SECONDS = 15.0
"""What their installation takes."""
_SYSTEM_PATHS = "/usr/local/sbin:/usr/sbin:/sbin"
_POLICY = Path("/usr/sbin/policy-rc.d")


def missing(packages: dict[str, str]) -> list[str]:
    """The packages whose program is not there."""
    paths = f"{os.environ.get('PATH', '')}:{_SYSTEM_PATHS}"
    return [
        package
        for package, brings in packages.items()
        if not (Path(brings).is_file() if brings.startswith("/") else shutil.which(brings, path=paths))
    ]


def ensure(packages: dict[str, str], report: progress.Progress) -> None:
    """What the local cluster or an image needs: Linux, root, Go, and `packages`, which are installed if missing.

    Raises errors.Missing with one line that says what to install, and why we did not.
    """
    absent = installable(packages)
    if absent:
        _install(absent, report)


def installable(packages: dict[str, str]) -> list[str]:
    """The packages that `ensure` would install. Raises errors.Missing where it could not."""
    if not sys.platform.startswith("linux"):
        raise errors.Missing("the local cluster needs Linux: set KUBECONFIG to a kind or k3d cluster instead")
    if os.geteuid() != 0:
        raise errors.Missing("the local cluster needs root (namespaces, mounts): use sudo -E, or set KUBECONFIG")
    absent = missing(packages)
    if absent and shutil.which("apt-get") is None:
        raise errors.Missing(f"install the programs of these Debian packages: {' '.join(absent)}")
    binaries.go_version()
    return absent


_LOCK_SECONDS = 300


def install(packages: dict[str, str], report: progress.Progress) -> None:
    """Install what is missing of `packages` when we are root on Debian. Raises errors.Missing as `ensure` does."""
    absent = missing(packages)
    if not absent:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise errors.Missing(f"install the programs of these Debian packages: {' '.join(absent)}")
    _install(absent, report)


def _install(absent: list[str], report: progress.Progress) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with report.step(f"apt-get installs, as root: {' '.join(absent)}", SECONDS), _nothing_starts():
        for command in (["update"], ["install", "-y", "--no-install-recommends", "--no-remove", *absent]):
            # Another installation may be under way, such as that of unattended upgrades.
            waiting = ["apt-get", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}", *command]
            done = subprocess.run(waiting, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise errors.Missing(
                    f"install by hand: apt-get install {' '.join(absent)} ({done.stderr.strip()[-300:]})"
                )


@contextlib.contextmanager
def _nothing_starts() -> Iterator[None]:
    """Packages of servers start none meanwhile: tests start their own. Source: Debian policy 9.3.3, policy-rc.d."""
    if _POLICY.exists():
        yield  # the machine has rules of its own
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)
