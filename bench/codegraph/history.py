"""Commits of this repository as issues: what their message says, and the files and functions that they changed.

The tree is the one before the commit. Contents are read once for each path and blob, so that many trees are cheap.
"""

from __future__ import annotations

import dataclasses
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.codegraph import trees
from codegraph import api
from codegraph.answer.index import Index, is_test
from codegraph.extract import budget, pool
from codegraph.parse import grammars
from codegraph.parse.facts import FileFacts
from codegraph.resolve import resolution
from codegraph.resolve.project import Target
from hack.cluster import progress

MOST_CHANGED = 10
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ")
_BATCH = 2_000


@dataclass(frozen=True)
class Commit:
    """One commit: its message, and the lines that it replaced or came after, by path of a source before it."""

    name: str
    text: str
    lines: dict[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Case:
    """A text, the files that it is about, and the functions; both are in the index."""

    commit: str
    text: str
    files: frozenset[str]
    functions: frozenset[Target]


def git(*arguments: str, given: bytes = b"") -> bytes:
    """The output of a command in this repository."""
    return subprocess.run(["git", *arguments], check=True, input=given, stdout=subprocess.PIPE, cwd=trees.ROOT).stdout


def sample(count: int, seed: int, until: str = "HEAD") -> list[Commit]:
    """Commits that changed at most 10 files, a source that is no test among them, in the order of the seed.

    Merges are left out.
    """
    log = git("log", "--no-merges", "--format=%x01%H%x02%P%x02%B%x02", "--name-only", until)
    found = []
    for entry in log.decode(errors="replace").split("\x01")[1:]:
        name, parent, text, names = entry.split("\x02")
        changed = names.split()
        if parent and len(changed) <= MOST_CHANGED and any(map(grammars.language_of, changed)):
            found.append((name, text.strip()))
    random.Random(seed).shuffle(found)
    chosen: list[Commit] = []
    for name, text in found:
        lines = _lines(name)
        if not all(map(is_test, lines)):
            chosen.append(Commit(name, text, lines))
        if len(chosen) == count:
            break
    return chosen


def cases(commits: Sequence[Commit], report: progress.Progress) -> Iterator[tuple[Case, Index]]:
    """Each commit with the index of the tree before it."""
    listed = {one.name: _tree(f"{one.name}~1") for one in commits}
    facts = _facts({row for rows in listed.values() for row in rows if grammars.language_of(row[0])}, report)
    for number, commit in enumerate(commits, 1):
        report.say(f"{number} of {len(commits)} trees")
        rows = listed[commit.name]
        files = {path: facts[path, blob] for path, blob in rows if (path, blob) in facts}
        settings = {path: git("cat-file", "blob", blob) for path, blob in rows if api.is_project_file(path)}
        project = resolution.resolve(files, settings)
        yield case(commit, files), Index(project, "main", "bench")


def case(commit: Commit, files: dict[str, FileFacts]) -> Case:
    """What a commit changed, as declarations of the tree before it."""
    changed = {path: lines for path, lines in commit.lines.items() if path in files}
    functions = {
        Target(path, name) for path, lines in changed.items() for name in _functions(files[path], lines)
    }  # fmt: skip
    return Case(commit.name, commit.text, frozenset(changed), frozenset(functions))


def _functions(file: FileFacts, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    for first, last in spans:
        for line in range(first, last + 1):
            around = [one for one in file.symbols if one.line <= line <= one.end_line]
            inner = max(around, key=lambda one: (one.line, -one.end_line), default=None)
            if inner is not None and inner.kind != "class":
                yield inner.qname


def _lines(name: str) -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, list[tuple[int, int]]] = {}
    path = ""
    shown = git("diff", "--unified=0", "--no-renames", "--diff-filter=MD", "--no-color", f"{name}~1", name)
    for line in shown.decode(errors="replace").splitlines():
        if line.startswith("--- a/"):
            path = line.removeprefix("--- a/")
            if grammars.language_of(path):
                found[path] = []
        elif path in found and (hunk := _HUNK.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[path].append((first, first + max(count, 1) - 1))
    return {path: tuple(spans) for path, spans in found.items()}


def _tree(commit: str) -> list[tuple[str, str]]:
    rows = git("ls-tree", "-r", "-z", commit).decode(errors="replace").split("\0")
    split = [(path, *about.split()) for about, _, path in (row.partition("\t") for row in rows if row)]
    return [(path, blob) for path, mode, kind, blob in split if kind == "blob" and mode != "120000"]


def _facts(wanted: set[tuple[str, str]], report: progress.Progress) -> dict[tuple[str, str], FileFacts]:
    """The facts of each (path, blob); those of a blob do not depend on the folder that it is in."""
    ordered, found = sorted(wanted), dict[tuple[str, str], FileFacts]()
    for start in range(0, len(ordered), _BATCH):
        report.say(f"sources {start} of {len(ordered)}")
        part = ordered[start : start + _BATCH]
        contents = _contents([blob for _, blob in part])
        sources = {f"{number}/{path}": contents[blob] for number, (path, blob) in enumerate(part)}
        read = pool.extract_blocking(sources, budget.Budget(files=_BATCH, seconds=1200.0), calls=True)
        for one in read.files:
            number, _, path = one.path.partition("/")
            found[path, part[int(number)][1]] = dataclasses.replace(one, path=path)
    return found


def _contents(blobs: Sequence[str]) -> dict[str, bytes]:
    out, found, at = git("cat-file", "--batch", given="\n".join(blobs).encode()), dict[str, bytes](), 0
    while at < len(out):
        end = out.index(b"\n", at)
        name, _, size = out[at:end].decode().split()
        found[name] = out[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
    return found
