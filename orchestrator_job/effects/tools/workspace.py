"""The tools of a workspace: files of a clone, read and changed, and its commits pushed.

A path never leaves the clone: it is relative, has no `..` and nothing of `.git`, and no part of it is a symbolic link.
What files contain is data of the repository; nothing of it is run here (`command` runs commands elsewhere).
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from crds import permits
from orchestrator_job import outcome
from orchestrator_job.effects.tools import bounds, checkout, connections, port
from orchestrator_job.effects.tools.connections import Line
from sources import client as sources_client

MOST_READ = 4 << 20
"""Bytes of a file that is read or changed."""
_MOST_FILES, _MOST_LINES, _MOST_LINE, _MOST_HITS = 1000, 2000, 1000, 200
_SHOWN_DIFF = 100_000
_Path = Annotated[str, Field(min_length=1, max_length=1000)]
_DOT_GIT = re.compile(r"\.git|git~\d+", re.IGNORECASE)
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


class _Of(port.Arguments):
    """`connection` is needed where several repositories are open."""

    connection: connections.Name = ""


class Open(_Of):
    """`connection` is a Git Connection, `branch` by default the default one."""

    branch: Annotated[str, Field(max_length=200, pattern=r"^([A-Za-z0-9_][^\s\x00-\x1f:?*\[\\~^]*)?$")] = ""


class ListFiles(_Of):
    """All files below `folder`, by default all there are."""

    folder: Annotated[str, Field(max_length=1000)] = ""


class ReadFile(_Of):
    """Lines `start` (from 1) and on."""

    path: _Path
    start: Annotated[int, Field(ge=1)] = 1
    lines: Annotated[int, Field(ge=1, le=_MOST_LINES)] = 400


class SearchFiles(_Of):
    """`text` as it is, or as a POSIX extended regular expression; below `folder`."""

    text: Annotated[str, Field(min_length=1, max_length=500), Line]
    regex: bool = False
    ignore_case: bool = False
    folder: Annotated[str, Field(max_length=1000)] = ""
    limit: Annotated[int, Field(ge=1, le=_MOST_HITS)] = 50


class WriteFile(_Of):
    """The whole content of a file, new or not."""

    path: _Path
    content: Annotated[str, Field(max_length=1 << 20)]


class EditFile(_Of):
    """`old` stands exactly once in the file and becomes `new`."""

    path: _Path
    old: Annotated[str, Field(min_length=1, max_length=200_000)]
    new: Annotated[str, Field(max_length=200_000)]


class ShowChanges(_Of):
    """Since the repository was opened, commits included; `stat`: files and numbers of lines alone."""

    stat: bool = False


class Commit(_Of):
    """All changes, in one commit."""

    message: Annotated[str, Field(min_length=1, max_length=5000, pattern=r"^[^\x00]*\S[^\x00]*$")]


class Push(_Of):
    """`commit` is what commit_changes answered. `expected` is the commit that the branch is at now; left out, there is
    no such branch yet."""

    branch: Annotated[
        str, Field(max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*$")
    ]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    expected: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None


class Checkouts:
    """The workspaces of a run, by Connection. `make` gives one; `usual` is the Connection of a call that names none and
    has no other to mean."""

    def __init__(self, make: Callable[[str], checkout.Checkout], usual: str) -> None:
        self._make, self._usual = make, usual
        self._open: dict[str, checkout.Checkout] = {}

    async def load(self, connections: list[str]) -> None:
        """Read what is kept of workspaces that the task has."""
        for one in connections:
            self._open[one] = self._make(one)
            await self._open[one].load()

    def opened(self, connection: str) -> checkout.Checkout:
        """One to open. Raises `checkout.Unworkable` where none is named."""
        name = connection or self._usual
        if not name:
            raise checkout.Unworkable("No Connection is named.", remedy="Name a Git Connection.")
        return self._open.setdefault(name, self._make(name))

    def of(self, connection: str) -> checkout.Checkout:
        """The one that a call means. Raises `checkout.Unworkable`."""
        if connection or len(self._open) != 1:
            return self.opened(connection)
        return next(iter(self._open.values()))


def inside(tree: Path, path: str) -> Path:
    """The file at `path` of the clone. Raises `checkout.Unworkable` for a path that leads out of it, or into `.git`.

    Names that file systems take for `.git` count as it: other cases, letters that are not seen, dots and spaces at the
    end (git-config(1), core.protectHFS and core.protectNTFS).
    """
    parts = path.split("/")
    for one in parts:
        plain = _UNSEEN.sub("", one).rstrip(". ").partition(":")[0]
        if one in ("", ".", "..") or "\\" in one or any(ord(letter) < 32 for letter in one):
            raise checkout.Unworkable(f"{path!r} is no path in the repository, as in src/main.py.")
        if _DOT_GIT.fullmatch(plain):
            raise checkout.Unworkable(f"{path!r} belongs to Git and is not opened.")
    at = tree
    for one in parts[:-1]:
        at /= one
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            raise checkout.Unworkable(f"{at.relative_to(tree)} is no folder.")
    return at / parts[-1]


def _folder(tree: Path, path: str) -> str:
    return str(inside(tree, path.strip("/")).relative_to(tree)) if path.strip("/") else ""


def load(file: Path, path: str) -> str:
    """Raises `checkout.Unworkable` for what is no text of a moderate size."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise checkout.Unworkable(f"There is no file {path!r}: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise checkout.Unworkable(f"{path!r} is no file.")
        if found.st_size > MOST_READ:
            raise checkout.Unworkable(f"{path!r} has {found.st_size} bytes, at most {MOST_READ} are read.")
        raw = opened.read()
    if b"\0" in raw:
        raise checkout.Unworkable(f"{path!r} is binary ({len(raw)} bytes).")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise checkout.Unworkable(f"{path!r} is no UTF-8 text.") from error


def _write(file: Path, path: str, content: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(file, flags, 0o644), "w", encoding="utf-8", newline="") as opened:
            opened.write(content)
    except (OSError, UnicodeEncodeError) as error:
        raise checkout.Unworkable(f"{path!r} cannot be written: {error}.") from error


class _InWorkspace:
    def __init__(self, checkouts: Checkouts) -> None:
        self._checkouts = checkouts

    async def read(self, given: Any, place: port.Place) -> port.Result:
        """Raises `sources_client.Unavailable` while the clone cannot be made."""
        try:
            return await self.done(given, place)
        except (checkout.Unworkable, sources_client.Rejected) as error:
            outcome.recheck(error)
            return bounds.failed(error)

    async def done(self, given: Any, place: port.Place) -> port.Result:
        """The answer. Raises `checkout.Unworkable`."""
        raise NotImplementedError


class OpenRepository(_InWorkspace):
    """Clones it, or goes on with the clone that the task has."""

    name = "open_repository"
    description = "Clone a branch of a repository to read and change its files. Changes are kept until they are pushed."
    arguments = Open

    async def done(self, given: Open, place: port.Place) -> port.Result:
        """What was opened, with its first folders."""
        at = self._checkouts.opened(given.connection)
        held = await at.open(given.branch, place.key)
        paths = await at.paths("")
        tops = sorted({one.split("/")[0] + ("/" if "/" in one else "") for one in paths})
        text = (
            f"Open: {held.connection}, branch {held.branch} at {held.base}, {len(paths)} files, "
            f"{len(held.commits)} commits of this task.\n" + "\n".join(tops[:200])
        )
        return port.Result(text, {"connection": held.connection, "branch": held.branch, "base": held.base})


class Files(_InWorkspace):
    """Paths."""

    name = "list_files"
    description = "List the files of the open repository, below a folder."
    arguments = ListFiles

    async def done(self, given: ListFiles, place: port.Place) -> port.Result:
        """One path in a line."""
        at = self._checkouts.of(given.connection)
        await at.reading()
        paths = await at.paths(_folder(at.tree, given.folder))
        more = [f"[{len(paths) - _MOST_FILES} more. List a folder.]"] if len(paths) > _MOST_FILES else []
        return port.Result(bounds.cut("\n".join([*paths[:_MOST_FILES], *more]) or "No files."), {"files": len(paths)})


class Read(_InWorkspace):
    """Lines of a file."""

    name = "read_file"
    description = "Read lines of a file of the open repository."
    arguments = ReadFile

    async def done(self, given: ReadFile, place: port.Place) -> port.Result:
        """With their numbers."""
        at = self._checkouts.of(given.connection)
        await at.reading()
        text = await asyncio.to_thread(load, inside(at.tree, given.path), given.path)
        lines = text.split("\n")
        some = lines[given.start - 1 : given.start - 1 + given.lines]
        shown, used = [], 0
        for number, line in enumerate(some, given.start):
            cut = line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]} [{len(line) - _MOST_LINE} more characters]"
            used += len(cut) + 8
            if used > bounds.MOST_CHARS:
                break
            shown.append(f"{number}\t{cut}")
        last = given.start + len(shown) - 1
        if last < len(lines):
            shown.append(f"[{len(lines)} lines. Go on with start={last + 1}.]")
        return port.Result("\n".join(shown), {"path": given.path, "lines": len(lines)}, sources=(given.path,))


class Search(_InWorkspace):
    """Lines that have a text."""

    name = "search_files"
    description = "Search the files of the open repository for a text or a regular expression."
    arguments = SearchFiles

    async def done(self, given: SearchFiles, place: port.Place) -> port.Result:
        """PATH:LINE:TEXT."""
        at = self._checkouts.of(given.connection)
        await at.reading()
        words = ["-n", "-I", "--full-name", "--max-depth=-1", "-E" if given.regex else "-F"]
        words += ["-i"] if given.ignore_case else []
        found = await at.grep([*words, "-e", given.text], _folder(at.tree, given.folder))
        lines = [line[: _MOST_LINE // 2] for line in found.splitlines()]
        more = [f"[{len(lines) - given.limit} more lines.]"] if len(lines) > given.limit else []
        text = "\n".join([*lines[: given.limit], *more]) or "Nothing was found."
        return port.Result(bounds.cut(text), {"lines": len(lines)})


class Write(_InWorkspace):
    """A whole file."""

    name = "write_file"
    description = "Write a file of the open repository as a whole."
    arguments = WriteFile

    async def done(self, given: WriteFile, place: port.Place) -> port.Result:
        """Its path."""

        async def make(at: checkout.Checkout) -> port.Result:
            await asyncio.to_thread(_write, inside(at.tree, given.path), given.path, given.content)
            return port.Result(f"Written: {given.path}.", changed_files=(given.path,))

        return await self._checkouts.of(given.connection).change(place.key, make)


class Edit(_InWorkspace):
    """One replacement."""

    name = "edit_file"
    description = "Replace a text that stands exactly once in a file of the open repository."
    arguments = EditFile

    async def done(self, given: EditFile, place: port.Place) -> port.Result:
        """Its path."""

        async def make(at: checkout.Checkout) -> port.Result:
            file = inside(at.tree, given.path)
            text = await asyncio.to_thread(load, file, given.path)
            count = text.count(given.old)
            if count != 1:
                return bounds.failed(f"The text stands {count} times in {given.path!r}; give more of its surroundings.")
            await asyncio.to_thread(_write, file, given.path, text.replace(given.old, given.new))
            return port.Result(f"Changed: {given.path}.", changed_files=(given.path,))

        return await self._checkouts.of(given.connection).change(place.key, make)


class Changes(_InWorkspace):
    """The diff."""

    name = "show_changes"
    description = "The changes in the open repository as a diff, commits of this task included."
    arguments = ShowChanges

    async def done(self, given: ShowChanges, place: port.Place) -> port.Result:
        """Since it was opened."""
        at = self._checkouts.of(given.connection)
        held = await at.reading()
        diff = await at.diff(held.base, held.snapshot, *(["--stat=120"] if given.stat else []))
        names = (await at.diff(held.base, held.snapshot, "--name-only", "-z")).split("\0")
        changed = tuple(one for one in names if one)
        text = bounds.cut(diff, rest="Ask for stat, or read the files.") or "Nothing has changed."
        return port.Result(text, {"files": len(changed)}, changed_files=changed)


class CommitChanges(_InWorkspace):
    """A commit."""

    name = "commit_changes"
    description = "Commit all changes of the open repository, in the clone alone."
    arguments = Commit

    async def done(self, given: Commit, place: port.Place) -> port.Result:
        """Its id, which push_branch wants."""

        async def make(at: checkout.Checkout) -> port.Result:
            made = await at.commit(given.message)
            return port.Result(f"Committed: {made.commit}.", {"commit": made.commit})

        return await self._checkouts.of(given.connection).change(place.key, make)


class PushBranch(connections.AtConnection):
    """A branch with commits of the workspace. A person who is asked sees the diff."""

    name, asks, usual = "push_branch", "pushBranch", "git_connection"
    description = "Push a commit of the open repository as a branch. A person decides."
    arguments = Push

    def __init__(self, means: connections.Means, checkouts: Checkouts) -> None:
        super().__init__(means)
        self._checkouts = checkouts

    def connection(self, given: Push) -> str:
        """That of the workspace."""
        return self._at(given).connection

    def aimed(self, given: Push) -> dict[str, str]:
        """The branch."""
        where = f"{self.connection(given)}/{given.branch}"
        self._within(self._means.allowed.push_branches, where, "branch")
        return {"branch": given.branch}

    def targets(self, given: Push) -> tuple[str, ...]:
        """The branch."""
        return (given.branch,)

    def reach(self, given: Push) -> port.Reach:
        """With the name of the branch, the messages of its commits and the lines that they add, as far as the diff is
        kept: the rest of it is the repository's own text."""
        held, last = self._commit(given)
        messages = [commit.message for commit in held.commits[: held.commits.index(last) + 1]]
        added = [line[1:] for line in last.diff.splitlines() if line.startswith("+") and not line.startswith("+++ ")]
        text = "\n".join([given.branch, *messages, *added])
        return port.Reach(permits.tool_name(self.name), held.connection, self.targets(given), text)

    def shown(self, given: Push) -> str:
        """The messages of its commits, and the whole diff as far as it is kept."""
        held, last = self._commit(given)
        count = held.commits.index(last) + 1
        head = f"Push {given.branch} to {held.connection}: {count} commits onto {held.branch} at {held.base[:12]}"
        messages = [f"{one.commit[:12]} {one.message}" for one in held.commits[:count]]
        return "\n".join([head, *messages, "", bounds.cut(last.diff, _SHOWN_DIFF, "The branch has all of it.")])

    async def built(self, given: Push, place: port.Place) -> Mapping[str, Any]:
        """With the bundle, stored in the knowledge base. Raises `kb_client.Unavailable`, `port.Misused`."""
        at = self._at(given)
        self._commit(given)
        try:
            await at.reading()
            raw = await at.bundle(given.commit)
        except checkout.Unworkable as error:
            raise port.Misused(f"{self.name}: {error.message}") from error
        ref = await connections.store(self._means, raw, "application/x-git-bundle")
        asked = sources_client.PushBranch(branch=given.branch, commit=given.commit, expected=given.expected, bundle=ref)
        return asked.model_dump(mode="json", by_alias=True, exclude_none=True)

    def _at(self, given: Push) -> checkout.Checkout:
        try:
            return self._checkouts.of(given.connection)
        except checkout.Unworkable as error:
            raise port.Misused(f"{self.name}: connection: {error.message}") from error

    def _commit(self, given: Push) -> tuple[checkout.Held, checkout.Commit]:
        held = self._at(given).held
        for one in held.commits if held is not None else ():
            if held is not None and one.commit == given.commit:
                return held, one
        raise port.Misused(f"{self.name}: commit: the workspace has no commit {given.commit}; call commit_changes")


def all_of(checkouts: Checkouts) -> list[port.Tool]:
    """The tools of this module that stay in the run."""
    kinds = (OpenRepository, Files, Read, Search, Write, Edit, Changes, CommitChanges)
    return [one(checkouts) for one in kinds]
