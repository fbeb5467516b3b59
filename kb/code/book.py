"""What is known of branches in MongoDB: collection `kb_code_branches`, and the facts of their files in `kb_code_facts`.

The facts of a file are stored once for its path and blob, so that only what changed is sent and parsed; those that no
branch of the scope has any more go with `prune`. Both collections belong to the owner's scope and go with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import zstandard

from crds import scope
from kb import identity, mongo, visibility

BRANCHES, FACTS = "kb_code_branches", "kb_code_facts"
CPG = "cpg-1"
"""In the place of the extractor for what Joern says about a branch."""
_BATCH = 500
_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree: its path, Git's id of its content, and the digest of its document as it was written, or ''.

    `coming` is the id of its content in the tree that is being written, '' where there is none.
    """

    path: str
    blob: str
    written: str = ""
    coming: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as it is known. `commit` is what its structure is that of, '' while the first one is being written."""

    repository: str
    name: str
    commit: str = ""
    extractor: str = ""
    observed_at: datetime | None = None
    updated_at: datetime | None = None
    files: tuple[Entry, ...] = ()
    skipped: tuple[tuple[str, str, str], ...] = field(default=())
    figures: Mapping[str, int] = field(default_factory=dict)
    access: tuple[str, ...] = ()
    """As `kb.visibility.stored` gives it."""
    wanted: str = ""
    """The commit whose structure is being written; the same as `commit` once that is done."""
    default: bool = False
    coming: str = ""
    """The extractor of the tree that is being written, '' for none; until it is, answers are those of `commit`."""
    litter: tuple[str, ...] = ()
    """Ids of facts that it had before and has no more: they may still be stored."""
    host: str = ""
    """Where its repository is read from, "" where that was not said."""
    cpg: str = ""
    """The digest of Joern's export, which is stored among the facts; "" without one. `analysed` is its commit."""
    analysed: str = ""
    tree: str = ""
    """The request (JSON, without contents) whose structure this is, to write the branch anew without its caller."""

    @property
    def cpg_file(self) -> tuple[str, str]:
        """As what (path, blob) the export is stored, with the extractor `CPG`."""
        return f"{self.repository}@{self.name}", self.cpg

    def facts(self, owner: scope.Scope) -> set[str]:
        """The ids of the facts that it needs, of both trees."""
        now = {facts_id(owner, self.extractor, one.path, one.blob) for one in self.files if one.blob}
        now |= {facts_id(owner, CPG, *self.cpg_file)} if self.cpg else set()
        return now | {facts_id(owner, self.coming, one.path, one.coming) for one in self.files if one.coming}


class Book:
    """Raises `kb.errors.Away`. `clock` gives the time in UTC."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._branches, self._facts = database[BRANCHES], database[FACTS]
        self._clock = clock
        self._indexed = False

    async def branch(self, owner: scope.Scope, repository: str, name: str) -> Branch | None:
        """What is known of a branch of exactly this owner."""
        with mongo.translated():
            row = await self._branches.find_one({"_id": _branch_id(owner, repository, name)})
        return None if row is None else _branch(row)

    async def visible(
        self, viewer: scope.Scope, repository: str = "", name: str = ""
    ) -> list[tuple[scope.Scope, Branch]]:
        """The branches that a viewer sees with their owners, without their files."""
        query = {**mongo.visible(viewer), **({"repository": repository} if repository else {})}
        query |= {"branch": name} if name else {}
        with mongo.translated():
            cursor = self._branches.find(query, {"tree": 0}).sort([("repository", 1), ("branch", 1), ("_id", 1)])
            found = [(mongo.owner(row), _branch(row)) async for row in cursor]
        return [(owner, one) for owner, one in found if shows(viewer, one)]

    async def states(self) -> list[tuple[str, str, str, datetime]]:
        """(commit, wanted, extractor, time of the last record) of every branch of all owners."""
        fields = ("commit", "wanted", "extractor", "updatedAt")
        with mongo.translated():
            cursor = self._branches.find({}, dict.fromkeys(fields, 1))
            return [tuple(row[name] for name in fields) async for row in cursor]

    async def record(self, owner: scope.Scope, branch: Branch) -> None:
        """Write what is known of a branch."""
        await self._index()
        files = [[one.path, one.blob, one.written, one.coming] for one in branch.files]
        tree = {"files": files, "skipped": branch.skipped, "litter": branch.litter, "sent": branch.tree}
        row = {
            **mongo.names(owner),
            "repository": branch.repository,
            "branch": branch.name,
            "commit": branch.commit,
            "extractor": branch.extractor,
            "observedAt": branch.observed_at,
            "updatedAt": self._clock(),
            "figures": dict(branch.figures),
            "access": list(branch.access),
            "wanted": branch.wanted,
            "default": branch.default,
            "coming": branch.coming,
            "host": branch.host,
            "cpg": branch.cpg,
            "analysed": branch.analysed,
            "tree": _packed(json.dumps(tree, separators=(",", ":")).encode()),
        }
        with mongo.translated():
            where = {"_id": _branch_id(owner, branch.repository, branch.name)}
            await self._branches.replace_one(where, row, upsert=True)

    async def forget(self, owner: scope.Scope, repository: str, name: str) -> None:
        """Nothing is known of the branch any more."""
        with mongo.translated():
            await self._branches.delete_one({"_id": _branch_id(owner, repository, name)})

    async def known(self, owner: scope.Scope, extractor: str, files: Iterable[tuple[str, str]]) -> set[str]:
        """The ids of those files (path, blob) whose facts are stored."""
        wanted = [facts_id(owner, extractor, path, blob) for path, blob in files]
        found: set[str] = set()
        with mongo.translated():
            for start in range(0, len(wanted), _BATCH):
                query = {"_id": {"$in": wanted[start : start + _BATCH]}}
                found |= {row["_id"] async for row in self._facts.find(query, {"_id": 1})}
        return found

    async def save(self, owner: scope.Scope, extractor: str, facts: Sequence[tuple[str, str, bytes]]) -> None:
        """Store facts (path, blob, packed). What is stored already stays."""
        await self._index()
        now = self._clock()
        with mongo.translated():
            for start in range(0, len(facts), _BATCH):
                part, writes = facts[start : start + _BATCH], []
                # In a thread: of hundreds of files it takes longer than an event loop may stand still.
                small = await asyncio.to_thread(lambda all_: [_packed(body) for _, _, body in all_], part)
                for (path, blob, _), body in zip(part, small, strict=True):
                    own = facts_id(owner, extractor, path, blob)
                    row = {**mongo.names(owner), "path": path, "blob": blob, "facts": body, "savedAt": now}
                    writes.append(mongo.Replace({"_id": own}, row, upsert=True))
                if writes:
                    await self._facts.bulk_write(writes, ordered=False)

    async def load(self, owner: scope.Scope, extractor: str, files: Sequence[tuple[str, str]]) -> list[bytes]:
        """The stored facts of files in their order, without those that are not stored."""
        wanted = [facts_id(owner, extractor, path, blob) for path, blob in files]
        found: dict[str, bytes] = {}
        with mongo.translated():
            for start in range(0, len(wanted), _BATCH):
                query = {"_id": {"$in": wanted[start : start + _BATCH]}}
                async for row in self._facts.find(query, {"facts": 1}):
                    found[row["_id"]] = _unpacked(row["facts"])
        return [found[one] for one in wanted if one in found]

    async def drop(self, owner: scope.Scope, extractor: str, files: Sequence[tuple[str, str]]) -> None:
        """Delete the facts of files: branches that need them are read anew."""
        unwanted = [facts_id(owner, extractor, path, blob) for path, blob in files]
        with mongo.translated():
            for start in range(0, len(unwanted), _BATCH):
                await self._facts.delete_many({"_id": {"$in": unwanted[start : start + _BATCH]}})

    async def regroup(self, owner: scope.Scope) -> list[str]:
        """Let what is known of the project's branches belong to the owner's group; the ids of what changed."""
        moved = await mongo.regroup(self._branches, owner, {})
        await mongo.regroup(self._facts, owner, {})
        return moved

    async def _index(self) -> None:
        """An erasure, a move to a group and `prune` look for what a scope owns."""
        if not self._indexed:
            with mongo.translated():
                for rows in (self._branches, self._facts):
                    await rows.create_index([("clientId", 1), ("projectId", 1), ("groupId", 1)])
            self._indexed = True

    async def prune(self, owner: scope.Scope, litter: Collection[str]) -> None:
        """Delete those of these facts, by id, that no branch of the owner needs."""
        if not litter:
            return
        left = set(litter)
        # As the ids have it: branches of a project may have come before it was moved to its group.
        query = {"clientId": owner.client_id, "projectId": owner.project_id}
        query |= {} if owner.project_id else {"groupId": owner.group_id}
        with mongo.translated():
            async for row in self._branches.find(query):
                left -= _branch(row).facts(owner)
            ids = sorted(left)
            for start in range(0, len(ids), _BATCH):
                await self._facts.delete_many({"_id": {"$in": ids[start : start + _BATCH]}})


def facts_id(owner: scope.Scope, extractor: str, path: str, blob: str) -> str:
    """The id of the facts of a file."""
    return _id(identity.owner(owner), extractor, path, blob)


def shows(viewer: scope.Scope, branch: Branch) -> bool:
    """Whether the viewer's principals may see the branch."""
    return visibility.shows(viewer, tuple(f"{visibility.ACCESS}={one}" for one in branch.access))


def _branch_id(owner: scope.Scope, repository: str, name: str) -> str:
    return _id(identity.owner(owner), repository, name)


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _branch(row: Mapping[str, Any]) -> Branch:
    tree = json.loads(_unpacked(row["tree"])) if "tree" in row else {"files": (), "skipped": ()}
    return Branch(
        row["repository"],
        row["branch"],
        row["commit"],
        row["extractor"],
        row["observedAt"],
        row["updatedAt"],
        tuple(Entry(*one) for one in tree["files"]),
        tuple((one[0], one[1], one[2]) for one in tree["skipped"]),
        row["figures"],
        tuple(row["access"]),
        row["wanted"],
        row["default"],
        row["coming"],
        tuple(tree.get("litter", ())),
        row["host"],
        row["cpg"],
        row["analysed"],
        str(tree.get("sent") or ""),
    )


def _packed(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL).compress(body)


def _unpacked(body: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(body)
