"""A clone that a run works in, and what keeps it over the run's end: its commit and a bundle of what was changed.

The clone comes from the sources process by smart HTTP with the run's token (docs/connections.md, "Runs read
repositories"): shallow, one branch, nothing of it is run. HEAD is detached and moves with the run's commits. After each
change all files are committed beside HEAD as the snapshot, and a bundle of both is written, before the change counts:

`orchestrator_workspaces`: {_id: "<task uid>/<connection>", taskUid, epoch, repository, branch, base, head, snapshot,
bundle, commits: [{commit, message, diff}], done: [{key, result}], patch: {text, files, committed, problem}}.

A run that resumes clones `base` again and applies the bundle. A change whose key is in `done` was made and is not made
again, so one that is repeated after a kill has the result of the first time.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from crds import addresses, errors
from orchestrator_job import errors as run_errors
from orchestrator_job import git_environment
from orchestrator_job.effects import patches
from orchestrator_job.effects.tools import port
from orchestrator_job.store import fence, mongo
from sources import client as sources_client

COLLECTION = patches.COLLECTION
DEPTH = 20
"""Commits of the clone."""
MOST_DIFF = 200_000
"""Characters of a commit's diff that are kept for the person who decides about a push."""
_DONE, _COMMITS = 50, 20
_SECONDS, _NETWORK_SECONDS = 60.0, 300.0
_OUTPUT = 16 << 20
_SAID = 500
_MEMORY_KIB = 2 << 20
_REFUSED = re.compile(r"returned error: 401|Authentication failed|could not read Username", re.IGNORECASE)
_AWAY = re.compile(
    r"returned error: (?:408|425|429|50[234])|Could not resolve|Failed to connect|Connection (?:refused|reset)"
    r"|timed out|Empty reply|early EOF|unexpected disconnect|hung up unexpectedly",
    re.IGNORECASE,
)
_SYMREF = re.compile(r"^ref: refs/heads/(\S+)\tHEAD$", re.MULTILINE)
_PERSON = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Jervis"), ("EMAIL", "jervis@invalid"))
}


class Unworkable(errors.Permanent):
    """It cannot be done in this workspace; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the run. `diff` is what a push of it adds to the branch, all commits before it included."""

    commit: str
    message: str
    diff: str


@dataclass(frozen=True, slots=True)
class Held:
    """What is kept of a workspace."""

    connection: str
    repository: str
    branch: str
    base: str
    head: str
    snapshot: str
    bundle: bytes
    commits: tuple[Commit, ...] = ()
    done: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    patch: patches.Patch | None = None
    """None until something was changed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes of a clone with its files, and of a bundle of changes."""

    clone: int
    change: int


Change = Callable[["Checkout"], Awaitable[port.Result]]


class Checkout:
    """The workspace of one Connection. `folder` is its own; `token` is read before each call; `now` is in UTC."""

    def __init__(
        self,
        connection: str,
        folder: Path,
        url: str,
        token: sources_client.Token,
        database: mongo.Database,
        guard: fence.Fence,
        bounds: Bounds,
        now: Callable[[], datetime],
    ) -> None:
        self.connection, self.tree = connection, folder / "tree"
        self._url = f"{url.rstrip('/')}/api/v1/git{addresses.path(connection)}"
        self._token, self._database, self._guard, self._bounds, self._now = token, database, guard, bounds, now
        self._id = f"{guard.task_uid}/{connection}"
        self._lock = asyncio.Lock()
        self._there = False
        self.held: Held | None = None

    async def load(self) -> None:
        """Read what is kept of it; the clone is made again when it is needed."""
        found = await self._database.find_one(COLLECTION, {"_id": self._id})
        self.held = None if found is None else _held(self.connection, found)

    async def open(self, branch: str, key: str) -> Held:
        """Clone the branch ("": the default one), or go on with the workspace where it is one of that branch. Raises
        `Unworkable`, `sources_client.Unavailable`."""
        async with self._lock:
            if self.held is not None and branch in ("", self.held.branch):
                await self._restore(self.held)
                return self.held
            if self.held is not None and len(self.held.done) > 1:
                raise Unworkable(
                    f"The workspace of {self.connection} is on {self.held.branch!r} and has changes.",
                    remedy="Go on there, or use another Connection.",
                )
            heads = await self._git(
                "ls-remote", "--symref", self._url, "HEAD", "refs/heads/*", network=True, at=Path("/")
            )
            default = _SYMREF.search(heads)
            chosen = branch or (default[1] if default else "")
            if not chosen or f"\trefs/heads/{chosen}\n" not in heads:
                names = ", ".join(sorted(re.findall(r"\trefs/heads/(\S+)$", heads, re.MULTILINE))[:50])
                raise Unworkable(f"There is no branch {chosen!r}. Branches are: {names or 'none'}.")
            await self._clone(chosen)
            head = (await self._git("rev-parse", "HEAD")).strip()
            held = Held(self.connection, self.connection, chosen, head, head, "", b"")
            self._there = True
            return await self._keep(held, key, port.Result(""))

    async def reading(self) -> Held:
        """The workspace, whose clone is there. Raises as `open`, `Unworkable` where it was not opened."""
        async with self._lock:
            if self.held is None:
                raise Unworkable(f"The repository of {self.connection} is not open.", remedy="Call open_repository.")
            await self._restore(self.held)
            return self.held

    async def change(self, key: str, make: Change) -> port.Result:
        """Make a change, once per key. Where it raises or becomes too large, the workspace is as before."""
        async with self._lock:
            held = self.held
            if held is None:
                raise Unworkable(f"The repository of {self.connection} is not open.", remedy="Call open_repository.")
            await self._restore(held)
            for done, result in held.done:
                if done == key:
                    return _result(result)
            try:
                made = await make(self)
                if made.failed:
                    await self._reset(held)
                else:
                    await self._keep(self.held or held, key, made)
            except Unworkable:
                self.held, self._there = held, False
                await self._reset(held)
                self._there = True
                raise
            except BaseException:
                self.held, self._there = held, False
                raise
            return made

    async def commit(self, message: str) -> Commit:
        """Commit all files; to be called within `change`. Raises `Unworkable` where nothing has changed."""
        held = self.held
        assert held is not None
        when = self._now().isoformat()
        dates = {**_PERSON, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        await self._git("add", "-A", "-f", "--", ".")
        if not await self._git("diff", "--cached", "--name-only", "HEAD"):
            raise Unworkable("There is nothing to commit.")
        await self._git("commit", "-q", "--no-verify", "--no-gpg-sign", "-F", "-", more=dates, given=message.encode())
        head = (await self._git("rev-parse", "HEAD")).strip()
        diff = await self.diff(held.base, head)
        kept = diff if len(diff) <= MOST_DIFF else diff[:MOST_DIFF] + f"\n[{len(diff) - MOST_DIFF} more characters]"
        made = Commit(head, message, kept)
        self.held = _with(held, head=head, commits=(*held.commits, made)[-_COMMITS:])
        return made

    async def diff(self, start: str, end: str, *more: str) -> str:
        """Of two commits, as text."""
        return await self._git("diff", "--no-color", "--no-ext-diff", "--no-textconv", *more, start, end)

    async def paths(self, under: str) -> list[str]:
        """All files of the snapshot, below a folder where one is given."""
        held = self.held
        assert held is not None
        given = ["--", f"{under}/"] if under else []
        listed = await self._git("ls-tree", "-r", "-z", "--name-only", held.snapshot, *given)
        return [one for one in listed.split("\0") if one]

    async def grep(self, words: Sequence[str], under: str) -> str:
        """`git grep` over the snapshot, bounded in time, memory and output: lines of PATH:LINE:TEXT, "" for none."""
        held = self.held
        assert held is not None
        prefix = f"{held.snapshot}:"
        below = ["--", f":(literal){under}"] if under else []
        found = await self._git("grep", *words, held.snapshot, *below, fine=(1,), seconds=20.0)
        return "\n".join(line.removeprefix(prefix) for line in found.splitlines())

    async def pack(self) -> bytes:
        """All files of the snapshot as a tar.gz."""
        held = self.held
        assert held is not None
        return await self._raw("archive", "--format=tar.gz", held.snapshot, most=self._bounds.clone)

    async def apply(self, patch: bytes) -> None:
        """Apply a patch to the files; to be called within `change`. Raises `Unworkable`."""
        await self._git("apply", "--whitespace=nowarn", "-", given=patch)

    async def bundle(self, commit: str) -> bytes:
        """What `commit` has and the clone's branch had not, for a push."""
        held = self.held
        assert held is not None
        ref = f"refs/jervis/push-{commit}"
        await self._git("update-ref", ref, commit)
        return await self._raw("bundle", "create", "-q", "-", ref, f"^{held.base}", most=self._bounds.change)

    async def _keep(self, held: Held, key: str, made: port.Result) -> Held:
        """Write the workspace down as it is now, with the result of `key`. Raises `Unworkable`, `Fenced`."""
        snapshot = await self._snapshot(held)
        for name, commit in (("head", held.head), ("tree", snapshot)):
            await self._git("update-ref", f"refs/jervis/{name}", commit)
        refs = ("refs/jervis/head", "refs/jervis/tree")
        bundle = await self._raw("bundle", "create", "-q", "-", *refs, f"^{held.base}", most=self._bounds.change)
        done = (*held.done, (key, _dumped(made)))[-_DONE:]
        patch = await self._patch(held, snapshot)
        kept = _with(held, snapshot=snapshot, bundle=bundle, done=done, patch=patch)
        own = {"_id": self._id}
        written = await self._guard.keep(
            lambda: self._database.update(
                COLLECTION,
                {**own, "epoch": {"$lte": self._guard.epoch}},
                {"$set": {"taskUid": self._guard.task_uid, "epoch": self._guard.epoch, **_document(kept)}},
                upsert=True,
            ),
            lambda: self._database.delete(COLLECTION, own),
        )
        if written is None:
            raise run_errors.Fenced(f"A newer run works in the workspace of {self.connection}; this one stops.")
        self.held = kept
        return kept

    async def _patch(self, held: Held, snapshot: str) -> patches.Patch:
        """The changes of the snapshot. Texts that are not UTF-8 are in it as binary files, so that it is text."""
        ends = (held.base, snapshot)
        named = await self.diff(*ends, "--name-only", "-z")
        if not named:
            return patches.Patch("", 0, committed=True)
        files = named.count("\0")
        committed = not await self.diff(held.head, snapshot, "--name-only")
        try:
            raw = await self._binary(*ends)
            if not _is_text(raw):
                raw = await self._without_text(*ends)
        except Unworkable as error:
            # Too large, as a rule. The change itself is kept.
            listed = (await self.diff(*ends, "--stat=120"))[:MOST_DIFF]
            return patches.Patch(listed, files, committed, error.message)
        return patches.Patch(raw.decode(), files, committed)

    async def _binary(self, start: str, end: str) -> bytes:
        words = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--binary", start, end)
        return await self._raw("diff", *words, most=patches.MOST)

    async def _without_text(self, start: str, end: str) -> bytes:
        """With each file as a binary one, which is text of ASCII letters."""
        attributes = self.tree / ".git" / "info" / "attributes"
        before = await asyncio.to_thread(attributes.read_text)
        await asyncio.to_thread(attributes.write_text, f"{before}* -diff\n")
        try:
            return await self._binary(start, end)
        finally:
            await asyncio.to_thread(attributes.write_text, before)

    async def _snapshot(self, held: Held) -> str:
        """A commit of all files, ignored ones included, whose parent is HEAD."""
        index = self.tree / ".git" / "jervis-index"
        if not index.exists():
            await asyncio.to_thread(shutil.copyfile, self.tree / ".git" / "index", index)
        own = {"GIT_INDEX_FILE": str(index)}
        await self._git("add", "-A", "-f", "--", ".", more=own)
        tree = (await self._git("write-tree", more=own)).strip()
        dates = {**_PERSON, "GIT_AUTHOR_DATE": "@0 +0000", "GIT_COMMITTER_DATE": "@0 +0000"}
        words = ("commit-tree", tree, "-p", held.head, "-m", "snapshot")
        return (await self._git(*words, more=dates)).strip()

    async def _restore(self, held: Held) -> None:
        """Make the clone again as it was, where this process has not."""
        if self._there:
            return
        await self._clone(held.branch)
        if not await self._has(held.base):
            await self._git("fetch", "-q", "--depth", str(DEPTH), "--no-tags", self._url, held.base, network=True)
        with tempfile.NamedTemporaryFile(dir=self.tree.parent) as file:
            await asyncio.to_thread(Path(file.name).write_bytes, held.bundle)
            await self._git("bundle", "unbundle", file.name)
        await self._reset(held)
        self._there = True

    async def _reset(self, held: Held) -> None:
        """Files and HEAD as they were kept."""
        await self._git("checkout", "-q", "-f", "--detach", held.snapshot)
        await self._git("clean", "-ffdxq")
        await self._git("update-ref", "--no-deref", "HEAD", held.head)

    async def _has(self, commit: str) -> bool:
        return bool(await self._git("rev-parse", "-q", "--verify", f"{commit}^{{commit}}", fine=(1, 128)))

    async def _clone(self, branch: str) -> None:
        """Into an empty folder: a try that broke off may have left some."""
        await asyncio.to_thread(shutil.rmtree, self.tree, ignore_errors=True)
        await asyncio.to_thread(self.tree.parent.mkdir, parents=True, exist_ok=True)
        asked = ("--depth", str(DEPTH), "--single-branch", "--no-tags", "--template=", "--branch", branch)
        words = ("clone", "-q", "--no-checkout", *asked, "--", self._url, str(self.tree))
        await self._git(*words, network=True, at=self.tree.parent)
        await asyncio.to_thread(_plain, self.tree / ".git")
        await self._git("checkout", "-q", "--detach")
        size = await asyncio.to_thread(_size, self.tree)
        if size > self._bounds.clone:
            await asyncio.to_thread(shutil.rmtree, self.tree, ignore_errors=True)
            raise Unworkable(f"The clone has {size} bytes, at most {self._bounds.clone} are taken.")

    async def _git(self, *words: str, **more: Any) -> str:
        return (await self._raw(*words, **more)).decode(errors="replace")

    async def _raw(
        self,
        *words: str,
        given: bytes = b"",
        more: Mapping[str, str] | None = None,
        most: int = _OUTPUT,
        fine: Sequence[int] = (),
        network: bool = False,
        seconds: float | None = None,
        at: Path | None = None,
    ) -> bytes:
        """What a command of Git writes. Raises `Unworkable`, `sources_client.Unavailable`."""
        header = {"http.extraHeader": f"Authorization: Bearer {self._token()}"} if network else {}
        environment = {**git_environment.environment(header), **(more or {})}
        limit = seconds or (_NETWORK_SECONDS if network else _SECONDS)
        blocks = self._bounds.clone // 512 + 1
        bounded = ["sh", "-c", f'ulimit -v {_MEMORY_KIB}; ulimit -f {blocks}; exec git "$@"', "git", *words]
        done = await asyncio.to_thread(run, bounded, at or self.tree, environment, given, limit, most)
        if done.late:
            raise Unworkable(f"git {words[0]} took longer than {limit:g} s.")
        if done.cut:
            raise Unworkable(f"git {words[0]} gives more than {most} bytes.")
        if done.code == 0 or done.code in fine:
            return done.out
        if network and _REFUSED.search(done.said):
            raise sources_client.Rejected(done.said, field="Authorization", status=401)
        if network and _AWAY.search(done.said):
            raise sources_client.Unavailable(f"the sources process does not answer: {done.said}")
        raise Unworkable(done.said or f"git {words[0]} ended with {done.code}")


async def kept(database: mongo.Database, task_uid: str) -> list[str]:
    """The Connections of which the task has workspaces."""
    found = await database.find(COLLECTION, {"taskUid": task_uid}, sort=[("_id", 1)], fields=["_id"])
    return [str(one["_id"]).partition("/")[2] for one in found]


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended. `said` is the end of its standard error."""

    code: int
    out: bytes
    said: str
    late: bool
    cut: bool


def run(
    words: Sequence[str], at: Path, environment: Mapping[str, str], given: bytes, seconds: float, most: int
) -> Done:
    """Run a program, at most for `seconds`, and read at most `most` bytes of what it writes."""
    late = threading.Event()
    with tempfile.TemporaryFile() as errors_of, tempfile.TemporaryFile() as fed:
        fed.write(given)
        fed.seek(0)
        running = subprocess.Popen(  # noqa: S603
            words, cwd=at, env=dict(environment), stdin=fed, stdout=subprocess.PIPE, stderr=errors_of,
            start_new_session=True,
        )  # fmt: skip

        def end() -> None:
            late.set()
            running.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            with running:
                assert running.stdout is not None
                out = running.stdout.read(most + 1)
                if len(out) > most:
                    running.kill()
        finally:
            timer.cancel()
        errors_of.seek(0)
        said = " ".join(errors_of.read(1 << 16).decode(errors="replace").split())[-_SAID:]
    return Done(running.returncode, out[:most], said, late.is_set(), len(out) > most)


def _plain(folder: Path) -> None:
    """Let no attribute of the repository change or leave out a file: it is committed and packed as it is written."""
    (folder / "info").mkdir(exist_ok=True)
    off = ("text", "eol", "ident", "filter", "working-tree-encoding", "export-ignore", "export-subst")
    (folder / "info" / "attributes").write_text(f"* {' '.join(f'-{name}' for name in off)}\n")


def _is_text(raw: bytes) -> bool:
    try:
        return "\0" not in raw.decode()
    except UnicodeDecodeError:
        return False


def _size(folder: Path) -> int:
    return sum(one.lstat().st_size for one in folder.rglob("*") if not one.is_dir())


def _with(held: Held, **changed: Any) -> Held:
    fields = {name: getattr(held, name) for name in Held.__dataclass_fields__}
    return Held(**{**fields, **changed})


def _document(held: Held) -> dict[str, Any]:
    return {
        "repository": held.repository,
        "branch": held.branch,
        "base": held.base,
        "head": held.head,
        "snapshot": held.snapshot,
        "bundle": held.bundle,
        "sha256": hashlib.sha256(held.bundle).hexdigest(),
        "commits": [{"commit": one.commit, "message": one.message, "diff": one.diff} for one in held.commits],
        "done": [{"key": key, "result": dict(result)} for key, result in held.done],
        "patch": held.patch.stored() if held.patch is not None else None,
    }


def _held(connection: str, found: Mapping[str, Any]) -> Held:
    return Held(
        connection=connection,
        repository=found["repository"],
        branch=found["branch"],
        base=found["base"],
        head=found["head"],
        snapshot=found["snapshot"],
        bundle=bytes(found["bundle"]),
        commits=tuple(Commit(one["commit"], one["message"], one["diff"]) for one in found["commits"]),
        done=tuple((one["key"], one["result"]) for one in found["done"]),
        patch=patches.Patch(**found["patch"]) if found.get("patch") else None,
    )


def _dumped(made: port.Result) -> dict[str, Any]:
    return {"text": made.text, "data": dict(made.data), "changedFiles": list(made.changed_files)}


def _result(kept: Mapping[str, Any]) -> port.Result:
    return port.Result(kept["text"], kept["data"], changed_files=tuple(kept["changedFiles"]))
