"""The MongoDB-wire server: Java libraries from Maven and our small launcher, kept in the user's cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hack.cluster import binaries, errors, progress

_SOURCE = binaries.TOOLS / "mongodb"
_LAUNCHER = _SOURCE / "src/dev/jervis/hack/MongoServer.java"


def mongodb(report: progress.Progress) -> list[str]:
    """The command line up to the launcher's own arguments (HOST PORT FILE), built first if the cache lacks it.

    Raises errors.Missing without a JDK or Maven, errors.Failure when the build fails.
    """
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise errors.Missing(f"{program} is missing: apt-get install openjdk-17-jdk-headless maven")
    target = binaries.cache() / "tools" / f"mongodb-{binaries.digest([_SOURCE / 'pom.xml', _LAUNCHER], '')}"
    binaries.build_once(target, report, "fetching the MongoDB-wire server", _make)
    heap = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return ["java", *heap, "-cp", f"{target}/classes:{target}/lib/*", "dev.jervis.hack.MongoServer"]


def _make(scratch: Path) -> None:
    _run("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={scratch}/lib")
    _run("javac", "-cp", f"{scratch}/lib/*", "-d", f"{scratch}/classes", str(_LAUNCHER))


def _run(*command: str) -> None:
    if subprocess.run(command, cwd=_SOURCE, stdout=subprocess.DEVNULL).returncode != 0:
        raise errors.Failure(f"{command[0]} failed; see the lines above (Maven Central must be reachable)")
