"""Bare clones: one directory a Connection, made whole or not at all, and only ever a copy of what the remote has.

A clone is made beside its place and moved there, so that a kill leaves nothing half made; a lost one is made again.
A file lock beside it keeps two threads, and two processes on one volume, from writing to it at once; readers need none.
Objects that no branch has any more are kept: what left a branch is computed from them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sources.core import port
from sources.providers.git import command

HEADS = "refs/heads/"
MOST_PACKS = 50
"""A fetch makes a pack; so many are put into one."""
_ASK_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Listed:
    """The branches that the remote has, {name: SHA}, and which of them is its default ("": none). Names are as their
    bytes say, with surrogates for what is no UTF-8 (PEP 383)."""

    branches: Mapping[str, str]
    default: str = ""


def listed(at: command.Remote) -> Listed:
    """Ask the remote. The protocol ends a list with a mark, so a list that broke off is an error.

    Raises `Rejected`, `Misconfigured`, `Unreachable`.
    """
    raw = command.call(at, "ls-remote", "--symref", "--quiet", "--", at.url, seconds=_ASK_SECONDS)
    branches, default, head = {}, "", ""
    for line in os.fsdecode(raw).split("\n"):
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") and name == "HEAD":
            default = value.removeprefix(f"ref: {HEADS}")
        elif name == "HEAD":
            head = value
        elif name.startswith(HEADS):
            branches[name.removeprefix(HEADS)] = value
    if default not in branches:
        # A protocol older than symrefs: the branch that HEAD is at.
        default = next((name for name, sha in sorted(branches.items()) if sha == head), "")
    return Listed(branches, default)


class Clone:
    """One Connection's, at `path`; at most `most` bytes. `crowded` says why it may not grow now, "": it may. Methods
    block."""

    def __init__(self, path: Path, most: int, crowded: Callable[[], str] = lambda: "") -> None:
        self.path, self._most, self._crowded = path, most, crowded

    def there(self) -> bool:
        """Whether it is made."""
        return (self.path / "HEAD").is_file()

    def empty(self) -> bool:
        """Whether it has no branch, or is not made."""
        return not self.there() or not self._refs(self.path)

    def tips(self) -> list[str]:
        """The commits that its branches are at, each once."""
        return sorted(set(self._refs(self.path).values())) if self.there() else []

    def current(self, wanted: Mapping[str, str]) -> bool:
        """Whether it is made and has exactly these branches."""
        return self.there() and self._refs(self.path) == dict(wanted)

    def has(self, shas: Sequence[str]) -> bool:
        """Whether it is made and has these commits."""
        if not self.there():
            return False
        asked = "".join(f"{sha}^{{commit}}\n" for sha in shas).encode()
        answered = command.local(self.path, "cat-file", "--batch-check=%(objecttype)", stdin=asked)
        return answered.split() == [b"commit"] * len(shas)

    def bring(self, at: command.Remote, wanted: Mapping[str, str], default: str = "") -> None:
        """Make it, or bring it up to date: afterwards its branches are exactly `wanted`, {name: SHA}, and HEAD is at
        `default`.

        Raises `Rejected`, `Misconfigured`, `Unreachable`, `DiskFull`.
        """
        with port.disk(), self._locked():
            if self.there():
                self._unlock()
                self._fetch(self.path, at, wanted, default)
                return
            for left in self.path.parent.glob(f"{self.path.name}.*.part"):
                shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
            part = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex[:8]}.part")
            try:
                command.local(part, "init", "--quiet", "--bare", "--template=", "--initial-branch=none")
                self._fetch(part, at, wanted, default)
                os.rename(part, self.path)
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def find(self, at: command.Remote, sha: str) -> bool:
        """Whether a commit that no branch has any more is in the clone, or can be had from the remote, which need not
        give it. Raises `DiskFull`."""
        if self.has([sha]):
            return True
        try:
            with port.disk(), self._locked():
                self._transfer(self.path, at, f"{sha}\n".encode())
        except (port.Misconfigured, port.Unreachable):
            return False
        return self.has([sha])

    def _fetch(self, path: Path, at: command.Remote, wanted: Mapping[str, str], default: str) -> None:
        have = self._refs(path)
        # By object id: a branch that moves between the list and this is taken as it was listed.
        missing = sorted(set(wanted.values()) - set(have.values()))
        if missing:
            try:
                self._transfer(path, at, "".join(f"{sha}\n" for sha in missing).encode())
            except port.Misconfigured:
                raise
            except port.Unreachable:
                # A server with protocol v0 gives only what its branches are at now.
                names = "".join(f"+{HEADS}{name}:{HEADS}{name}\n" for name in wanted)
                self._transfer(path, at, os.fsencode(names))
        changes = [f"update {HEADS}{name}\0{sha}\0\0" for name, sha in wanted.items() if have.get(name) != sha]
        # A branch `a` makes room for a branch `a/b` first.
        gone = [f"delete {HEADS}{name}\0\0" for name in have if name not in wanted]
        for some in (gone, changes):
            if some:
                command.local(path, "update-ref", "--no-deref", "--stdin", "-z", stdin=os.fsencode("".join(some)))
        if default in wanted:
            command.local(path, "symbolic-ref", "HEAD", f"{HEADS}{default}")
        if len(list((path / "objects" / "pack").glob("*.pack"))) > MOST_PACKS:
            command.local(path, "repack", "-a", "-d", "-k", "-q", seconds=at.seconds)

    def _transfer(self, path: Path, at: command.Remote, wanted: bytes) -> None:
        def watch() -> str:
            size = taken(path)
            return f"the clone is larger than {self._most >> 20} MiB" if size > self._most else self._crowded()

        # Nothing of the remote is remembered in the clone: no name, no address, no FETCH_HEAD. Where its history begins
        # is, if the remote is shallow itself: commits without their parents would be an error of every command.
        arguments = (
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--force", "--update-shallow",
            "--stdin",
        )  # fmt: skip
        try:
            command.call(at, "--git-dir", str(path), *arguments, "--", at.url, stdin=wanted, watch=watch)
        except port.Unreachable:
            if not watch():
                raise
        if said := watch():
            raise port.Misconfigured(
                f"The repository is not taken: {said}.",
                field="spec.url",
                remedy="Raise sources.settings.gitCloneBytes or gitWorkspaceBytes of the chart, and the size of the"
                " workspace volume.",
            )

    def _refs(self, path: Path) -> dict[str, str]:
        raw = command.local(path, "for-each-ref", "--format=%(objectname) %(refname)", HEADS)
        pairs = (line.split(" ", 1) for line in os.fsdecode(raw).splitlines())
        return {name.removeprefix(HEADS): sha for sha, name in pairs}

    def _unlock(self) -> None:
        """Remove the locks of commands that were killed; under our own lock none of them runs."""
        for name in ("HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock"):
            (self.path / name).unlink(missing_ok=True)
        for lock in (self.path / "refs").rglob("*.lock"):
            lock.unlink(missing_ok=True)
        for left in (self.path / "objects" / "pack").glob("tmp_*"):
            left.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path.with_name(f"{self.path.name}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Workspace:
    """The directory of all clones, each of at most `most` bytes, and of `total` together: a volume that is full ends
    the process, and with it the clones of all."""

    def __init__(self, root: Path, most: int, total: int) -> None:
        self._root, self._most, self._total = root, most, total
        self._namespaces: dict[str, str] = {}

    def clone(self, uid: str, namespace: str = "") -> Clone:
        """That of a Connection; `namespace` is the Connection's, where it is known."""
        if namespace:
            self._namespaces[uid] = namespace
        return Clone(self._root / f"{uid}.git", self._most, partial(self._crowded, uid))

    def _crowded(self, uid: str) -> str:
        """A namespace gets twice what is free, so that large repositories of one leave room for those of others."""
        held: dict[str, int] = {}
        for path in self._root.glob("*.git*"):
            of = path.name.partition(".git")[0]
            owner = self._namespaces.get(of, of)
            held[owner] = held.get(owner, 0) + taken(path)
        free = self._total - sum(held.values())
        own = held.get(self._namespaces.get(uid, uid), 0)
        if own < 2 * free:
            return ""
        return f"clones have {self._total >> 20} MiB, and those of its namespace {own >> 20} MiB of them already"

    def keep(self, uids: frozenset[str]) -> list[str]:
        """Delete what is of none of these Connections; the names of what went."""
        gone = [path for path in sorted(self._root.glob("*.git*")) if path.name.partition(".git")[0] not in uids]
        for path in gone:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return [path.name for path in gone]


def taken(path: Path) -> int:
    """Bytes of a directory; what goes away meanwhile counts nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total
