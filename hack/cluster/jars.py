"""Java programs from Maven, kept in the user's cache: the MongoDB-wire server with our small launcher, and Tika."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hack.cluster import binaries, errors, progress

_MONGODB = binaries.TOOLS / "mongodb"
_TIKA = binaries.TOOLS / "tika"
# The limits of the parsing child, the same as in the chart.
_TIKA_LIMITS = Path(__file__).resolve().parents[2] / "charts/jervis/files/tika-config.xml"
_LAUNCHER = _MONGODB / "src/dev/jervis/hack/MongoServer.java"


def mongodb(report: progress.Progress) -> list[str]:
    """The command line up to the launcher's own arguments (HOST PORT FILE), built first if the cache lacks it.

    Raises errors.Missing without a JDK or Maven, errors.Failure when the build fails.
    """
    _require("java", "javac", "mvn")
    target = binaries.cache() / "tools" / f"mongodb-{binaries.digest([_MONGODB / 'pom.xml', _LAUNCHER], '')}"
    binaries.build_once(target, report, "fetching the MongoDB-wire server", _make_mongodb)
    heap = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return ["java", *heap, "-cp", f"{target}/classes:{target}/lib/*", "dev.jervis.hack.MongoServer"]


def tika(report: progress.Progress) -> list[str]:
    """The command line of Tika's server up to its own arguments, fetched first if the cache lacks it.

    It starts a child that parses and dies in its stead. Raises as `mongodb` does.
    """
    _require("java", "mvn")
    target = binaries.cache() / "tools" / f"tika-{binaries.digest([_TIKA / 'pom.xml'], '')}"
    binaries.build_once(target, report, "fetching Tika", lambda scratch: _mvn(_TIKA, "copy", scratch))
    [jar] = sorted(target.glob("lib/tika-server-standard-*.jar"))
    return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-jar", str(jar), "-c", str(_TIKA_LIMITS)]


def _require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise errors.Missing(f"{program} is missing: apt-get install openjdk-17-jdk-headless maven")


def _make_mongodb(scratch: Path) -> None:
    _mvn(_MONGODB, "copy-dependencies", scratch)
    _run(_MONGODB, "javac", "-cp", f"{scratch}/lib/*", "-d", f"{scratch}/classes", str(_LAUNCHER))


def _mvn(source: Path, goal: str, scratch: Path) -> None:
    _run(source, "mvn", "-q", "-B", f"dependency:{goal}", f"-DoutputDirectory={scratch}/lib")


def _run(source: Path, *command: str) -> None:
    if subprocess.run(command, cwd=source, stdout=subprocess.DEVNULL).returncode != 0:
        raise errors.Failure(f"{command[0]} failed; see the lines above (Maven Central must be reachable)")
