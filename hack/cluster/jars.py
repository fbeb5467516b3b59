"""Java programs from Maven, kept in the user's cache: the MongoDB-wire server with our launcher, Tika, GreenMail."""

from __future__ import annotations

import shutil
from pathlib import Path

from hack.cluster import binaries, errors, progress

_SECONDS = 5.0  # on a machine with two cores and a mirror nearby
_MONGODB = binaries.TOOLS / "mongodb"
_TIKA = binaries.TOOLS / "tika"
_GREENMAIL = binaries.TOOLS / "greenmail"
# The limits of the parsing child, the same as in the chart.
_TIKA_LIMITS = Path(__file__).resolve().parents[2] / "charts/jervis/files/tika-config.xml"
_LAUNCHER = _MONGODB / "src/dev/jervis/hack/MongoServer.java"


def mongodb(report: progress.Progress) -> list[str]:
    """The command line up to the launcher's own arguments (HOST PORT FILE), built first if the cache lacks it.

    Raises errors.Missing without a JDK or Maven, errors.Failure when the build fails.
    """
    _require("java", "javac", "mvn")
    target = _mongodb_place()
    binaries.build_once(target, report, "fetching the MongoDB-wire server", _make_mongodb, _SECONDS)
    heap = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return ["java", *heap, "-cp", f"{target}/classes:{target}/lib/*", "dev.jervis.hack.MongoServer"]


def tika(report: progress.Progress) -> list[str]:
    """The command line of Tika's server up to its own arguments, fetched first if the cache lacks it.

    It starts a child that parses and dies in its stead. Raises as `mongodb` does.
    """
    _require("java", "mvn")
    target = _tika_place()
    binaries.build_once(target, report, "fetching Tika", lambda scratch: _mvn(_TIKA, "copy", scratch), _SECONDS)
    [jar] = sorted(target.glob("lib/tika-server-standard-*.jar"))
    return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-jar", str(jar), "-c", str(_TIKA_LIMITS)]


def greenmail(report: progress.Progress) -> list[str]:
    """The command line of GreenMail up to its -D arguments, fetched first if the cache lacks it. Raises as `tika`."""
    _require("java", "mvn")
    target = binaries.cache() / "tools" / f"greenmail-{binaries.digest([_GREENMAIL / 'pom.xml'], '')}"
    binaries.build_once(target, report, "fetching GreenMail", lambda place: _mvn(_GREENMAIL, "copy", place), _SECONDS)
    [jar] = sorted(target.glob("lib/greenmail-standalone-*.jar"))
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", str(jar)]


def mongodb_seconds() -> float:
    """What `mongodb` takes to fetch, 0 when the cache has it."""
    return 0 if _mongodb_place().exists() else _SECONDS


def tika_seconds() -> float:
    """What `tika` takes to fetch, 0 when the cache has it."""
    return 0 if _tika_place().exists() else _SECONDS


def _mongodb_place() -> Path:
    return binaries.cache() / "tools" / f"mongodb-{binaries.digest([_MONGODB / 'pom.xml', _LAUNCHER], '')}"


def _tika_place() -> Path:
    return binaries.cache() / "tools" / f"tika-{binaries.digest([_TIKA / 'pom.xml'], '')}"


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
    binaries.logged(source.name, *command, cwd=source, reach="Maven Central")
