"""The sources that are read: this repository, and pinned versions of popular libraries.

The queries of codegraph were written with the trees that are `seen`; figures are published of the others.
"""

from __future__ import annotations

import hashlib
import shutil
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.codegraph import natives
from hack.cluster import progress

ROOT = Path(__file__).resolve().parents[2]
ENDINGS = {
    "python": (".py",),
    "go": (".go",),
    "java": (".java",),
    "kotlin": (".kt",),
    "typescript": (".ts", ".tsx", ".mts", ".cts"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "rust": (".rs",),
}
_LEFT_OUT = (".d.ts", ".d.mts", ".d.cts", ".min.js")  # made by programs
_FOLDERS = (".venv", ".git", "node_modules", "site-packages", "__pycache__", "testdata")
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Tree:
    """Sources in one language; `folder` fetches them where the cache lacks them."""

    language: str
    name: str
    folder: Callable[[progress.Progress], Path]
    seen: bool = False


def _jar(language: str, name: str, seen: bool = False) -> Tree:
    return Tree(language, name, lambda report: natives.jars(report) / name, seen)


def _npm(language: str, name: str, below: str = "", seen: bool = False) -> Tree:
    return Tree(language, name, lambda report: natives.packages(report) / name / below, seen)


def _crate(name: str, seen: bool = False) -> Tree:
    return Tree("rust", name, lambda report: natives.crates(report) / name, seen)


def _module(tool: str, name: str, seen: bool = False) -> Tree:
    return Tree("go", name, lambda _: natives.module(tool, name), seen)


ALL = (
    Tree("python", "jervis", lambda _: ROOT, seen=True),
    Tree("python", "standard library", lambda _: Path(sysconfig.get_path("stdlib")), seen=True),
    Tree("python", "site-packages", lambda _: Path(sysconfig.get_path("purelib"))),
    _module("kubernetes", "k8s.io/client-go", seen=True),
    _module("prometheus", "github.com/prometheus/prometheus"),
    _module("helm", "helm.sh/helm/v3"),
    _module("gitea", "code.gitea.io/gitea"),
    _jar("java", "guava-33.5.0-jre", seen=True),
    _jar("java", "jackson-databind-2.23.0"),
    _jar("java", "rxjava-3.1.12"),
    _jar("java", "mockito-core-5.23.0"),
    _jar("java", "commons-lang3-3.20.0"),
    _jar("kotlin", "kotlinx-coroutines-core-jvm-1.11.0", seen=True),
    _jar("kotlin", "okhttp-jvm-5.5.1", seen=True),
    _jar("kotlin", "okio-jvm-3.18.2"),
    _jar("kotlin", "ktor-server-core-jvm-3.6.1"),
    _jar("kotlin", "arrow-core-jvm-2.2.3"),
    _jar("kotlin", "exposed-core-1.6.1"),
    _jar("kotlin", "kotlinpoet-jvm-2.4.0"),
    _npm("typescript", "rxjs", "src", seen=True),
    _npm("typescript", "viem", seen=True),
    _npm("typescript", "zod"),
    _npm("typescript", "effect"),
    _npm("typescript", "@reduxjs/toolkit"),
    _npm("typescript", "@tanstack"),
    _npm("typescript", "@trpc/server"),
    _npm("typescript", "mobx"),
    _npm("javascript", "fastify", seen=True),
    _npm("javascript", "webpack", seen=True),
    _npm("javascript", "effect"),
    _npm("javascript", "express"),
    _npm("javascript", "lodash"),
    _npm("javascript", "preact"),
    _crate("regex-automata-0.4.19", seen=True),
    _crate("tokio-1.54.1", seen=True),
    _crate("axum-0.8.9"),
    _crate("clap_builder-4.6.7"),
    _crate("diesel-2.3.14"),
    _crate("itertools-0.15.0"),
    _crate("rayon-core-1.13.0"),
    _crate("syn-3.0.10"),
    _crate("tracing-subscriber-0.3.23"),
)


def copy(tree: Tree, target: Path, most: int, report: progress.Progress) -> list[str]:
    """Copy at most `most` files of a tree below `target`, chosen by the hash of their paths; their paths, sorted.

    A copy, so that no rule about the folder it stands in leaves a file out (site-packages, node_modules).
    """
    source = tree.folder(report)
    found = []
    for path in source.rglob("*"):
        below = path.relative_to(source)
        if not path.name.endswith(ENDINGS[tree.language]) or path.name.endswith(_LEFT_OUT):
            continue
        if set(below.parts) & set(_FOLDERS) or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            continue
        found.append(str(below))
    chosen = sorted(sorted(found, key=lambda path: hashlib.sha256(path.encode()).digest())[:most])
    for one in chosen:
        (target / one).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / one, target / one)
    return chosen
