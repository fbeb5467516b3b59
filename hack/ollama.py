"""A real Ollama for the router's conformance run, built from its Go module: `python -m hack.ollama` prints its path.

The module's C++ parts come with it, but for three headers: nlohmann's json.hpp and stb_image.h are Debian's (of the
system, or unpacked beside the build without being installed), miniaudio.h comes with the Go module malgo. Go's
checksums cover the modules, apt's signatures the packages. It takes minutes, once: it is kept in the user's cache like
the cluster's tools.

It is compiled for the processor of this machine. cgo's own flags are those of any x86-64, without AVX; Ollama's
releases bring a library for each kind of processor, which only its CMake build makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hack.cluster import binaries, errors, progress

SOURCE = binaries.TOOLS / "ollama"
PACKAGE = "github.com/ollama/ollama"
PACKAGES = {"nlohmann-json3-dev": "nlohmann/json.hpp", "libstb-dev": "stb/stb_image.h"}
"""Debian's package: a header that it brings."""
SYSTEM = Path("/usr/include")
_FLAGS = ("-g", "-O3", "-march=native")
_SECONDS = 800.0
"""What the build takes alone on two cores."""


def program(report: progress.Progress) -> Path:
    """The server's path, built first if the cache lacks it. Raises errors.Missing or errors.Failure with the remedy."""
    for tool in ("gcc", "g++"):
        if shutil.which(tool) is None:
            raise errors.Missing(f"{tool} is missing: a real Ollama has parts in C++; install gcc and g++")
    return binaries.build_once(_place(), report, "building ollama (minutes, once)", _build) / "ollama"


def pending_seconds() -> float:
    """`_SECONDS`, or 0 when the cache has it."""
    return 0 if shutil.which("gcc") and _place().exists() else _SECONDS


def _place() -> Path:
    files = [SOURCE / "go.mod", SOURCE / "go.sum", SOURCE / "headers.go"]
    # A cache may move to another processor, where what this one runs ends with "illegal instruction".
    target = subprocess.run(["gcc", *_FLAGS, "-Q", "--help=target"], capture_output=True, text=True, check=True).stdout
    return binaries.cache() / "tools" / f"ollama-{binaries.digest(files, binaries.go_version() + target)}"


def _build(scratch: Path) -> None:
    headers = scratch / "include"
    headers.mkdir()
    include = [headers, *_debian(scratch, headers)]
    (headers / "miniaudio").mkdir()
    shutil.copyfile(_module("github.com/gen2brain/malgo") / "miniaudio.h", headers / "miniaudio" / "miniaudio.h")
    flags = " ".join(f"-I{folder}" for folder in include)
    built = subprocess.run(
        # Two compilers at once: other work goes first.
        [
            *("nice", "-n", "19", "go", "build", "-p", "2", "-trimpath", "-mod=readonly", "-ldflags", "-s -w"),
            *("-o", str(scratch / "ollama"), PACKAGE),
        ],
        cwd=SOURCE,
        env={
            **os.environ,
            "CGO_ENABLED": "1",
            "CGO_CPPFLAGS": flags,
            **dict.fromkeys(("CGO_CFLAGS", "CGO_CXXFLAGS"), " ".join(_FLAGS)),
        },
    )
    if built.returncode != 0:
        raise errors.Failure("building ollama failed; see the lines above (the Go module proxy must be reachable)")
    shutil.rmtree(headers)


def _debian(scratch: Path, headers: Path) -> list[Path]:
    """Where the headers of Debian's packages are."""
    missing = [name for name, header in PACKAGES.items() if not (SYSTEM / header).is_file()]
    if not missing:
        return [SYSTEM]
    remedy = f"install them: apt-get install {' '.join(missing)}"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise errors.Missing(f"headers of {' and '.join(missing)} are missing; {remedy}")
    packages = scratch / "packages"
    packages.mkdir()
    fetched = subprocess.run(
        ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *missing], cwd=packages, capture_output=True
    )
    if fetched.returncode != 0:
        raise errors.Missing(f"headers of {' and '.join(missing)} are missing and cannot be fetched; {remedy}")
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, packages / "unpacked"], check=True)
    shutil.move(packages / "unpacked" / "usr" / "include", headers / "debian")
    shutil.rmtree(packages)
    return [headers / "debian", *([SYSTEM] if len(missing) < len(PACKAGES) else [])]


def _module(name: str) -> Path:
    """Where Go keeps the sources of a module, fetched first."""
    subprocess.run(["go", "mod", "download", name], cwd=SOURCE, check=True)
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", name], cwd=SOURCE, check=True, capture_output=True, text=True
    )
    return Path(listed.stdout.strip())


def main() -> int:
    """Build and print the path; one line on stderr when that cannot be done."""
    try:
        print(program(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no real Ollama: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
