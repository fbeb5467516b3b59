"""The source files of a commit, out of a clone, as the knowledge base takes them: their list, then their contents.

Links and submodules are no files. What is too large, or too many, is left out and named.
Source: git-ls-tree(1) "--format", git-cat-file(1) "--batch", git-log(1) "--name-only".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from controllers.sources.git import command, history
from kb import api

_MODES = ("100644", "100755")
_PATH_CHARS = 700
_COMMITS = 20_000
"""Of the history that is read for the times of files; older ones have none."""
_COMMIT = b"\x01"


def files(clone: Path, sha: str) -> tuple[list[api.SourceFile], list[api.SkippedFile]]:
    """The source files of a commit in the order of their paths, and those that are left out."""
    times = dict(modified(clone, sha))
    found: list[api.SourceFile] = []
    skipped: list[api.SkippedFile] = []
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
        elif len(found) >= api.MOST_SOURCES:
            skipped.append(api.SkippedFile(path=path, reason="budget-files"))
        else:
            found.append(api.SourceFile(path=path, blob=fields[2], size=int(fields[3]), modified=times.get(raw)))
    return found, skipped[: api.MOST_SOURCES]


def contents(clone: Path, files_: Sequence[api.SourceFile]) -> Mapping[str, str]:
    """The texts of files by path. Bytes that are no UTF-8 are replaced, and what is no text is refused by who reads."""
    wanted = "".join(f"{one.blob}\n" for one in files_)
    raw = command.local(clone, "cat-file", "--batch", stdin=wanted.encode())
    found, at = {}, 0
    for one in files_:
        end = raw.index(b"\n", at)
        _, kind, size = raw[at:end].split()
        at = end + 1
        if kind == b"blob":
            found[one.path] = raw[at : at + int(size)].decode(errors="replace")
        at += int(size) + 1
    return found


def modified(clone: Path, sha: str) -> Iterator[tuple[bytes, datetime]]:
    """The path of each file with the time of the last commit that changed it, as far as the history is read."""
    asked = ("log", "-z", "--name-only", "--format=%x01%ct", f"--max-count={_COMMITS}", "--no-renames", sha, "--")
    seen: set[bytes] = set()
    for part in command.local(clone, *asked).split(_COMMIT)[1:]:
        seconds, _, rest = part.partition(b"\0")
        moment = datetime.fromtimestamp(max(0, int(seconds.strip() or 0)), UTC)
        for path in rest.split(b"\0"):
            path = path.lstrip(b"\n")
            if path and path not in seen:
                seen.add(path)
                yield path, moment
