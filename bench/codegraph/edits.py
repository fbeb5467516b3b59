"""Random edits of branches, sent commit by commit, beside a rebuild: the rows of both graphs have to be the same.

Real are the structures of branches, their records in MongoDB, the resolution in its worker process and the SQLite
graph; vectors lie in memory, and nothing is asked of a model. One trial is one seed: branches come, are edited, forced
back and go, and some commits break off at a store that stops answering. At random moments and at the end the same trees
are sent to another, empty knowledge base. Its removal of what it had before has to leave nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import random
import sqlite3
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pymongo

from bench.codegraph import mutations
from codegraph import api
from codegraph.branch import analyst
from codegraph.extract import budget, pool, selection, worker
from codegraph.parse.facts import FileFacts, Skipped
from crds import errors, priority, scope
from hack.cluster import progress
from kb import metrics, mongo
from kb.code import book
from kb.ingest import structures
from kb.service.http import problems
from kb.vectors import model
from router import client as router_client
from tests.kb import clock, memory, world
from tests.kb.aliases import memory as aliases
from text import source_text

OWNER = scope.Scope(client_id="acme", project_id="shop")
REPOSITORY = api.Repository(org="acme", name="shop", default_branch="main")
_TABLES = ("documents", "chunks", "sentences", "nodes", "mentions", "evidence")
_EDGES = frozenset({"evidence"})
_MOST_BRANCHES = 3
_REQUESTS = 200
"""Of one tree, after which it does not come to an end."""
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
Rows = dict[str, set[tuple[Any, ...]]]


class Flat:
    """In the place of a model of embeddings: all texts are the same."""

    name = "flat"

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        return [[1.0, 0.0]] * len(texts)


class Trip:
    """Stores stop answering after so many calls; None: they do not."""

    def __init__(self) -> None:
        self.left: int | None = None

    def through(self, inner: Any) -> Any:
        """`inner`, whose calls are counted."""
        return _Through(inner, self)

    def count(self) -> None:
        """One call. Raises `crds.errors.Operational`."""
        if self.left is not None:
            if self.left <= 0:
                raise errors.Operational("the store has stopped")
            self.left -= 1


class _Through:
    def __init__(self, inner: Any, trip: Trip) -> None:
        self._inner, self._trip = inner, trip

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            self._trip.count()
            return await found(*args, **more)

        return call


@dataclass
class Branch:
    """A branch as it is sent: its tree, those that it had before, and the number of its commit."""

    tree: mutations.Tree
    former: list[mutations.Tree] = field(default_factory=list)
    commit: int = 0


@dataclass(frozen=True)
class Difference:
    """Rows that one of two graphs has and the other has not."""

    nodes: int
    edges: int
    examples: tuple[str, ...]


@dataclass
class Side:
    """A knowledge base of code: `graph` is the file of its graph."""

    works: structures.Structures
    database: mongo.Database
    known: book.Book
    graph: Path
    trip: Trip
    vectors: memory.Vectors

    async def send(self, name: str, branch: Branch | None) -> None:
        """A branch until it is known, or until it is gone. Raises what a store raises that stops."""
        asked: frozenset[str] = frozenset()
        for _ in range(_REQUESTS):
            request = sent(name, branch, asked) if branch is not None else gone(name)
            reply = await self.works.take(request, priority.Priority.P3, problems.code)
            asked = frozenset(reply.missing)
            if any(not one.retryable for one in reply.failed):
                raise AssertionError(f"not stored: {reply.failed[0]}")
            if reply.state == "Done":
                return
            if reply.failed:
                raise errors.Operational(reply.failed[0].problem.message)
        raise AssertionError(f"{name} is not known after {_REQUESTS} requests")

    def rows(self) -> Rows:
        """Everything in the graph."""
        with contextlib.closing(sqlite3.connect(self.graph)) as connection:
            return {table: set(connection.execute(f"SELECT * FROM {table}")) for table in _TABLES}

    async def litter(self) -> int:
        """Facts that are stored and that no branch needs, and those that are missing."""
        needed: set[str] = set()
        for owner, one in await self.known.visible(OWNER):
            whole = await self.known.branch(owner, one.repository, one.name)
            needed |= whole.facts(owner) if whole is not None else set()
        stored = {row["_id"] async for row in self.database[book.FACTS].find({}, {"_id": 1})}
        return len(needed ^ stored)


def sent(name: str, branch: Branch, contents: frozenset[str] = frozenset()) -> api.GitStructure:
    """The tree of a branch, with some contents."""
    rows = []
    for path, file in branch.tree.items():
        raw = file.text.encode()
        blob = hashlib.sha1(raw).hexdigest()
        # The time of a content, as if each had been committed once.
        modified = _BEGINNING + timedelta(seconds=int(blob[:6], 16))
        text = source_text.decode(raw) if path in contents else None
        rows.append(api.SourceFile(path=path, blob=blob, size=len(raw), modified=modified, content=text))
    return api.GitStructure(
        scope=OWNER, repository=REPOSITORY, branch=name, commit=f"{branch.commit:040x}", files=rows, host="git.acme.org"
    )


def gone(name: str) -> api.GitStructure:
    """A branch that is no more."""
    return api.GitStructure(scope=OWNER, repository=REPOSITORY, branch=name, removed=True)


async def extract(sources: dict[str, bytes], bounds: budget.Budget, *, calls: bool, pack: pool.Pack) -> pool.Extraction:
    """What `codegraph.extract.pool.extract` gives, read in this process: starting workers costs more than reading."""
    kept, skipped = selection.given(sources, bounds)
    batch = worker.Batch((), calls, bounds.generated, bounds.file_bytes)
    found = [worker.read(one, batch) for one in kept]
    packed = tuple((one.path, pack(one)) for one in found if isinstance(one, FileFacts))
    return pool.Extraction((), (*skipped, *(one for one in found if isinstance(one, Skipped))), packed)


@contextlib.asynccontextmanager
async def side(uri: str, analysts: analyst.Analyst) -> AsyncIterator[Side]:
    """An empty knowledge base, with a folder and a database of its own."""
    name = f"bench_edits_{uuid.uuid4().hex[:12]}"
    database = mongo.Database(uri, name)
    trip, vectors, now = Trip(), memory.Vectors(), clock.Clock()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(_drop, uri, name)
        stack.push_async_callback(database.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edits-")))
        nothing = router_client.Client("http://127.0.0.1:9", await stack.enter_async_context(httpx.AsyncClient()))
        meters = metrics.Metrics(prometheus_client.CollectorRegistry())
        stores = (vectors, memory.Content(), aliases.Registry(now))
        opened = world.opened(folder, nothing, now, meters, *stores, documents=Flat(), watched=trip.through, versions=0)
        kb = await stack.enter_async_context(opened)
        known = book.Book(database, now)
        works = kb.pipeline.structures(trip.through(known), analysts, budget.Budget(), extract)
        yield Side(works, database, known, folder / "graph.sqlite", trip, vectors)


def _drop(uri: str, name: str) -> None:
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        client.drop_database(name)


def compared(ours: Rows, theirs: Rows) -> Difference:
    """What differs; a row of a node's table counts as a node."""
    differing = {table: ours[table] ^ theirs[table] for table in _TABLES}
    examples = [f"{table}: {row!r:.300}" for table, rows in differing.items() for row in sorted(rows, key=repr)[:3]]
    edges = sum(len(rows) for table, rows in differing.items() if table in _EDGES)
    return Difference(sum(map(len, differing.values())) - edges, edges, tuple(examples[:12]))


@dataclass
class Tally:
    """What was done, and what came of it."""

    edits: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    broken_off: int = 0
    comparisons: int = 0
    rows: int = 0
    nodes: int = 0
    edges: int = 0
    litter: int = 0


class Trial:
    """One seed. `kills` is the chance that a commit breaks off, `compares` that of a comparison after a commit."""

    def __init__(self, ours: Side, theirs: Side, seed: int, tally: Tally, *, kills: float, compares: float) -> None:
        self._ours, self._theirs, self._tally = ours, theirs, tally
        self._chance = random.Random(seed)
        self._kills, self._compares = kills, compares
        self._branches = {"main": Branch(mutations.tree(self._chance))}
        self._rebuilt: set[str] = set()

    async def run(self, edits: int) -> Difference | None:
        """The first difference within so many edits; what is known of the branches is gone afterwards."""
        await self._ours.send("main", self._branches["main"])
        done = 0
        while done < edits:
            name, count = self._step(edits - done)
            done += count
            await self._sent(name)
            if done >= edits or self._chance.random() < self._compares:
                found = await self._compare()
                if found is not None:
                    return found
        return await self._cleared()

    def _step(self, most: int) -> tuple[str, int]:
        """The branch that changed, and how many edits that were."""
        chance, branches = self._chance, self._branches
        name = chance.choice(sorted(branches))
        what = chance.random()
        if what < 0.05 and len(branches) < _MOST_BRANCHES:
            source, name = branches[name], f"next/{len(branches)}"
            branches[name] = Branch(dict(source.tree), [*source.former], source.commit)
            return name, self._count("branch")
        if what < 0.1 and len(branches) > 1:
            del branches[name]
            return name, self._count("branch deleted")
        branch = branches[name]
        before = dict(branch.tree)
        count = min(most, chance.choice((1, 1, 2, 5, 9)))
        for _ in range(count):
            kind, branch.tree = mutations.edited(branch.tree, branch.former, chance)
            self._count(kind)
        branch.former = [*branch.former[-9:], before]
        branch.commit += 1
        return name, count

    def _count(self, kind: str) -> int:
        self._tally.edits[kind] += 1
        return 1

    async def _sent(self, name: str) -> None:
        self._tally.commits += 1
        branch = self._branches.get(name)
        if self._chance.random() < self._kills:
            self._ours.trip.left = self._chance.randrange(60)
            try:
                await self._ours.send(name, branch)
            except errors.Operational:
                self._tally.broken_off += 1
            self._ours.trip.left = None
            if self._chance.random() < 0.5 and branch is not None:
                # Another commit comes before it is sent again.
                _, branch.tree = mutations.edited(branch.tree, branch.former, self._chance)
                branch.commit += 1
        await self._ours.send(name, branch)

    async def _compare(self) -> Difference | None:
        for name in self._rebuilt - self._branches.keys():
            await self._theirs.send(name, None)
        for name in self._rebuilt & self._branches.keys():
            await self._theirs.send(name, None)
        left = sum(map(len, self._theirs.rows().values()))
        for name, branch in self._branches.items():
            await self._theirs.send(name, branch)
        self._rebuilt = set(self._branches)
        ours, theirs = self._ours.rows(), self._theirs.rows()
        found = compared(ours, theirs)
        same = await self._ours.vectors.counts(OWNER) == await self._theirs.vectors.counts(OWNER)
        tally = self._tally
        litter = await self._ours.litter() + left + (not same)
        tally.comparisons += 1
        tally.rows += sum(map(len, ours.values()))
        tally.nodes, tally.edges, tally.litter = (
            tally.nodes + found.nodes,
            tally.edges + found.edges,
            tally.litter + litter,
        )
        if litter:
            found = dataclasses.replace(found, examples=(*found.examples, f"{litter} facts or rows are left over"))
        return found if found.examples else None

    async def _cleared(self) -> Difference | None:
        for name in [*self._branches]:
            await self._ours.send(name, None)
            await self._theirs.send(name, None)
        left = [one for one in (self._ours, self._theirs) if any(one.rows().values()) or await one.litter()]
        return Difference(0, 0, ("rows are left of branches that are gone",)) if left else None


async def trials(
    uri: str,
    seeds: Sequence[int],
    edits: int,
    *,
    kills: float = 0.1,
    compares: float = 0.1,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Tally, Mapping[int, Difference]]:
    """So many edits for each seed; what was done, and the first difference of each seed that has one."""
    tally, failed = Tally(), dict[int, Difference]()
    analysts = analyst.Analyst()
    remaining = [*seeds]
    try:
        while remaining:
            async with side(uri, analysts) as ours, side(uri, analysts) as theirs:
                while remaining:
                    seed = remaining.pop(0)
                    found = await Trial(ours, theirs, seed, tally, kills=kills, compares=compares).run(edits)
                    say(f"seed {seed}: {tally.edits.total()} edits, {tally.comparisons} comparisons")
                    if found is not None:
                        # What is left of it would be found again by every trial after it.
                        failed[seed] = found
                        say(f"seed {seed} differs: {found}")
                        break
    finally:
        analysts.close()
    return tally, failed


def measure(uri: str, edits: int, each: int, seed: int, *, kills: float, compares: float) -> dict[str, Any]:
    """`edits` in all, `each` of one seed, from `seed` on."""
    report, begun = progress.Progress(), time.monotonic()
    seeds = range(seed, seed + -(-edits // each))
    tally, failed = asyncio.run(trials(uri, seeds, min(each, edits), kills=kills, compares=compares, say=report.say))
    return {
        "edits": tally.edits.total(),
        "kinds": dict(sorted(tally.edits.items())),
        "commits": tally.commits,
        "broken_off": tally.broken_off,
        "comparisons": tally.comparisons,
        "rows_compared": tally.rows,
        "differing_nodes": tally.nodes,
        "differing_edges": tally.edges,
        "left_over": tally.litter,
        "failed_seeds": {str(one): list(found.examples) for one, found in failed.items()},
        "seconds": round(time.monotonic() - begun, 1),
        "missed": bool(failed),
    }
