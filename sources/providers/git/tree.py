"""The source files of a commit, out of a clone, as the knowledge base takes them: their list, then their contents.

Links and submodules are no files. What is too large, or too many, is left out and named.
Source: git-ls-tree(1) "--format", git-cat-file(1) "--batch", git-log(1) "--name-only".
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from codegraph import api
from sources.providers.git import command, history
from text import source_text

_MODES = ("100644", "100755")
_PATH_CHARS = 700
_PATHS_BYTES, _SKIPPED_BYTES = 3 << 20, 1 << 20
"""Of all paths as JSON: a request of the knowledge base has a bound."""
_COMMITS = 20_000
"""Of the history that is read for the times of files; older ones have none."""
_COMMIT = b"//"
"""Before the time of a commit: no path of Git begins so."""


def files(clone: Path, sha: str) -> tuple[list[api.SourceFile], list[api.SkippedFile]]:
    """The source files of a commit in the order of their paths, and those that are left out."""
    times = dict(modified(clone, sha))
    found: list[api.SourceFile] = []
    skipped: list[api.SkippedFile] = []
    total = 0
    for line in command.local(clone, "ls-tree", "-r", "-l", "-z", "--full-tree", sha).split(b"\0"):
        head, tab, raw = line.partition(b"\t")
        fields = head.decode("ascii").split()
        if not tab or fields[0] not in _MODES or not fields[3].isdigit():
            continue
        path = history.shown(raw)
        if not api.is_source(path):
            continue
        if path.encode() != raw or len(path) > _PATH_CHARS:
            skipped.append(api.SkippedFile(path=path[:_PATH_CHARS], reason="odd-name"))
        elif int(fields[3]) > api.SOURCE_BYTES:
            skipped.append(api.SkippedFile(path=path, reason="too-large", detail=f"{fields[3]} bytes"))
        elif len(found) >= api.MOST_SOURCES or total + _size(path) > _PATHS_BYTES:
            skipped.append(api.SkippedFile(path=path, reason="budget-files"))
        else:
            total += _size(path)
            found.append(api.SourceFile(path=path, blob=fields[2], size=int(fields[3]), modified=times.get(raw)))
    return found, _some(skipped)


def _some(skipped: Sequence[api.SkippedFile]) -> list[api.SkippedFile]:
    """The first of them, as many as a request names."""
    sizes = itertools.accumulate(_size(one.path) for one in skipped)
    return [one for one, size in zip(skipped, sizes, strict=True) if size <= _SKIPPED_BYTES][: api.MOST_SOURCES]


def _size(path: str) -> int:
    return len(json.dumps(path, ensure_ascii=False).encode())


def contents(clone: Path, files_: Sequence[api.SourceFile]) -> Mapping[str, str]:
    """The texts of files by path, whatever their encoding; what is no text is refused by who reads it. A file whose
    content the clone lacks (a partial clone of the server's) is not among them."""
    wanted = "".join(f"{one.blob}\n" for one in files_)
    raw = command.local(clone, "cat-file", "--batch", stdin=wanted.encode())
    found, at = {}, 0
    for one in files_:
        end = raw.index(b"\n", at)
        head = raw[at:end].split()
        at = end + 1
        if len(head) < 3:
            continue
        size = int(head[2])
        if head[1] == b"blob":
            found[one.path] = source_text.decode(raw[at : at + size])
        at += size + 1
    return found


def modified(clone: Path, sha: str) -> Iterator[tuple[bytes, datetime]]:
    """The path of each file with the time of the last commit that changed it, as far as the history is read."""
    asked = ("log", "-z", "--name-only", "--format=//%ct", f"--max-count={_COMMITS}", "--no-renames", sha, "--")
    seen: set[bytes] = set()
    moment, first = datetime.fromtimestamp(0, UTC), False
    for part in command.local(clone, *asked).split(b"\0"):
        if part.startswith(_COMMIT):
            moment, first = datetime.fromtimestamp(max(0, int(part.removeprefix(_COMMIT) or 0)), UTC), True
            continue
        path, first = part.removeprefix(b"\n") if first else part, False
        if path and path not in seen:
            seen.add(path)
            yield path, moment
