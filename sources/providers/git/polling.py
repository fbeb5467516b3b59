"""Repositories by Git: an overview of each branch as a task, its commits straight to the knowledge base.

The cursor is `{"of": HASH, "branches": {name: {"at": SHA, "code": SHA}}}`: all commits that the branch has at `at` are
taken, and its source files are known as they are at `code`.
While more is read, it has `"to"`, the commit that is read up to, and `"n"`, how many of the commits between the two are
taken; their order follows from the two. `"was"` are commits up to which it was read before a forced push, its end or a
resync. A branch that was at a commit which it has no more (a forced push), and one that is gone, lose their commits in
the knowledge base. Requests of `git-commits` are safe to repeat, so a kill repeats a batch and loses none.

Source: seed 001 "GitContinuousIndexer"; seed 000 "Workspace Retry with Exponential Backoff".
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from codegraph import api as code_api
from crds import connection, pendingtask
from crds.connection import WorkspaceState
from kb import api
from sources.core import assignments, hosts, limits, port, repositories
from sources.providers.git import clone, command, history, overview, tree

BATCH, BATCH_BYTES = 50, 1 << 20
"""Commits of one request, and the characters of all their texts together."""
CONTENT_BYTES = 4 << 20
"""Of the source files of one request, as JSON."""
MOST_REMOVED = 1000
"""Hashes of one request."""
MOST_BRANCHES = 500
MOST_LINKS = 20
"""Of one commit."""
_NAME_CHARS = 255
_URL_CHARS, _CONTEXT_CHARS = 500, 200
_URL = re.compile(r"(?<![A-Za-z0-9+.-])https?://[^\s<>\"`{}|\\^\[\]\x00-\x20]+", re.IGNORECASE)
_AFTER = ".,;:!?'*)"
_GLOB = re.compile(r"[*?\[]")


class Repository:
    """One poll. `bucket` and `monotonic` say when the remote may be asked next; `sleep` waits for it. `alike`: the
    client's other Git Connections, some of which may read the same repository."""

    def __init__(
        self,
        copy: clone.Clone,
        at: command.Remote,
        spec: connection.Spec,
        bucket: limits.Bucket,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        alike: Callable[[], Awaitable[Sequence[assignments.Claim]]] | None = None,
    ) -> None:
        self._clone, self._at, self._bucket, self._alike = copy, at, bucket, alike
        self._monotonic, self._sleep = monotonic, sleep
        self._filter = spec.filter or connection.Filter()
        self._owner, self._url = repositories.owner(spec), spec.url
        self._of = cursor_of(spec)
        self._repository = repositories.of(spec.url)

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`. Raises `port.Uncloned` where there is no clone and none could be made."""
        places = self._places(cursor)
        if await asyncio.to_thread(self._clone.there):
            found, chosen, absent, odd = await self._brought(places)
        else:
            yield self._batch(places, workspace=WorkspaceState.CLONING)
            try:
                found, chosen, absent, odd = await self._brought(places)
            except (port.Rejected, port.Misconfigured, port.Unreachable, port.DiskFull) as error:
                raise port.Uncloned(error) from error
            yield self._batch(places, workspace=WorkspaceState.READY)
        if odd:
            yield self._batch(places, failures=odd)
        for name in sorted(set(places) - set(chosen)):
            async with aclosing(self._removed(name, places)) as batches:
                async for batch in batches:
                    yield batch
        default, failed = _mapped(self._repository, found.default), list[command.Failed]()
        for name in sorted(chosen, key=lambda one: (one != found.default, one)):
            try:
                async with aclosing(self._branch(default, name, chosen[name], places)) as batches:
                    async for batch in batches:
                        yield batch
            except command.Failed as error:
                # One branch that Git cannot read holds up no other.
                failed.append(error)
        if failed:
            raise failed[0]
        if absent:
            raise port.Misconfigured(
                f"The repository has no branch {', '.join(map(repr, absent))[:400]}.",
                field="spec.filter.include",
                remedy="Correct spec.filter.include, or leave it out to take the default branch.",
            )

    def _places(self, cursor: port.Cursor) -> dict[str, dict[str, Any]]:
        before = cursor.get("rewound", {})
        if before.get("of") == self._of:
            return {name: {"was": _taken(at)} for name, at in before["branches"].items()}
        known = cursor.get("branches", {}) if cursor.get("of") == self._of else {}
        return {name: dict(at) for name, at in known.items()}

    async def bring(self) -> None:
        """Have the clone as the remote is now. Raises `Rejected`, `Misconfigured`, `Unreachable`."""
        await self._brought({})

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`. The branches are asked for, nothing is fetched."""
        found: clone.Listed = await self._call(clone.listed, self._at)
        chosen, absent, odd = self._chosen(found)
        hidden = not found.branches and not await asyncio.to_thread(self._clone.empty)
        if absent or hidden:
            raise port.Misconfigured("The repository does not show every branch that is to be read.")
        yield port.Page((*map(_place, chosen), *(one.place for one in odd)))
        yield port.Page((), last=True)

    async def _brought(
        self, places: Mapping[str, Any]
    ) -> tuple[clone.Listed, dict[str, str], list[str], tuple[port.Failure, ...]]:
        """(what the remote has, the branches that are read, names that are none, what cannot be read); the clone has
        all of it."""
        found: clone.Listed = await self._call(clone.listed, self._at)
        chosen, absent, odd = self._chosen(found)
        if places and not found.branches:
            raise port.Unreachable("The repository shows no branch any more; nothing is taken for deleted.")
        if not await asyncio.to_thread(self._clone.current, chosen):
            await self._call(self._clone.bring, self._at, chosen, found.default)
        return found, chosen, absent, odd

    def _chosen(self, found: clone.Listed) -> tuple[dict[str, str], list[str], tuple[port.Failure, ...]]:
        include, exclude = self._filter.include, self._filter.exclude
        if not include and found.branches and not found.default:
            raise port.Misconfigured(
                "The repository has no default branch.",
                field="spec.filter.include",
                remedy=f"Name branches, such as {sorted(found.branches)[0]}.",
            )
        taken = {
            name: sha
            for name, sha in found.branches.items()
            if (any(fnmatchcase(name, one) for one in include) if include else name == found.default)
            and not any(fnmatchcase(name, one) for one in exclude)
        }
        odd = [name for name in taken if not name.isprintable() or len(name) > _NAME_CHARS]
        failures = tuple(_odd(name) for name in odd)
        for name in odd:
            del taken[name]
        if len(taken) > MOST_BRANCHES:
            raise port.Misconfigured(
                f"{len(taken)} branches are chosen, at most {MOST_BRANCHES} are read.",
                field="spec.filter.include",
                remedy="Choose fewer.",
            )
        # A name may have a bracket, and stand for itself then.
        absent = (
            [one for one in include if one not in found.branches and not _GLOB.search(one)] if found.branches else []
        )
        return taken, absent, failures

    async def _branch(
        self, default: api.Repository, name: str, sha: str, places: dict[str, dict[str, Any]]
    ) -> AsyncGenerator[port.Batch]:
        while not _whole(state := places.get(name, {}), sha):
            base, target, done = state.get("at"), state.get("to"), int(state.get("n", 0))
            if target is None or not await asyncio.to_thread(self._clone.find, self._at, target):
                target, done = sha, 0
            failures: tuple[port.Failure, ...] = ()
            if base is not None and not await asyncio.to_thread(self._clone.find, self._at, base):
                failures, base = (_unknown(name, base),), None
            was = list(state.get("was", ()))
            if done == 0 and base is not None and not await asyncio.to_thread(self._grew, base, target):
                # First: after a kill the branch may have again what was removed.
                was.append(base)
                base = await asyncio.to_thread(history.common, self._clone.path, base, target)
                places[name] = {"at": base, "was": was}
                yield self._batch(places)
            if done == 0 and state.get("to") != target:
                # Before anything of it is sent: after a kill the branch may be where it was, and what was sent stays.
                places[name] = {"at": base, "to": target, "n": 0} | ({"was": was} if was else {})
                yield self._batch(places)
            places[name] = {"at": base, "to": target, "n": done}
            if done == 0:
                yield await self._begun(default, name, was, target, places, failures)
            since = self._filter.since
            shas = await asyncio.to_thread(history.between, self._clone.path, target, base, since)
            with history.Reader(self._clone.path) as reader:
                while done < len(shas):
                    some, contents, bad = await asyncio.to_thread(_read, reader, shas[done : done + BATCH])
                    done += len(some) + len(bad)
                    places[name] = {"at": base, "to": target, "n": done}
                    request = api.GitCommits(
                        scope=self._owner, repository=default, branch=name, commits=some, contents=contents
                    )
                    broken = tuple(
                        port.Failure(f"branch:{name}:{sha}", f"Commit {sha[:12]} of branch {name}"[:200], reason)
                        for sha, reason in bad.items()
                    )
                    # Only of what came since the branch is known: the links of a long past are thousands.
                    items = [one for commit in some for one in links(default, commit)] if base else []
                    yield self._batch(places, commits=(request,) if some else (), items=tuple(items), failures=broken)
            places[name] = {"at": target}
            yield self._batch(places)
        if places[name].get("code") != sha:
            # After the commits: those are facts of their own, and reading the files may take a while.
            places[name] = {"at": sha, "code": sha}
            yield self._batch(places, trees=(await self._tree(default, name, sha),))

    async def _tree(self, default: api.Repository, name: str, sha: str) -> port.Tree:
        """The source files of a branch at a commit."""
        files, skipped = await asyncio.to_thread(tree.files, self._clone.path, sha)
        by_path = {one.path: one for one in files}

        async def read(paths: Sequence[str]) -> Mapping[str, str]:
            wanted = [by_path[path] for path in paths if path in by_path]
            return await asyncio.to_thread(tree.contents, self._clone.path, wanted)

        request = code_api.GitStructure(
            scope=self._owner, repository=default, branch=name, commit=sha, files=files, skipped=skipped,
            **await self._host(),
        )  # fmt: skip
        return port.Tree(request, read)

    async def _host(self) -> dict[str, Any]:
        """Where the repository is, and whether what the knowledge base has of another host is of a former one: no
        other Connection of the owner reads a repository of that name there."""
        there = [one for one in await self._same() if _host(one.spec.url) != _host(self._url)]
        return {"host": _host(self._url), "moved": not there}

    def _grew(self, base: str, target: str) -> bool:
        return history.ancestor(self._clone.path, base, target)

    async def _begun(
        self,
        default: api.Repository,
        name: str,
        was: Sequence[str],
        target: str,
        places: Mapping[str, Any],
        failures: tuple[port.Failure, ...],
    ) -> port.Batch:
        """The overview of what the branch is now, and the commits that it had at `was` and has no more."""
        is_default = name == default.default_branch
        about = await asyncio.to_thread(overview.of, self._clone.path, target, default.path, name, default=is_default)
        item = port.Item(
            source_id=f"branch:{name}:overview",
            version=about.digest[:32],
            type=pendingtask.Type.GIT,
            urn=f"git::{default.path}@{name}:overview"[:1024],
            title=f"{default.path}, branch {name}"[:200],
            text=about.text,
            place=_place(name),
            recurs=True,  # a forced push to an older commit
        )
        left, unknown = await self._since(name, was, target)
        commits = self._leaving(default, name, left)
        return self._batch(places, items=(item,), failures=(*failures, *unknown), commits=commits)

    async def _since(
        self, name: str, was: Sequence[str], target: str | None
    ) -> tuple[list[str], tuple[port.Failure, ...]]:
        """The commits that the branch had at one of `was` and does not have at `target`."""
        left: dict[str, None] = {}
        failures: tuple[port.Failure, ...] = ()
        for sha in was:
            if await asyncio.to_thread(self._clone.find, self._at, sha):
                left |= dict.fromkeys(await self._left(name, sha, target))
            else:
                failures = (_unknown(name, sha),)
        return [*left], failures

    async def _removed(self, name: str, places: dict[str, dict[str, Any]]) -> AsyncGenerator[port.Batch]:
        """The branch is gone, or not chosen any more: so are its commits."""
        was = _taken(places[name])
        places[name] = {"was": was}
        yield self._batch(places)
        left, failures = await self._since(name, was, None)
        del places[name]
        commits = self._leaving(self._repository, name, left)
        # The structure of a branch is one, whichever Connection sent it: the last one that reads it takes it along.
        gone = code_api.GitStructure(
            scope=self._owner, repository=self._repository, branch=name, removed=True, **await self._host()
        )
        trees = () if await self._elsewhere(name, _host(self._url)) else (port.Tree(gone, _nothing),)
        yield self._batch(places, failures=failures, commits=commits, trees=trees)

    async def _left(self, name: str, old: str, new: str | None) -> list[str]:
        """The commits of `old` that the branch has no more, here or where another Connection reads it: the knowledge
        base has one document for all of them. What cannot be compared stays."""
        others = await self._elsewhere(name)
        for sha in others:
            if not await asyncio.to_thread(self._clone.find, self._at, sha):
                return []
        return await asyncio.to_thread(history.between, self._clone.path, old, new, None, others)

    async def _elsewhere(self, name: str, host: str = "") -> list[str]:
        """Where other Connections of the same owner and repository, on one host or on any, are on the branch."""
        found = []
        for one in await self._same():
            if one.cursor.get("of") == cursor_of(one.spec) and (not host or _host(one.spec.url) == host):
                at = one.cursor.get("branches", {}).get(name, {})
                # Behind `to` it has let go of already.
                found += [sha for sha in (at.get("to") or at.get("at"),) if sha]
        return found

    async def _same(self) -> list[assignments.Claim]:
        """The other Connections of the owner that read a repository of this name."""
        alike = await self._alike() if self._alike is not None else ()
        own, name = self._owner, _named(self._url)
        return [one for one in alike if repositories.owner(one.spec) == own and _named(one.spec.url) == name]

    def _leaving(self, default: api.Repository, name: str, left: Sequence[str]) -> tuple[api.GitCommits, ...]:
        some = (left[start : start + MOST_REMOVED] for start in range(0, len(left), MOST_REMOVED))
        return tuple(
            api.GitCommits(scope=self._owner, repository=default, branch=name, removed=list(one)) for one in some
        )

    def _batch(self, places: Mapping[str, Any], **what: Any) -> port.Batch:
        branches = {name: dict(at) for name, at in places.items()}
        return port.Batch({"of": self._of, "branches": branches}, _shown(places), **what)

    async def _call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        pause = self._bucket.reserve(self._monotonic())
        if pause:
            await self._sleep(pause)
        return await asyncio.to_thread(step, *arguments)


def _whole(state: Mapping[str, Any], sha: str) -> bool:
    """Whether all commits of a branch are taken."""
    return state.get("at") == sha and state.keys() <= {"at", "code"}


async def _nothing(paths: Sequence[str]) -> Mapping[str, str]:
    return {}


def _read(reader: history.Reader, shas: Sequence[str]) -> tuple[list[api.Commit], dict[str, str], dict[str, str]]:
    """The first of these commits, as many as go into one request, the contents of their source files, and those that
    cannot be read, with the reason."""
    commits: list[api.Commit] = []
    contents: dict[str, str] = {}
    bad: dict[str, str] = {}
    size = held = 0
    for sha in shas:
        try:
            commit = reader.read(sha)
            more = {blob: text for blob, text in reader.contents(commit).items() if blob not in contents}
        except (ValueError, LookupError) as error:
            bad[sha] = f"This commit cannot be read: {' '.join(str(error).split())[:300]}."
            continue
        size += history.size(commit)
        held += sum(len(json.dumps(text, ensure_ascii=False).encode()) for text in more.values())
        if commits and (size > BATCH_BYTES or held > CONTENT_BYTES):
            break
        commits.append(commit)
        contents |= more
    return commits, contents, bad


def links(where: api.Repository, commit: api.Commit) -> Iterable[port.Item]:
    """The links in a commit's message, each of which becomes a task of its own (seed 000 "Link Handling Flow")."""
    text = commit.message
    seen: set[str] = set()
    for match in _URL.finditer(text):
        url = match[0].rstrip(_AFTER).partition("#")[0]
        if url in seen or len(url) > _URL_CHARS or not _usable(url):
            continue
        if len(seen) >= MOST_LINKS:
            return
        seen.add(url)
        source = api.LinkSource(
            url=url,
            source_urn=where.source_urn(commit.hash),
            source_kind=api.GIT_COMMIT,
            subject=text.partition("\n")[0][:200],
            sender=commit.author.name,
            before=" ".join(text[: match.start()].split())[-_CONTEXT_CHARS:],
            after=" ".join(text[match.end() :].split())[:_CONTEXT_CHARS],
        )
        yield port.Item(
            source_id=f"link:{url}",
            version="",
            type=pendingtask.Type.LINK,
            urn=f"{api.LINK_URN}{url}",
            title=f"Link in {source.subject}"[:200],
            text=source.model_dump_json(by_alias=True, exclude_defaults=True, indent=2),
            observed_at=commit.date,
        )


def _usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _mapped(one: api.Repository, default: str) -> api.Repository:
    fits = default.isprintable() and len(default) <= _NAME_CHARS
    return one.model_copy(update={"default_branch": default if fits else ""})


def _named(url: str) -> str:
    """The same for all repositories whose commits have the same URNs."""
    return repositories.of(url).source_urn("").casefold()


def _host(url: str) -> str:
    """Without its port: a server has one for each protocol."""
    return (urlsplit(url).hostname or "").rstrip(".")[:255]


def cursor_of(spec: connection.Spec) -> str:
    """What a cursor is a place in."""
    since = spec.filter.since if spec.filter else None
    said = "\0".join((spec.url, since.isoformat() if since else ""))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _taken(state: Mapping[str, Any]) -> list[str]:
    """The commits up to which a branch was read, or is being read."""
    return [sha for sha in (state.get("at"), state.get("to"), *state.get("was", ())) if sha is not None]


def _place(branch: str) -> str:
    return f"branch/{branch}"


def _odd(name: str) -> port.Failure:
    shown = history.shown(name.encode(errors="surrogateescape"))[:_NAME_CHARS]
    return port.Failure(
        f"branch:{shown}", f"Branch {shown}"[:200], "The name is no UTF-8, or longer than 255.", _place(shown)
    )


def _unknown(name: str, sha: str) -> port.Failure:
    return port.Failure(
        f"branch:{name}:{sha}",
        f"Branch {name}"[:200],
        f"It was at {sha[:12]}, which the server does not give any more: commits that only it had stay.",
    )


def _shown(places: Mapping[str, Mapping[str, Any]]) -> str:
    def at(state: Mapping[str, Any]) -> str:
        return f"{state['n']} commits towards {state['to'][:12]}" if "to" in state else str(state.get("at", ""))[:12]

    return "; ".join(f"{name}: {at(state)}" for name, state in sorted(places.items()))


def opened(
    workspace: clone.Workspace,
    assigned: assignments.Assignments,
    *,
    plain: bool,
    authorities: str,
    seconds: float,
    monotonic: Callable[[], float],
    reached: hosts.Hosts = hosts.LOCAL,
) -> Callable[[assignments.Claim, Mapping[str, str], limits.Bucket], Repository]:
    """What opens the repository of a Connection. It raises `Misconfigured`."""

    def opens(claim: assignments.Claim, credentials: Mapping[str, str], bucket: limits.Bucket) -> Repository:
        at = command.remote(
            claim.spec.url, credentials, plain=plain, authorities=authorities, seconds=seconds, reached=reached
        )
        copy, alike = workspace.clone(claim.uid, claim.namespace), partial(assigned.alike, claim)
        return Repository(copy, at, claim.spec, bucket, monotonic=monotonic, alike=alike)

    return opens
