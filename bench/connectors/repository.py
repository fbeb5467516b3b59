"""A Git repository on disk: commits, branches that come and go, forced pushes, and a server that is away."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from bench.connectors import knowledge, site
from crds import connection, pendingtask, scope
from kb import api
from sources.core import assignments, port, repositories
from sources.providers.git import clone
from sources.providers.git import polling as git
from tests.sources.git.making import Repository as Bare

PROJECT = "shop"
NAME = "acme/shop"


class Repository(site.Site):
    """All branches are read. The real git commands run on both sides; there is no wire, so a fault is a repository that
    is not there for one poll, and events fall between two writes of the process."""

    type, by_writes = connection.Type.GIT, True
    filter = MappingProxyType({"include": ["*"]})

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._now, self._planned = site.START, site.Planned()
        self._branches: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self._readme: dict[str, str] = {}
        self._dates: dict[str, datetime] = {}
        self._hidden = False
        self._polls = 0

    @property
    def now(self) -> datetime:
        """See `Site`."""
        return self._now

    def tick(self, much: timedelta) -> None:
        """See `Site`."""
        self._now += much

    @property
    def url(self) -> str:
        """See `Site`."""
        return self._bare.url

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """In a directory of its own."""
        with tempfile.TemporaryDirectory(prefix="histories-", ignore_cleanup_errors=True) as name:
            self._root = Path(name)
            self._bare = Bare(self._root / NAME)
            yield

    def change(self, dice: random.Random, number: int) -> None:
        """See `Site`."""
        self._now += timedelta(seconds=dice.randint(0, 30))
        names = sorted(self._branches)
        what = dice.choice(("commit", "commit", "readme", "branch", "branch", "force", "back", "delete"))
        one = dice.choice(names) if names else "main"
        if what in ("commit", "readme") or not names:
            self._commit(dice, one, knowledge.token(number), readme=what == "readme")
        elif what == "branch":
            self._point(f"topic-{dice.randint(1, 3)}", dice.choice(self._commits(one)))
        elif what == "force":
            self._point(one, dice.choice(self._commits(one)))
            self._commit(dice, one, knowledge.token(number), readme=True)
        elif what == "back":
            self._point(one, dice.choice(self._commits(one)))
        elif one != "main":
            del self._branches[one]
            self._git("update-ref", "-d", f"refs/heads/{one}")

    def _commit(self, dice: random.Random, branch: str, said: str, *, readme: bool) -> None:
        before = self._branches.get(branch)
        known = self._readme.get(before or "", "")
        shown = said if readme or not known else known
        files: dict[bytes | str, bytes | None] = {"README.md": f"Read {shown}\n".encode()}
        files[f"file-{said[1:-1]}.txt"] = b"text\n"
        sha = self._bare.commit("A change", files, branch=branch, parents=(before,) if before else ())
        self._branches[branch], self._readme[sha] = sha, shown
        # A commit is older than its push.
        self._dates[sha] = self._now - timedelta(minutes=dice.choice((0, 1, 60, 1500)))
        if before:
            self._parents[sha] = before

    def _point(self, branch: str, sha: str) -> None:
        self._branches[branch] = sha
        self._git("update-ref", f"refs/heads/{branch}", sha)

    def _git(self, *words: str) -> None:
        self._bare.git(*words)

    def _commits(self, branch: str) -> list[str]:
        found = [self._branches[branch]]
        while found[-1] in self._parents:
            found.append(self._parents[found[-1]])
        return found

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        found = {self._urn(name): frozenset({self._readme[sha]}) for name, sha in self._branches.items()}
        for name in self._branches:
            found |= {f"{PROJECT}/{name}:{sha}": frozenset() for sha in self._commits(name)}
        return found

    def _urn(self, branch: str) -> str:
        return f"git::{repositories.of(self.url).path}@{branch}:overview"

    def rows(self) -> list[site.Row]:
        """See `Site`."""
        found, where = [], repositories.of(self.url)
        owner = scope.Scope(client_id="acme", project_id=PROJECT)
        for name, tip in self._branches.items():
            text = self._readme[tip]
            item = port.Item(
                source_id=f"branch:{name}:overview", version=text, type=pendingtask.Type.GIT, urn=self._urn(name),
                title=name, text=text, place=f"branch/{name}",
            )  # fmt: skip
            found.append(site.Row(item, self._dates[tip], item.place))
            for sha in self._commits(name):
                author = api.Author(name="Ada", email="ada@example.com")
                commit = api.Commit(hash=sha, author=author, date=self._dates[sha])
                request = api.GitCommits(scope=owner, repository=where, branch=name, commits=[commit])
                found.append(site.Row(None, self._dates[sha], commits=request))
        return found

    def faults(self, fault: tuple[int, str] | None) -> None:
        """See `Site`; away from the second request of a poll on, or from the first one on."""
        self._planned.set((fault[0] % 3, fault[1]) if fault else None)

    def fault(self) -> str:
        """See `Site`."""
        return self._planned.next()

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`. Each process has a workspace of its own."""
        self._polls += 1
        space = clone.Workspace(self._root / f"ws{self._polls}", 1 << 30, 8 << 30)
        makes = git.opened(space, assigned, plain=True, authorities="", seconds=60, monotonic=lambda: 0.0)

        def opens(claim: assignments.Claim) -> port.Source:
            found = makes(claim, {}, self.bucket)
            if self._planned.next():
                found._at = replace(found._at, url=f"file://{self._root}/away")
            return found

        return opens
