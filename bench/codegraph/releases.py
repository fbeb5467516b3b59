"""Releases of pinned libraries as issues: what their notes say, and the files and functions that they changed.

The notes are written for users and stand in the sources of the release; the tree is that of the release before, so it
has nothing of a later one. Tests, documentation and examples are left out, and hunks that change a number of a version
alone. Parts:

    notes     all notes of a release of at most ten changed sources; any of these is right
    entries   each entry of these notes alone; right is the same, so entries about what is no source count as misses
    matched   entries that name code in the hunks of at most three files; these alone are right

No release says which hunk an entry is about. `matched` looks for the names that an entry has in backticks or that only
code has (`round_total`, `sendInvoice`): in the lines that the release took and gave, and among the declarations around
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.codegraph import history, natives
from codegraph import api
from codegraph.answer.index import Index, is_test
from codegraph.extract import budget, pool
from codegraph.parse import grammars
from codegraph.parse.facts import FileFacts
from codegraph.resolve import resolution
from hack.cluster import binaries, errors, progress

_TOOLS = binaries.TOOLS / "codegraph/sdists"
_LEFT_OUT = frozenset({"vendor", "node_modules", "docs", "doc", "examples", "scripts", "ui"})
_MOST_BYTES = 1_000_000
_MOST_MATCHED = 3
_VERSION = re.compile(r"\d+\.\d+")
_NUMBER = re.compile(r"\d+(?:\.\d+)+\S*|\(\d.*\)")
_RULE = re.compile(r"[=~*^-]{3,}\s*")
_MARKUP = (
    (re.compile(r"\(:ticket:`[^`]*`\)|:(?:issue|pr|ghsa|cve|pep|user|ticket):`[^`]*`|`#\d+ <[^>]*>`_+:?"), ""),
    (re.compile(r":[\w:+]+:`~?([^`]*)`"), r"`\1`"),
    (re.compile(r"\(?\[?#\d+\]?(?:\([^)\n]*\))?\)?|\(?https?://[^\s)]*\)?"), ""),
    (re.compile(r"``"), "`"),
)
_NO_TEXT = re.compile(r"\s*(?:Released |:release|\.\. |#|\*\*|\*[A-Z]\w+ \d+, \d+\*$)")
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ")
_ENTRY = re.compile(r"(?P<indent> *)[-*+] +(?P<text>\S.*)")
_TICKED = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[^\W\d]\w*")
_OF_CODE = re.compile(r"\w*(?:[a-z\d][A-Z]|[^\W_]_[^\W_])\w*")


@dataclass(frozen=True)
class Library:
    """`notes` is the file with the notes of `{version}`, or of all versions; `prefix` stands before a version in it."""

    client: str
    name: str
    versions: tuple[str, ...]
    notes: str
    prefix: str = ""


@dataclass(frozen=True)
class Hunk:
    """Lines of a source before the release, and the names in what stood there and in what stands there after it."""

    path: str
    span: tuple[int, int]
    names: frozenset[str]


@dataclass
class Release:
    """The cases of each part in the tree before a release, and how that tree was read."""

    name: str
    index: Index
    cases: dict[str, list[history.Case]] = field(default_factory=dict)
    read: int = 0
    """Files that were read; the others are as they were in the release before."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of processor time, that of worker processes with it: `read`, for the files that were read, and `resolve`."""


def _series(minor: str, last: int, first: int = 0) -> tuple[str, ...]:
    return tuple(f"{minor}.{patch}" for patch in range(first, last + 1))


ALL = (
    Library("pypi", "click", (*_series("8.1", 8), *_series("8.2", 2), *_series("8.3", 1)), "CHANGES.rst"),
    Library("pypi", "werkzeug", (*_series("2.1", 1), *_series("2.2", 1), *_series("2.3", 8)), "CHANGES.rst"),
    Library("pypi", "celery", _series("5.2", 6, 1), "Changelog.rst"),
    Library("pypi", "django", ("4.2", *_series("4.2", 8, 1)), "docs/releases/{version}.txt"),
    Library(
        "pypi", "pytest",
        (*_series("7.0", 1), *_series("7.1", 2), *_series("7.2", 2), *_series("7.3", 1), *_series("7.4", 4)),
        "doc/en/changelog.rst",
    ),
    Library(
        "go", "github.com/labstack/echo/v4",
        (*_series("v4.9", 1), *_series("v4.10", 2), *_series("v4.11", 4), *_series("v4.13", 1)), "CHANGELOG.md",
    ),
    Library(
        "go", "github.com/jackc/pgx/v5",
        (*_series("v5.0", 4), *_series("v5.1", 1), *_series("v5.3", 1), *_series("v5.4", 1), "v5.5.4", "v5.5.5",
         *_series("v5.7", 1)),
        "CHANGELOG.md",
    ),
    Library(
        "go", "github.com/prometheus/prometheus",
        (*_series("v0.45", 2), *_series("v0.47", 2), *_series("v0.48", 1), *_series("v0.50", 1)), "CHANGELOG.md",
        prefix="2.",
    ),
)  # fmt: skip


def releases(library: Library, report: progress.Progress) -> Iterator[Release]:
    """Each release that has notes and changed a source, with the index of the one before it."""
    folders = _folders(library, report)
    known: dict[tuple[str, str], FileFacts] = {}
    for before, after in pairwise(library.versions):
        if before.rpartition(".")[0] != after.rpartition(".")[0] and before.count(".") == after.count("."):
            continue
        hunks = changed(folders[before], folders[after])
        said = notes(folders[after], library, after)
        if not said or not hunks:
            continue
        report.say(f"{library.name} {after}: {len(hunks)} hunks")
        yield _release(f"{library.name} {after}", folders[before], said, hunks, known)


def _release(
    name: str, folder: Path, said: str, hunks: Sequence[Hunk], known: dict[tuple[str, str], FileFacts]
) -> Release:
    sources, settings = _read(folder)
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sources.items()}
    new = {path: content for path, content in sources.items() if (path, digests[path]) not in known}
    begun = _spent()
    found = pool.extract_blocking(new, budget.Budget(seconds=1200.0), calls=True)
    spent = {"read": _spent() - begun}
    known |= {(one.path, digests[one.path]): one for one in found.files}
    files = {path: known[path, digest] for path, digest in digests.items() if (path, digest) in known}
    begun = _spent()
    index = Index(resolution.resolve(files, settings), "main", "bench")
    spent["resolve"] = _spent() - begun
    release = Release(name, index, read=len(found.files), seconds=spent)
    whole, single = [one for one in hunks if one.path in files], entries(said)
    if whole and len({one.path for one in hunks}) <= history.MOST_CHANGED:
        release.cases["notes"] = [case(name, said, whole, files)]
        release.cases["entries"] = [case(name, text, whole, files) for text in single]
    pairs = ((text, matched(text, whole, files)) for text in single)
    release.cases["matched"] = [case(name, text, some, files) for text, some in pairs if some]
    return release


def _spent() -> float:
    return sum(os.times()[:4])


def case(name: str, text: str, hunks: Sequence[Hunk], files: Mapping[str, FileFacts]) -> history.Case:
    """A text and what these hunks change."""
    lines = {one.path: tuple(other.span for other in hunks if other.path == one.path) for one in hunks}
    return history.case(history.Commit(name, text, lines), dict(files))


def matched(text: str, hunks: Sequence[Hunk], files: Mapping[str, FileFacts]) -> list[Hunk]:
    """The hunks that have most of the names of code in the text; [] for no name, or where they are in many files."""
    wanted = named(text)
    counts = [len(wanted & (one.names | _around(one, files))) for one in hunks]
    most = max(counts, default=0)
    best = [one for one, count in zip(hunks, counts, strict=True) if count == most > 0]
    return best if len({one.path for one in best}) <= _MOST_MATCHED else []


def named(text: str) -> set[str]:
    """The names of code: what is in backticks, and words that are written as only code writes them."""
    ticked = {name for part in _TICKED.findall(text) for name in _WORD.findall(part) if len(name) > 2}
    return ticked | {name for name in _WORD.findall(text) if _OF_CODE.fullmatch(name)}


def _around(hunk: Hunk, files: Mapping[str, FileFacts]) -> set[str]:
    first, last = hunk.span
    around = [one for one in files[hunk.path].symbols if one.line <= last and first <= one.end_line]
    return {name for one in around for name in one.qname.split(".")}


def entries(said: str) -> list[str]:
    """The entries of notes, each on one line, those below another one with it."""
    found: list[list[str]] = []
    indent, open_ = 0, False
    for line in said.splitlines():
        item = _ENTRY.match(line)
        if item and (not open_ or len(item["indent"]) <= indent):
            indent, open_ = len(item["indent"]), True
            found.append([item["text"]])
        elif line.startswith(" " * (indent + 1)) and open_:
            found[-1].append(line.strip())
        else:
            open_ = False
    return [text for parts in found if len((text := " ".join(parts).strip(" :")).split()) > 2]


def notes(folder: Path, library: Library, version: str) -> str:
    """What the notes say of a version, without marks, links and numbers of issues; '' for nothing."""
    number = version.removeprefix("v")
    number = library.prefix + number.removeprefix("0.") if library.prefix else number
    place = folder / library.notes.format(version=number)
    if not place.is_file():
        return ""
    lines = place.read_text(errors="replace").splitlines()
    own = re.compile(rf"(?<![\d.]){re.escape(number)}(?![\w.])")
    heads = [at for at in range(len(lines)) if _is_heading(lines, at)]
    start = next((at for at in heads if own.search(lines[at])), None)
    if start is None:
        return ""
    end = next((at for at in heads if at > start), len(lines))
    kept = [line for line in lines[start + 1 : end] if not _RULE.fullmatch(line.strip()) and not _NO_TEXT.match(line)]
    return _plain("\n".join(line for line in kept if line.strip())).strip("\n")


def _is_heading(lines: list[str], at: int) -> bool:
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return bool(
        _VERSION.search(lines[at])
        and len(lines[at]) < 80
        and (lines[at].startswith("#") or _RULE.fullmatch(below.strip()))
    )


def _plain(text: str) -> str:
    for pattern, instead in _MARKUP:
        text = pattern.sub(instead, text)
    return text


def changed(before: Path, after: Path) -> list[Hunk]:
    """The hunks of sources in `before` that `after` has otherwise."""
    command = ("git", "diff", "--no-index", "--no-prefix", "--unified=0", "--no-renames", "--diff-filter=MD", "--")
    shown = subprocess.run([*command, str(before), str(after)], stdout=subprocess.PIPE, check=False).stdout
    found: list[Hunk] = []
    path, old, new, span = "", list[str](), list[str](), (0, 0)
    inside = False

    def close() -> None:
        if path and (old or new) and [_NUMBER.sub("", one) for one in old] != [_NUMBER.sub("", one) for one in new]:
            found.append(Hunk(path, span, frozenset(_WORD.findall(" ".join([*old, *new])))))
        old.clear()
        new.clear()

    head = f"--- {str(before).lstrip('/')}/"
    for line in shown.decode(errors="replace").splitlines():
        if line.startswith("diff --git "):
            close()
            path, inside = "", False
        elif line.startswith(head) and not inside:
            path = line.removeprefix(head)
            path = path if _is_product(path) else ""
        elif hunk := _HUNK.match(line):
            close()
            inside = True
            first, count = int(hunk[1]), int(hunk[2] or 1)
            span = (first, first + max(count, 1) - 1)
        elif inside and line.startswith("-"):
            old.append(line[1:])
        elif inside and line.startswith("+"):
            new.append(line[1:])
    close()
    return found


def _is_product(path: str) -> bool:
    return bool(grammars.language_of(path)) and not is_test(path) and _LEFT_OUT.isdisjoint(path.split("/")[:-1])


def _read(folder: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    sources: dict[str, bytes] = {}
    settings: dict[str, bytes] = {}
    for place in sorted(folder.rglob("*")):
        path = str(place.relative_to(folder))
        if not _LEFT_OUT.isdisjoint(path.split("/")[:-1]) or not place.is_file():
            continue
        if place.stat().st_size > _MOST_BYTES:
            continue
        if grammars.language_of(path):
            sources[path] = place.read_bytes()
        if api.is_project_file(path):
            settings[path] = place.read_bytes()
    return sources, settings


def _folders(library: Library, report: progress.Progress) -> dict[str, Path]:
    if library.client == "go":
        with report.step(f"fetching releases of {library.name}"):
            return {version: _module(library.name, version) for version in library.versions}
    place = natives.cached(f"sdists-{library.name}", [_TOOLS / "requirements.txt"], " ".join(library.versions))

    def fetch(scratch: Path) -> None:
        python = scratch / "tools/bin/python"
        log = f"codegraph-sdists-{library.name}"
        binaries.logged(log, sys.executable, "-m", "venv", scratch / "tools", cwd=scratch, reach="nothing")
        with_tools = (python, "-m", "pip", "install", "-q", "-r", _TOOLS / "requirements.txt")
        binaries.logged(log, *with_tools, cwd=scratch, reach="PyPI")
        for version in library.versions:
            into = scratch / f"fetched-{version}"
            what = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", f"{library.name}=={version}")
            binaries.logged(log, python, "-m", "pip", "download", "-q", "-d", into, *what, cwd=scratch, reach="PyPI")
            [archive] = into.glob("*.tar.gz")
            shutil.unpack_archive(archive, into, filter="data")
            [folder] = (one for one in into.iterdir() if one.is_dir())
            folder.rename(scratch / version)
            shutil.rmtree(into)
        shutil.rmtree(scratch / "tools")

    at = binaries.build_once(place, report, f"fetching releases of {library.name}", fetch, 60)
    return {version: at / version for version in library.versions}


def _module(name: str, version: str) -> Path:
    """The folder of a release; a version never changes, sum.golang.org has its checksum."""
    command = ["go", "mod", "download", "-json", f"{name}@{version}"]
    done = subprocess.run(command, cwd=_TOOLS, check=False, capture_output=True, text=True)
    if done.returncode:
        raise errors.Failure(f"{' '.join(command)} failed; it needs the Go module proxy: {done.stdout[-500:]}")
    return Path(json.loads(done.stdout)["Dir"])
