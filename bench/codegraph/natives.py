"""The references: one program for each language around its own parser, built once into the user's cache.

| language | parser | needs |
| -- | -- | -- |
| Python | `ast` | nothing |
| Go | go/parser | Go |
| Java | javac's tree API | a JDK |
| Kotlin | PSI of kotlin-compiler-embeddable | a JDK, Maven |
| TypeScript, JavaScript | npm's typescript | nodejs, npm |
| Rust | the crate syn | cargo, which the set-up does not install |
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.cluster import binaries, errors, prerequisites, progress

SOURCES = Path(__file__).resolve().parent / "references"
TOOLS = binaries.TOOLS / "codegraph"
_JAVA = {name: prerequisites.CLUSTER[name] for name in ("maven", "openjdk-17-jdk-headless")}


@dataclass(frozen=True)
class Program:
    """A command that takes a folder as its last argument and paths on stdin."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def read(self, folder: Path, paths: Sequence[str]) -> dict[str, Any]:
        """`{"files": {path: rows}, "rejected": {path: reason}}` of files below `folder`."""
        done = subprocess.run(
            [*self.command, str(folder)], input="\n".join(paths) + "\n", check=True, stdout=subprocess.PIPE,
            encoding="utf-8", env={**os.environ, **dict(self.environment)},
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _python(_: progress.Progress) -> Program:
    return Program((sys.executable, str(SOURCES / "python.py")))


def _go(report: progress.Progress) -> Program:
    source = SOURCES / "golang"
    place = cached("go", [source / "go.mod", source / "main.go"], binaries.go_version())

    def build(scratch: Path) -> None:
        command = ("go", "build", "-trimpath", "-buildvcs=false", "-o", scratch / "reference", ".")
        binaries.logged("codegraph-go", *command, cwd=source, reach="nothing", CGO_ENABLED="0")

    return Program((str(binaries.build_once(place, report, "building the reference of Go", build, 10) / "reference"),))


def _java(report: progress.Progress) -> Program:
    prerequisites.install(_JAVA, report)
    exported = "jdk.compiler/com.sun.tools.javac.tree=ALL-UNNAMED"
    return Program(("java", "-Xss64m", "-XX:+UseSerialGC", "--add-exports", exported, str(SOURCES / "Reference.java")))


def java_calls(report: progress.Progress) -> Program:
    """The program that prints the calls of Java."""
    prerequisites.install(_JAVA, report)
    packages = [f"jdk.compiler/com.sun.tools.javac.{name}=ALL-UNNAMED" for name in ("tree", "code", "util")]
    exports = [part for one in packages for part in ("--add-exports", one)]
    return Program(("java", "-Xss64m", "-XX:+UseSerialGC", *exports, str(SOURCES / "CallReference.java")))


def _kotlin(report: progress.Progress) -> Program:
    prerequisites.install(_JAVA, report)
    source = SOURCES / "KotlinReference.java"
    place = cached("kotlin", [TOOLS / "kotlin/pom.xml", source], "")

    def build(scratch: Path) -> None:
        _mvn("kotlin", "copy-dependencies", scratch / "lib")
        command = ("javac", "-cp", f"{scratch}/lib/*", "-d", scratch / "classes", source)
        binaries.logged("codegraph-kotlin", *command, cwd=scratch, reach="nothing")

    at = binaries.build_once(place, report, "fetching the Kotlin compiler", build, 30)
    return Program(("java", "-Xss64m", "-XX:+UseSerialGC", "-cp", f"{at}/lib/*:{at}/classes", "KotlinReference"))


def _ecma(report: progress.Progress) -> Program:
    command = ("node", "--stack-size=8000", str(SOURCES / "typescript.js"))
    return Program(command, (("NODE_PATH", str(packages(report))),))


def _rust(report: progress.Progress) -> Program:
    _cargo()
    source = SOURCES / "rust"
    place = cached("rust", [source / "Cargo.toml", source / "src/main.rs"], "")

    def build(scratch: Path) -> None:
        command = ("cargo", "build", "--release")
        binaries.logged("codegraph-rust", *command, cwd=source, reach="crates", CARGO_TARGET_DIR=f"{scratch}/t")
        shutil.copy(scratch / "t/release/reference", scratch)
        shutil.rmtree(scratch / "t")

    return Program(
        (str(binaries.build_once(place, report, "building the reference of Rust", build, 60) / "reference"),)
    )


ALL: dict[str, Callable[[progress.Progress], Program]] = {
    "python": _python, "go": _go, "java": _java, "kotlin": _kotlin, "typescript": _ecma, "javascript": _ecma,
    "rust": _rust,
}  # fmt: skip
"""The program of a language. Raises errors.Missing or errors.Failure with the remedy."""


def packages(report: progress.Progress) -> Path:
    """The folder node_modules with TypeScript's compiler and the packages that are read."""
    prerequisites.install(prerequisites.NODE, report)
    files = [TOOLS / "npm/package.json", TOOLS / "npm/package-lock.json"]

    def fetch(scratch: Path) -> None:
        for file in files:
            shutil.copy(file, scratch)
        command = ("npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--omit=peer", "--no-audit", "--no-fund")
        binaries.logged("codegraph-npm", *command, cwd=scratch, reach="the npm registry")

    return binaries.build_once(cached("npm", files, ""), report, "fetching npm packages", fetch, 60) / "node_modules"


def jars(report: progress.Progress) -> Path:
    """The folder with one folder for each jar of sources."""
    prerequisites.install(_JAVA, report)

    def fetch(scratch: Path) -> None:
        _mvn("sources", "copy", scratch / "jars")
        for jar in (scratch / "jars").glob("*-sources.jar"):
            shutil.unpack_archive(jar, scratch / jar.name.removesuffix("-sources.jar"), "zip")
        shutil.rmtree(scratch / "jars")

    return binaries.build_once(cached("jars", [TOOLS / "sources/pom.xml"], ""), report, "fetching sources", fetch, 30)


def crates(report: progress.Progress) -> Path:
    """The folder with one folder for each crate, its version in the name."""
    _cargo()
    source = TOOLS / "crates"

    def fetch(scratch: Path) -> None:
        command = ("cargo", "vendor", "--versioned-dirs", "-q", scratch / "crates")
        binaries.logged("codegraph-crates", *command, cwd=source, reach="crates")

    place = cached("crates", [source / "Cargo.toml"], "")
    return binaries.build_once(place, report, "fetching crates", fetch, 60) / "crates"


def module(tool: str, name: str) -> Path:
    """The folder of a Go module that the tool `hack/tools/TOOL` names in its go.mod."""
    folder = binaries.TOOLS / tool
    binaries.logged("codegraph-go", "go", "mod", "download", name, cwd=folder, reach="the Go module proxy")
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", name], cwd=folder, check=True, capture_output=True, text=True
    )
    return Path(listed.stdout.strip())


def _cargo() -> None:
    if shutil.which("cargo") is None:
        raise errors.Missing("cargo is missing: Rust 1.71 or newer (rustup.rs)")


def cached(name: str, files: list[Path], salt: str) -> Path:
    """The folder of the cache for what is made of these files."""
    return binaries.cache() / "tools" / f"codegraph-{name}-{binaries.digest(files, salt)}"


def _mvn(folder: str, goal: str, target: Path) -> None:
    command = ("mvn", "-q", "-B", f"dependency:{goal}", f"-DoutputDirectory={target}")
    binaries.logged(f"codegraph-{folder}", *command, cwd=TOOLS / folder, reach="Maven Central")
