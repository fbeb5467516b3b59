"""Where commits that a run wants to push are looked at: a repository of their own beside the clone, for one push.

It borrows the clone's objects and writes none there, so that nothing of a push is ever read by a run. One push at a
time: a file lock beside it is held from `open` to `close`. What a killed process left goes with the next push, or by
`purge`.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sources.api import problems
from sources.core import port
from sources.providers.git import bundle, clone, command, history, reach

_MEMORY_BYTES = 256 << 20
"""Of the command that reads a pack: a small one may describe objects that fill the memory."""
_LOCAL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Bounds:
    """`bundle` bytes, `objects` of it, and `unpacked` bytes of these; `seconds` of one step."""

    bundle: int = 32 << 20
    objects: int = 20_000
    unpacked: int = 256 << 20
    seconds: float = 60.0


class Quarantine:
    """Beside `copy`. `watch` is asked each second, and what it answers ends a command. Methods block."""

    def __init__(self, copy: clone.Clone, bounds: Bounds, watch: Callable[[], str]) -> None:
        self._copy, self._bounds, self._watch = copy, bounds, watch
        self.path = copy.path.with_name(f"{copy.path.name}.push")
        self._lock: int | None = None

    def open(self) -> None:
        """Make it, empty. Raises `Unreachable` where another push has it."""
        self._lock = _locked(self.path)
        if self._lock is None:
            raise port.Unreachable("another push to this Connection is under way", retry_after=2.0)
        shutil.rmtree(self.path, ignore_errors=True)
        command.local(self.path, "init", "--quiet", "--bare", "--template=", "--initial-branch=none")
        borrowed = self.path / "objects" / "info" / "alternates"
        borrowed.parent.mkdir(exist_ok=True)
        borrowed.write_bytes(os.fsencode((self._copy.path / "objects").resolve()) + b"\n")

    def close(self) -> None:
        """Remove it."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def bring(self, at: command.Remote, sha: str) -> None:
        """Have a commit that a branch of the remote is at. Raises `Rejected`, `Misconfigured`, `Unreachable`."""
        if not self._has(sha):
            words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--stdin")
            command.call(
                at, "--git-dir", str(self.path), *words, "--", at.url, stdin=f"{sha}\n".encode(), watch=self._large
            )

    def includes(self, commit: str, at: str) -> bool:
        """Whether `at`, which is here, is `commit` or grew from it."""
        return self._has(commit) and history.ancestor(self.path, commit, at)

    def admit(self, given: bundle.Bundle, commit: str, old: str) -> None:
        """Take a bundle in, and judge it as the way from `old`, which is here ("": there is no branch yet), to
        `commit`. Raises `problems.Invalid`, `problems.Conflict`, `Failed`."""
        tips = [*self._copy.tips(), *([old] if old else [])]
        if absent := self._lacking(tips, given.needs):
            raise bundle.invalid(
                f"it needs commit {absent[0]}, which no branch of the Connection has",
                "Fetch, and build the commits on a branch that the Connection reads.",
            )
        own, bases = self._unpack(given)
        new = self._fresh(tips, commit)
        # What purged commits had must not come back to the remote: neither named by a folder, nor as half of a delta.
        if odd := self._lacking(tips, [*(one for one in new if one not in own), *bases], given.needs):
            raise bundle.invalid(f"it builds on object {odd[0]}, which no branch of the Connection has")
        self._weigh([one for one in new if one in own])
        if old and not history.ancestor(self.path, old, commit):
            raise problems.Conflict(
                f"{commit} did not grow from {old}: the push would remove commits",
                field="arguments.commit",
                remedy="Merge or rebase onto what the branch has, or push another branch.",
            )

    def push(self, at: command.Remote, branch: str, commit: str, old: str) -> None:
        """Let the remote's branch, which is at `old` ("": there is none), be at `commit`. Raises `problems.Conflict`
        where it was at something else, `Refused` where the remote does not take it, and what `command.call` raises: it
        may have done it all the same."""
        place = f"{clone.HEADS}{branch}"
        words = (
            "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
            f"--force-with-lease={place}:{old}", "--", at.url, f"{commit}:{place}",
        )  # fmt: skip
        try:
            command.call(at, "--git-dir", str(self.path), *words, seconds=self._bounds.seconds, watch=self._watch)
        except (port.Rejected, port.Misconfigured, port.Unreachable) as error:
            _refused(error, branch)
            raise

    def _unpack(self, given: bundle.Bundle) -> tuple[frozenset[str], list[str]]:
        """(the objects that came, those that deltas of the pack build on and that were taken from the clone)."""
        if given.count > self._bounds.objects:
            raise bundle.invalid(
                f"it has {given.count} objects, at most {self._bounds.objects} are taken", "Push a part of it first."
            )
        size = self._bounds.bundle
        most = {
            resource.RLIMIT_DATA: _MEMORY_BYTES,
            resource.RLIMIT_FSIZE: 8 * size,
            resource.RLIMIT_CPU: _LOCAL_SECONDS,
        }
        words = ("index-pack", "--strict", "--fix-thin", "--stdin", f"--max-input-size={size}")
        try:
            said = command.local(
                self.path, *words, stdin=given.pack, seconds=self._bounds.seconds, watch=self._watch, most=most
            )
        except command.Failed as error:
            if self._watch():
                raise
            raise bundle.invalid(f"Git refuses it: {error.message}", "Correct what it says.") from error
        # What stands behind the pack is handed on by the command.
        name = re.fullmatch(rb"pack\t([0-9a-f]{40})\n", said)
        if name is None:
            raise bundle.invalid("something stands behind its pack")
        index = (self.path / "objects" / "pack" / f"pack-{name[1].decode()}.idx").read_bytes()
        rows = (line.split() for line in command.local(self.path, "show-index", stdin=index).splitlines())
        ordered = [sha.decode("ascii") for _, sha in sorted((int(row[0]), row[1]) for row in rows)]
        # --fix-thin writes what it took behind what came.
        return frozenset(ordered[: given.count]), ordered[given.count :]

    def _lacking(self, tips: Sequence[str], ids: Sequence[str], near: Sequence[str] = ()) -> list[str]:
        return reach.lacking(self.path, tips, ids, near=near, seconds=self._bounds.seconds, watch=self._watch)

    def _fresh(self, tips: Sequence[str], commit: str) -> list[str]:
        try:
            if command.local(self.path, "cat-file", "-t", commit).strip() != b"commit":
                raise bundle.invalid(f"{commit} is no commit")
            return reach.fresh(self.path, tips, commit, seconds=self._bounds.seconds, watch=self._watch)
        except command.Failed as error:
            if self._watch():
                raise
            raise bundle.invalid(f"it does not have all of {commit}: {error.message}") from error

    def _weigh(self, objects: Sequence[str]) -> None:
        asked = "".join(f"{one}\n" for one in objects).encode()
        sizes = command.local(self.path, "cat-file", "--batch-check=%(objectsize)", stdin=asked).split()
        total = sum(map(int, sizes))
        if total > self._bounds.unpacked:
            raise bundle.invalid(
                f"its objects have {total} bytes, at most {self._bounds.unpacked} are taken", "Leave large files out."
            )

    def _has(self, sha: str) -> bool:
        asked = f"{sha}^{{commit}}\n".encode()
        return command.local(self.path, "cat-file", "--batch-check=%(objecttype)", stdin=asked).strip() == b"commit"

    def _large(self) -> str:
        size = clone.taken(self.path)
        return (
            f"the branch brings more than {self._bounds.unpacked} bytes"
            if size > self._bounds.unpacked
            else self._watch()
        )


def purge(root: Path) -> list[str]:
    """Remove what killed processes left beside the clones of `root`; its names. Blocks."""
    gone = []
    for path in sorted(root.glob("*.push")):
        lock = _locked(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
            gone.append(path.name)
    return gone


def _locked(path: Path) -> int | None:
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


class Refused(port.Misconfigured):
    """The remote answered that it does not take the push."""


def _refused(error: Exception, branch: str) -> None:
    """Raise what the remote said about the branch; git-push(1) "Output"."""
    output = error.__cause__.output if isinstance(error.__cause__, command.Failed) else b""
    for line in output.decode(errors="replace").splitlines():
        flag, _, rest = line.partition("\t")
        said = rest.partition("\t")[2]
        if flag != "!":
            continue
        if said.startswith("[rejected]"):
            raise moved(branch) from error
        if said.startswith("[remote rejected]"):
            raise Refused(
                f"The server does not take the push: {said.removeprefix('[remote rejected]').strip()[:300]}",
                field="arguments.branch",
                remedy="Its rules for branches, and what the credentials of the Connection may write, say why.",
            ) from error


def moved(branch: str, at: str = "") -> problems.Conflict:
    """The branch of the remote is not at what the request expects."""
    where = f"is at {at}" if at else "does not exist, or moved"
    return problems.Conflict(
        f"branch {branch!r} {where}",
        field="arguments.expected",
        remedy="Fetch, and ask for the push with a new key and what the branch is at; leave it out for a new branch.",
    )
