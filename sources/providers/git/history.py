"""Commits out of a clone: which ones, in which order, and what each of them says and changes, within bounds.

Everything that the repository wrote is data: ends of answers are lengths that Git gives, or a line with a nonce that no
repository knows; arguments are object ids. A merge is compared with its first parent.

Source: git-diff-tree(1) "--stdin" (a line that is no object id is repeated on the output), git-cat-file(1) "--batch".
"""

from __future__ import annotations

import re
import secrets
import subprocess
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

from codegraph import api as code_api
from kb import api
from sources.providers.git import command

CONTENT_BYTES, CONTENTS_BYTES = 512_000, 2_000_000
"""Of a source file, and of all those of a commit before it and after it together: more are not sent."""
DIFF_BYTES = 32_768
"""Of the text of a commit's diff; what is longer is cut, and the commit says so."""
MOST_FILES = 1000
_PATH_CHARS = 1024
_MESSAGE_BYTES = 1 << 16
_MESSAGE_CHARS = 16_384
_RAW_BYTES = 4 << 20
_CHUNK = 1 << 16
_SECONDS = 120.0
"""For one commit; one that takes longer is told without its files."""
_LFS = b"\n+version https://git-lfs.github.com/spec/v1\n"
_FILES = (b"100644", b"100755")
"""Modes; links and submodules are others."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_STATUS: dict[str, Literal["M", "A", "D", "R"]] = {"M": "M", "T": "M", "A": "A", "C": "A", "D": "D", "R": "R"}


def between(
    clone: Path, new: str, old: str | None, since: datetime | None = None, others: Sequence[str] = ()
) -> list[str]:
    """The commits of `new` that neither `old` nor `others` have, parents before children; always in the same order."""
    arguments = ["rev-list", "--reverse", "--topo-order"]
    if since is not None:
        arguments.append(f"--since={int(since.timestamp())}")
    arguments += [new, *([f"^{old}"] if old else []), *(f"^{one}" for one in others), "--"]
    return command.local(clone, *arguments).decode("ascii").split()


def ancestor(clone: Path, old: str, new: str) -> bool:
    """Whether a branch that was at `old` only grew to `new`."""
    return not command.local(clone, "rev-list", "--max-count=1", old, f"^{new}", "--")


def common(clone: Path, one: str, other: str) -> str | None:
    """A commit that both have, with all before it; None: there is none."""
    try:
        return command.local(clone, "merge-base", one, other).decode("ascii").strip()
    except command.Failed:
        return None


class Reader:
    """Reads commits of one clone one by one; two processes of Git live as long as this. Not for two threads."""

    def __init__(self, clone: Path) -> None:
        self._clone = clone
        self._end = f"--{secrets.token_hex(16)}\n".encode()
        self._objects: subprocess.Popen[bytes] | None = None
        self._diffs: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in (self._objects, self._diffs):
            if process is not None:
                _close(process)

    def read(self, sha: str) -> api.Commit:
        """One commit. Raises `Failed` where the clone lacks it."""
        if self._objects is None:
            self._objects = _begin(self._clone, "cat-file", "--batch")
        head, body = _object(self._objects, sha)
        raw, text, whole = self._changes(sha)
        files, omitted = _files(raw)
        diff, cut = _diff(text)
        author = head.get("author", [b""])[0]
        encoding = head.get("encoding", [b"utf-8"])[0].decode("ascii", "replace")
        name, email, date = _who(author, encoding)
        return api.Commit(
            hash=sha,
            message=_clean(_decode(body, encoding))[:_MESSAGE_CHARS],
            author=api.Author(name=name, email=email),
            date=date,
            parents=list(dict.fromkeys(one.decode("ascii") for one in head.get("parent", [])))[:64],
            files=files,
            files_truncated=omitted or not whole,
            diff=diff,
            diff_truncated=cut or not whole,
        )

    def contents(self, one: api.Commit) -> dict[str, str]:
        """The texts of its source files before it and after it by their ids, the first ones where they are too many.

        None of a merge: what it brings was changed by other commits.
        """
        found: dict[str, str] = {}
        left = CONTENTS_BYTES
        for file in one.files if len(one.parents) < 2 else ():
            wanted = [blob for blob in (file.old_blob, file.blob) if blob is not None and blob not in found]
            if file.blob == file.old_blob or not code_api.is_code(file.path):
                continue
            for blob in wanted:
                raw = self._blob(blob, min(left, CONTENT_BYTES))
                if raw is not None and b"\0" not in raw:
                    left -= len(raw)
                    found[blob] = raw.decode(errors="replace")
        return found

    def _blob(self, sha: str, most: int) -> bytes | None:
        """None where it is larger than `most`, or is not there."""
        assert self._objects is not None
        assert self._objects.stdin is not None
        assert self._objects.stdout is not None
        self._objects.stdin.write(f"{sha}\n".encode())
        self._objects.stdin.flush()
        answer = self._objects.stdout.readline().split()
        if len(answer) != 3:
            return None
        size = int(answer[2])
        raw = self._objects.stdout.read(size) if size <= most else None
        _skip(self._objects.stdout, (0 if raw is not None else size) + 1)
        return raw if answer[1] == b"blob" else None

    def _changes(self, sha: str) -> tuple[bytes, bytes, bool]:
        """(raw entries, the beginning of the patch, whether Git came to its end)."""
        if self._diffs is None:
            self._diffs = _begin(
                self._clone, "diff-tree", "--stdin", "-r", "--root", "-M", "--raw", "-z", "-p", "--no-commit-id",
                "--diff-merges=first-parent", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short",
            )  # fmt: skip
        process = self._diffs
        assert process.stdin is not None
        assert process.stdout is not None
        overdue = threading.Timer(_SECONDS, command.kill, (process,))
        overdue.start()
        try:
            process.stdin.write(f"{sha}\n".encode() + self._end)
            process.stdin.flush()
            found, whole = _until(process.stdout, self._end)
        except BrokenPipeError:
            found, whole = b"", False
        finally:
            overdue.cancel()
        if not whole:
            _close(process)
            self._diffs = None
        at = 0
        while found[at : at + 1] == b":":
            head = found.find(b"\0", at)
            paths = 2 if found[head - 4 : head].lstrip(b"0123456789abcdef ")[:1] in (b"R", b"C") else 1
            at = head
            for _ in range(paths):
                at = found.find(b"\0", at + 1)
                if at < 0:
                    return found, b"", whole
            at += 1
        return found[:at], found[at:].lstrip(b"\0"), whole


def _begin(clone: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603
        ["git", "--git-dir", str(clone), *arguments],  # noqa: S607  # the git of the image
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=command.environment(),
        start_new_session=True,
    )


def _close(process: subprocess.Popen[bytes]) -> None:
    command.kill(process)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def _object(process: subprocess.Popen[bytes], sha: str) -> tuple[dict[str, list[bytes]], bytes]:
    """(headers, the message's beginning) of a commit."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{sha}\n".encode())
    process.stdin.flush()
    answer = process.stdout.readline().split()
    if len(answer) != 3 or answer[1] != b"commit":
        raise command.Failed(f"The clone has no commit {sha}.")
    size = int(answer[2])
    raw = process.stdout.read(min(size, _MESSAGE_BYTES))
    _skip(process.stdout, size - len(raw) + 1)
    head, _, body = raw.partition(b"\n\n")
    headers: dict[str, list[bytes]] = {}
    for line in head.split(b"\n"):
        key, space, value = line.partition(b" ")
        if space and key:  # a line that begins with a space goes on with a signature
            headers.setdefault(key.decode("ascii", "replace"), []).append(value)
    return headers, body


def _skip(stream: IO[bytes], left: int) -> None:
    while left and (some := stream.read(min(left, _CHUNK))):
        left -= len(some)


def _until(stream: IO[bytes], end: bytes) -> tuple[bytes, bool]:
    """What comes before the line `end`, at most the bytes that are read of a commit, and whether the line came."""
    kept = bytearray()
    tail = b""
    while True:
        some = stream.read1(_CHUNK)  # type: ignore[attr-defined]  # a BufferedReader
        if not some:
            return bytes(kept), False
        if len(kept) < _RAW_BYTES:
            kept += some
            # The line is the last of the answer: nothing is asked before it was read.
            if kept.endswith(end):
                return bytes(kept[: -len(end)]), True
        tail = (tail + some)[-len(end) :]
        if tail == end:
            return bytes(kept), True


def _files(raw: bytes) -> tuple[list[api.CommitFile], bool]:
    """The files of raw entries, and whether some are left out."""
    parts = raw.split(b"\0")
    files: list[api.CommitFile] = []
    seen: set[str] = set()
    omitted = False
    at = 0
    while at + 1 < len(parts) and parts[at].startswith(b":"):
        fields = parts[at].removeprefix(b":").split(b" ")
        letter, score = fields[-1][:1].decode("ascii", "replace"), fields[-1][1:]
        twice = letter in ("R", "C")
        old, new = parts[at + 1], parts[at + 2] if twice and at + 2 < len(parts) else parts[at + 1]
        at += 3 if twice else 2
        status = _STATUS.get(letter)
        path, before = shown(new), shown(old)
        long = max(len(path), len(before)) > _PATH_CHARS
        if status is None or not path or long or len(files) >= MOST_FILES:
            omitted = True
        elif path not in seen:
            seen.add(path)
            renamed = status == "R"
            files.append(
                api.CommitFile(
                    path=path,
                    status=status,
                    old_path=before if renamed else None,
                    similarity=int(score) if renamed and score.isdigit() else None,
                    # A copy is a new file; the one that it was made of is still there.
                    old_blob=_content(fields, 0) if status != "A" else None,
                    blob=_content(fields, 1),
                )
            )
    return files, omitted


def _content(fields: Sequence[bytes], side: int) -> str | None:
    """The id of a file's content before (0) or after (1) the commit; None for what is no file."""
    return fields[2 + side].decode("ascii") if len(fields) > 4 and fields[side] in _FILES else None


def _diff(text: bytes) -> tuple[str, bool]:
    """The text of a diff, cut at a line, with notes where it is cut and where a file is a pointer."""
    cut = len(text) > DIFF_BYTES
    if cut:
        text = text[:DIFF_BYTES].rpartition(b"\n")[0] + b"\n"
    notes = []
    if _LFS in text:
        notes.append("(a file is a pointer of Git LFS: its content is not in the repository)")
    if cut:
        notes.append(f"(the diff is longer than {DIFF_BYTES >> 10} KiB and cut here)")
    plain = _clean(text.decode(errors="replace"))
    return plain + "\n".join(notes), cut


def shown(path: bytes) -> str:
    """A path as text: UTF-8 as it is, all other bytes and control characters escaped (\\xff, \\n)."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def _who(line: bytes, encoding: str) -> tuple[str, str, datetime]:
    """Of `Name <email> seconds zone`."""
    found = re.fullmatch(rb"(.*?)<([^<>]*)>[^0-9-]*(-?[0-9]+)?\s*([+-][0-9]{4})?.*", line, re.DOTALL)
    if found is None:
        return _clean(_decode(line, encoding)).strip()[:255] or "unknown", "", datetime(1970, 1, 1, tzinfo=UTC)
    name, email, seconds, zone = found.groups()
    east = 0
    if zone is not None:
        east = (int(zone[1:3]) * 60 + int(zone[3:])) * (-1 if zone[:1] == b"-" else 1)
    if not -1439 <= east <= 1439:
        east = 0
    try:
        date = datetime.fromtimestamp(int(seconds or 0), timezone(timedelta(minutes=east)))
    except (OverflowError, ValueError, OSError):
        date = datetime(1970, 1, 1, tzinfo=UTC)
    said = _clean(_decode(name, encoding)).strip()[:255]
    return said or "unknown", _clean(_decode(email, encoding)).strip()[:320], date


def _decode(raw: bytes, encoding: str) -> str:
    """As the commit says; bytes that are not as it says are taken for Latin-1, which the oldest ones are."""
    for one in (encoding, "utf-8"):
        try:
            return raw.decode(one)
        except (LookupError, ValueError):  # some codecs raise more than UnicodeDecodeError
            continue
    return raw.decode("latin-1")


def _clean(text: str) -> str:
    """Without control characters other than tabs and line ends."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def size(one: api.Commit) -> int:
    """Characters of its texts."""
    return len(one.diff) + len(one.message) + sum(len(file.path) for file in one.files)
