"""What pushes of a run meet: a repository behind `git http-backend`, a run's own commits as a bundle, and a clone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from crds import connection
from sources.core import assignments, hosts, limits
from sources.effects import wire
from sources.providers.git import clone, command, pushes, quarantine, reading
from sources.providers.git import polling as git
from tests.sources import parts
from tests.sources.api.serving import NOW
from tests.sources.effects.rig import Rig, running
from tests.sources.effects.world import NAMESPACE, World
from tests.sources.git.making import Http, Repository

ALLOWED = {"push": {"branches": ["jervis/*", "release"]}}
LOGIN = "bot:word"


def remote(root: Path) -> Repository:
    """A repository with five commits on `main` that takes pushes."""
    made = Repository(root / "storage.git")
    made.git("config", "http.receivepack", "true")
    made.git("config", "core.logAllRefUpdates", "always")
    made.many(5)
    return made


class Work:
    """A run's own repository, with what the remote has."""

    def __init__(self, path: Path, url: str) -> None:
        self.repository = Repository(path)
        self.repository.git("fetch", "-q", url, "+refs/heads/*:refs/heads/*")

    def commit(self, branch: str = "fix", start: str = "main", **more: Any) -> str:
        """A commit on a branch that grows from `start`."""
        if not self.repository.there(branch):
            self.repository.git("branch", branch, start)
        return self.repository.commit("A fix", **{"files": {"fix": os.urandom(8)}, **more}, branch=branch)

    def bundle(self, *revisions: str) -> bytes:
        """By default what `fix` has and `main` has not."""
        return self.repository.git("bundle", "create", "-q", "-", *(revisions or ("main..fix",)))


def stored(world: World, raw: bytes) -> dict[str, Any]:
    """Let the knowledge base have it; its contentRef."""
    sha = hashlib.sha256(raw).hexdigest()
    world.contents[sha] = raw
    return {"store": "gridfs", "key": sha, "sha256": sha, "bytes": len(raw)}


def connected(world: World, url: str, name: str = "code", **spec: Any) -> connection.Connection:
    """Apply a Git Connection, accepted by the operator."""
    world.connect(name, **{"type": "Git", "url": url, "git": ALLOWED, **spec})
    return connection.Connection.model_validate(world.connections[name])


class Pushing:
    """A rig whose process has clones. `remote` is at `http`; `work` is the run's."""

    def __init__(self, rig: Rig, http: Http, folder: Path, assigned: assignments.Assignments, at: Repository) -> None:
        self.rig, self.http, self.folder, self.assigned, self.remote = rig, http, folder, assigned, at
        self.work = Work(folder / "work.git", at.url)
        self.login, self.url = {"username": "bot", "password": "word"}, f"{http.url}/storage.git"
        self.replica("ws")

    def replica(self, name: str, bounds: quarantine.Bounds | None = None) -> None:
        """Go on as a process with clones of its own."""
        workspace = self.workspace = clone.Workspace(self.folder / name, 1 << 30, 1 << 30)

        async def opens(claim: assignments.Claim) -> git.Repository:
            at = command.remote(claim.spec.url, self.login, plain=True, authorities="", seconds=60)
            bucket = limits.Bucket(6000, 1000)
            return git.Repository(workspace.clone(claim.uid), at, claim.spec, bucket, monotonic=time.monotonic)

        reads = reading.Reading(
            self.assigned, workspace, opens, parts.meters(), width=4, seconds=60.0, wall=lambda: NOW
        )
        shared = pushes.Pushes(
            reads.copy, plain=True, authorities="", reached=hosts.LOCAL, monotonic=lambda: 0.0, bounds=bounds
        )
        self.rig.push_by(shared)

    async def connect(self, name: str = "code", **spec: Any) -> None:
        """A Git Connection that is polled."""
        given = {"url": self.url, **spec}
        await self.assigned.want(connected(self.rig.world, given.pop("url"), name, **given))

    def arguments(self, commit: str, *, branch: str = "jervis/fix", bundle: bytes | None = None, **more: Any) -> Any:
        """Of a push."""
        raw = self.work.bundle() if bundle is None else bundle
        return {"branch": branch, "commit": commit, "bundle": stored(self.rig.world, raw), **more}

    async def push(self, given: Any, key: str = "k", connection: str = "code") -> wire.Outcome:
        """Ask for it."""
        return await self.rig.effect("pushBranch", key, connection, **given)

    def has(self, branch: str = "jervis/fix") -> str:
        """What the remote's branch is at, "" where it has none."""
        return self.remote.sha(f"refs/heads/{branch}") if self.remote.there(branch) else ""

    def pushes(self) -> int:
        """How often the remote's branches were changed by pushes."""
        logs = [path.read_text() for path in (self.remote.path / "logs" / "refs").rglob("*") if path.is_file()]
        return sum(line.endswith("\tpush") for text in logs for line in text.splitlines())

    def left(self) -> list[str]:
        """What is beside the clones."""
        return sorted(path.name for path in self.folder.glob("ws*/*") if path.name.endswith(".push"))


@contextlib.asynccontextmanager
async def pushing(folder: Path, *, connect: bool = True) -> AsyncIterator[Pushing]:
    at = remote(folder / "srv")
    async with parts.database() as store, running() as rig, Http(folder / "srv", LOGIN).serving() as http:
        place = Pushing(rig, http, folder, assignments.Assignments(store), at)
        if connect:
            await place.connect()
        yield place


__all__ = ["NAMESPACE", "Pushing", "connected", "pushing", "remote", "stored"]
