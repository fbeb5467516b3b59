"""kill -9 before each call of what else changes the stores: the next process ends where an undisturbed one would.

Nothing is asked for again: an operation counts from the call that records it, and before that nothing was promised.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crds.priority import Priority
from kb import api, errors
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.ingest import victim

MAIL = world.request().source_urn
FILE = api.attachment_urn(MAIL, "note.txt")
NEIGHBOUR = scopes.make("acme", "bulk", "wholesale")
NEW = "Zdenek Veverka wrote Newthing.java for Initech."
REFUSED: Mapping[str, Any] = {"match": {"path": "/api/embed"}, "status": {"code": 400, "message": "input too long"}}
Prepare = Callable[[world.ObservedState], Awaitable[None]]


async def queued(kb: world.ObservedState) -> None:
    """A document of two passages waits for the models."""
    await kb.pipeline.index(world.request(world.LONG[:1000]), Priority.P2)


async def named(kb: world.ObservedState) -> None:
    """A document says two names of one person."""
    text = "user:john|OWNS|file:Service.kt\nuser:john.doe@example.com|REVIEWED|file:Service.kt"
    await kb.ingest(world.request(text))


async def stored(kb: world.ObservedState) -> None:
    """A project's documents, one of which waits, with a version that was replaced, and contents."""
    await kb.ingest(world.request("JERV-1 is assigned to Jana Novak.", urn="note:1"))
    await kb.ingest(world.request("JERV-1 is done.", urn="note:1"))
    await kb.pipeline.index(world.request(), Priority.P3)
    await kb.content.save(scopes.SHOP, b"a file", "text/plain")
    await victim.reconciler(kb).step(timedelta(days=7))


async def attached(kb: world.ObservedState) -> None:
    """A mail with a file; a newer version of the mail broke off. Another document stays."""
    await kb.ingest(world.request(urn="note:2"))
    await kb.ingest(world.request(attachments=["note.txt"]))
    await kb.ingest(world.request("The importer is slow.", urn=FILE, kind=api.ATTACHMENT))
    kb.vectors.switch.away = True  # type: ignore[attr-defined]  # the one in memory
    with pytest.raises(errors.Away):
        await kb.ingest(world.request("Jana Novak fixed JERV-123."))
    kb.vectors.switch.away = False  # type: ignore[attr-defined]
    await kb.vectors.ready()


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
    return {
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


async def succeeded(
    folder: Path, router: router_client.Client, fake: process.Fake, started: Sequence[Prepare]
) -> dict[str, object]:
    """What there is when the next process has nothing more to do."""
    async with victim.opened(folder, router) as kb:
        for loop in started:
            await loop(kb)
        fake.set_faults([])
        for loop in LATER:
            await loop(kb)
        return await everything(kb, folder)


async def differences(
    tmp_path: Path,
    router: router_client.Client,
    fake: process.Fake,
    prepare: Prepare,
    operation: str,
    text: str,
    promise: str,
    orders: Sequence[Sequence[Prepare]],
    faults: Sequence[Mapping[str, Any]] = (),
) -> list[tuple[str, str, str]]:
    """What differs from the state after a life without a kill: before which call, who began, and in what.

    `promise` is the name of the call that records the operation, "" for one that is recorded already.
    """
    (before := tmp_path / "before").mkdir()
    async with victim.opened(before, router) as kb:
        await prepare(kb)

    async def ended(folder: Path, started: Sequence[Prepare], deadly: int = 0) -> tuple[list[str], dict[str, object]]:
        shutil.copytree(before, folder)
        fake.set_faults(faults)
        begun = fake.count(tag="kb.extract/v1")
        calls = victim.run({"ollama": fake.url}, folder, operation, text, deadly)
        found = await succeeded(folder, router, fake, started)
        asked = [json.dumps(one["body"]) for one in fake.requests(tag="kb.extract/v1")[begun:]]
        # Read again is at most the one passage whose answer was not kept yet.
        assert len(asked) - len(set(asked)) <= (1 if deadly else 0)
        return calls, found

    calls, expected = await ended(tmp_path / "whole", ())
    first = calls.index(promise) + 2 if promise else 1
    wrong = []
    for deadly in range(first, len(calls) + 1):
        # In turns: what matters to the order holds before several calls.
        started = orders[deadly % len(orders)]
        _, found = await ended(tmp_path / f"{deadly}", started, deadly)
        wrong += [(calls[deadly - 1], started[0].__name__, key) for key in found if found[key] != expected[key]]
    return wrong


@pytest.mark.parametrize(
    ("prepare", "operation", "text", "promise", "started"),
    [
        pytest.param(queued, "ingest", world.MAIL, "open", STARTED, id="ingest"),
        pytest.param(queued, "perform", "", "", STARTED, id="perform"),
        pytest.param(named, "reweave", "user:john=user:john.doe@example.com", "put", STARTED, id="reweave"),
        pytest.param(stored, "regroup", "", "regroup", (*STARTED, repair), id="regroup"),
    ],
)
async def test_what_is_recorded_is_done_by_the_next_process(
    tmp_path: Path,
    router: router_client.Client,
    fake: process.Fake,
    prepare: Prepare,
    operation: str,
    text: str,
    promise: str,
    started: Sequence[Prepare],
) -> None:
    assert await differences(tmp_path, router, fake, prepare, operation, text, promise, [started]) == []


@pytest.mark.parametrize(("prepare", "orders"), [(attached, [STARTED]), (waiting, [STARTED, STARTED[::-1]])])
async def test_what_began_to_be_deleted_does_not_return(
    tmp_path: Path,
    router: router_client.Client,
    fake: process.Fake,
    prepare: Prepare,
    orders: Sequence[Sequence[Prepare]],
) -> None:
    assert await differences(tmp_path, router, fake, prepare, "forget", MAIL, "open", orders) == []


@pytest.mark.parametrize(
    ("operation", "orders"), [("ingest", [(recover,), (work, recover)]), ("index", [(work, recover)])]
)
async def test_a_version_that_fails_takes_nothing_from_the_one_before(
    tmp_path: Path,
    router: router_client.Client,
    fake: process.Fake,
    operation: str,
    orders: Sequence[Sequence[Prepare]],
) -> None:
    """The models have still to read the one before; its job does not go with the process that had taken it out."""
    found = await differences(tmp_path, router, fake, extracting, operation, NEW, "open", orders, [REFUSED])
    assert found == []
