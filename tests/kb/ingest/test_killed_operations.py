"""kill -9 before each call of what else changes the stores: the next process ends where an undisturbed one would.

Nothing is asked for again: an operation counts from the call that records it, and before that nothing was promised.
`make test` kills before each ninth call, `make test-thorough` before each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crds.priority import Priority
from kb import api, mongo
from kb.ingest import mongo as ledgers
from kb.queue import mongo as queues
from router import client as router_client
from tests import ports, thorough
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import conftest, memory, scopes, world
from tests.kb.ingest import victim

MAIL = world.request().source_urn
FILE = api.attachment_urn(MAIL, "note.txt")
NEIGHBOUR = scopes.make("acme", "bulk", "wholesale")
NEW = "Zdenek Veverka wrote Newthing.java for Initech."
REFUSED: Mapping[str, Any] = {"match": {"path": "/api/embed"}, "status": {"code": 400, "message": "input too long"}}
Prepare = Callable[[world.ObservedState], Awaitable[None]]
Orders = Sequence[Sequence[Prepare]]


async def broken_off(kb: world.ObservedState, document: Awaitable[object]) -> None:
    """Its request stays open."""
    await world.broken_off(kb, document)
    await kb.vectors.ready()


async def queued(kb: world.ObservedState) -> None:
    """A document of two passages waits for the models."""
    await kb.pipeline.index(world.request(world.LONG[:1000]), Priority.P2)


async def named(kb: world.ObservedState) -> None:
    """A document says two names of one person."""
    text = "user:john|OWNS|file:Service.kt\nuser:john.doe@example.com|REVIEWED|file:Service.kt"
    await kb.ingest(world.request(text))


async def stored(kb: world.ObservedState) -> None:
    """A project's documents, one of which waits, with a version that was replaced, and contents.

    Beside them an open request, and a job that is not indexed.
    """
    await kb.ingest(world.request("JERV-1 is assigned to Jana Novak.", urn="note:1"))
    await kb.ingest(world.request("JERV-1 is done.", urn="note:1"))
    await kb.pipeline.index(world.request(), Priority.P3)
    await kb.content.save(scopes.SHOP, b"a file", "text/plain")
    await victim.reconciler(kb).step(timedelta(days=7))
    await broken_off(kb, kb.ingest(world.request("Jana Novak opened JERV-2.", urn="note:2")))
    await broken_off(kb, kb.pipeline.index(world.request("Petr Svoboda closed JERV-3.", urn="note:3"), Priority.P3))


async def attached(kb: world.ObservedState) -> None:
    """A mail with a file; a newer version of the mail broke off. Another document stays."""
    await kb.ingest(world.request(urn="note:2"))
    await kb.ingest(world.request(attachments=["note.txt"]))
    await kb.ingest(world.request("The importer is slow.", urn=FILE, kind=api.ATTACHMENT))
    await broken_off(kb, kb.ingest(world.request("Jana Novak fixed JERV-123.")))


async def waiting(kb: world.ObservedState) -> None:
    """A mail with a file, and its newer version, that waits for the models."""
    await kb.ingest(world.request(urn="note:2"))
    await kb.ingest(world.request("The importer is slow.", urn=FILE, kind=api.ATTACHMENT))
    await kb.pipeline.index(world.request(world.LONG[:300], attachments=["note.txt"]), Priority.P2)


async def extracting(kb: world.ObservedState) -> None:
    """A mail waits for the models; its next version, NEW, will be refused by one."""
    await kb.pipeline.index(world.request(), Priority.P2)


async def recover(kb: world.ObservedState) -> None:
    await kb.recovery.sweep(before=clocks.Clock()() + timedelta(seconds=1))


async def work(kb: world.ObservedState) -> None:
    await kb.workers.step()


async def resume(kb: world.ObservedState) -> None:
    await kb.merger.resume()


async def repair(kb: world.ObservedState) -> None:
    """By what was changed alone: everything was compared before."""
    await victim.reconciler(kb).step(timedelta(days=7))


async def move(kb: world.ObservedState) -> None:
    """As the caller does that had no answer."""
    await victim.reconciler(kb).regroup(victim.MOVED)


_OF_LEDGER = (ledgers.INTENTS, ledgers.ANSWERS, ledgers.CHANGES, ledgers.PASSES)
_SHARED = (*_OF_LEDGER, queues.COLLECTION, queues.CLIENTS, queues.COUNTERS)
_CHANGING = frozenset(
    [
        "open",
        "finish",
        "fail",
        "interrupt",
        "forget",
        "put",
        "mark_indexed",
        "drop",
        "next",
        "postpone",
        "regroup",
        "note",
    ]
)
# The loops of a process that begin as soon as it has started, in an order that may be any; and the others.
STARTED = (recover, victim.worked, resume)
LATER = (victim.worked, recover, victim.worked)


async def everything(kb: world.ObservedState, folder: Path) -> dict[str, object]:
    """All that the stores hold, in an order that does not depend on how it came about."""
    graph, _ = await kb.graph.audit("acme")
    chunks, _ = await kb.vectors.audit("acme")
    lines, _ = await kb.vectors.audit_sentences("acme")
    content = memory.Kept(folder / "content", memory.Content())
    viewers = (scopes.SHOP, scopes.TILL, NEIGHBOUR)
    texts = [await kb.vectors.chunks(viewer, [row.chunk_id for row in chunks], history=True) for viewer in viewers]
    return {
        "texts": texts,
        "graph": sorted(graph, key=lambda row: row.chunk_id),
        "chunks": sorted(chunks, key=lambda row: row.chunk_id),
        "sentences": sorted(lines, key=lambda row: row.sentence_id),
        "edges": [await kb.graph.edges(viewer) for viewer in viewers],
        "jobs": await kb.queue.depth(),
        "intents": await kb.ledger.count(),
        "failed": [(one.source_urn, one.reason) for one in await kb.ledger.failed(scopes.SHOP, limit=100)],
        "contents": sorted((str(owner), body) for owner, body in content._kept.values()),
        "aliases": [(one.alias, one.canonical, one.state) for one in await kb.aliases.listed(scopes.SHOP)],
    }


@dataclass(frozen=True)
class Records:
    """Where the ledger and the queue of a test's processes lie: in their files, or in this database."""

    database: mongo.Database | None = None
    place: Mapping[str, Any] = field(default_factory=dict)

    async def rows(self) -> dict[str, list[Any]]:
        """Everything that is in the database, by collection."""
        return {name: [row async for row in self.database[name].find()] for name in _SHARED if self.database}

    async def restore(self, rows: Mapping[str, list[Any]]) -> None:
        """Let the database hold `rows` and nothing else."""
        for name, kept in rows.items():
            assert self.database is not None
            await self.database[name].delete_many({})
            if kept:
                await self.database[name].insert_many(kept)

    def points(self, calls: Sequence[str], first: int) -> list[int]:
        """Before which calls a process is killed: all; in a database those that come after one that changes it."""
        numbers = range(first, len(calls) + 1)
        return thorough.part(
            [one for one in numbers if self.database is None or one == first or calls[one - 2] in _CHANGING],
            thorough.KILLS,
        )


@pytest.fixture(params=["files", pytest.param("mongodb", marks=pytest.mark.services)])
def records(request: pytest.FixtureRequest) -> Records:
    if request.param == "files":
        return Records()
    database: mongo.Database = request.getfixturevalue("database")
    place = {"mongodb": conftest.required("JERVIS_TEST_MONGODB_URI"), "records": database.name}
    return Records(database, place)


async def succeeded(
    folder: Path, router: router_client.Client, fake: process.Fake, started: Sequence[Prepare], records: Records
) -> dict[str, object]:
    """What there is when the next process has nothing more to do."""
    async with victim.opened(folder, router, database=records.database) as kb:
        for loop in started:
            await loop(kb)
        fake.set_faults([])
        for loop in LATER:
            await loop(kb)
        return await everything(kb, folder)


Differences = Callable[..., Awaitable[list[tuple[str, str, str]]]]


@pytest.fixture
def differences(tmp_path: Path, router: router_client.Client, fake: process.Fake, records: Records) -> Differences:
    """What differs from the state after a life without a kill: before which call, who began, and in what.

    `promise` names calls up to the one that records the operation, "" for one that is recorded already.
    """

    async def compare(
        prepare: Prepare,
        operation: str,
        text: str,
        promise: str,
        orders: Orders,
        faults: Sequence[Mapping[str, Any]] = (),
    ) -> list[tuple[str, str, str]]:
        (before := tmp_path / "before").mkdir()
        async with victim.opened(before, router, database=records.database) as kb:
            await prepare(kb)
        rows = await records.rows()

        async def ended(
            folder: Path, started: Sequence[Prepare], deadly: int = 0
        ) -> tuple[list[str], dict[str, object]]:
            shutil.copytree(before, folder)
            await records.restore(rows)
            fake.set_faults(faults)
            begun = fake.count(tag="kb.extract/v1")
            calls = victim.run({"ollama": fake.url, **records.place}, folder, operation, text, deadly)
            state = await succeeded(folder, router, fake, started, records)
            asked = [json.dumps(request["body"]) for request in fake.requests(tag="kb.extract/v1")[begun:]]
            # Read again is at most the one passage whose answer was not kept yet.
            assert len(asked) - len(set(asked)) <= (1 if deadly else 0)
            return calls, state

        calls, expected = await ended(tmp_path / "whole", ())
        promised = 0
        for name in promise.split():
            promised = calls.index(name, promised) + 1
        wrong = []
        for deadly in records.points(calls, promised + 1):
            # In turns: what matters to the order holds before several calls.
            started = orders[deadly % len(orders)]
            _, state = await ended(tmp_path / f"{deadly}", started, deadly)
            wrong += [(calls[deadly - 1], started[0].__name__, key) for key in state if state[key] != expected[key]]
        return wrong

    return compare


@pytest.mark.parametrize(
    ("prepare", "operation", "text", "promise", "orders"),
    [
        pytest.param(queued, "ingest", world.MAIL, "open", [STARTED], id="ingest"),
        pytest.param(queued, "ingest", world.LONG[:1500], "open", [STARTED], id="ingest that shares a passage"),
        pytest.param(queued, "perform", "", "", [STARTED], id="perform"),
        pytest.param(named, "reweave", "user:john=user:john.doe@example.com", "put", [STARTED], id="reweave"),
        # The first of that name moves what waits; then the graph's documents are listed, and moved.
        pytest.param(stored, "regroup", "", "listed regroup", [(*STARTED, repair)], id="regroup"),
        pytest.param(
            stored, "regroup", "", "", [(*STARTED, move), (move, *STARTED)], id="regroup that is asked for again"
        ),
    ],
)
async def test_what_is_recorded_is_done_by_the_next_process(
    differences: Differences, prepare: Prepare, operation: str, text: str, promise: str, orders: Orders
) -> None:
    assert await differences(prepare, operation, text, promise, orders) == []


@pytest.mark.parametrize(("prepare", "orders"), [(attached, [STARTED]), (waiting, [STARTED, STARTED[::-1]])])
async def test_what_began_to_be_deleted_does_not_return(
    differences: Differences, prepare: Prepare, orders: Orders
) -> None:
    assert await differences(prepare, "forget", MAIL, "open", orders) == []


async def test_a_page_that_is_gone_goes_as_a_whole(differences: Differences) -> None:
    url = f"http://docs.test:{ports.free()}/"

    async def crawled(kb: world.ObservedState) -> None:
        await kb.ingest(world.request(urn="note:2"))
        await kb.pipeline.index(world.request(urn=url, kind="web"), Priority.P3)

    assert await differences(crawled, "crawl", url, "open", [STARTED, STARTED[::-1]]) == []


@pytest.mark.parametrize(
    ("operation", "orders"), [("ingest", [(recover,), (work, recover)]), ("index", [(work, recover)])]
)
async def test_a_version_that_fails_takes_nothing_from_the_one_before(
    differences: Differences, operation: str, orders: Orders
) -> None:
    """The models have still to read the one before; its job does not go with the process that had taken it out."""
    assert await differences(extracting, operation, NEW, "open", orders, [REFUSED]) == []
