"""The stores are compared, every disagreement is found, and what can be repaired is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from crds import priority, scope
from kb import errors
from kb.graph import arango, model
from kb.ingest import document_locks
from kb.upkeep import check, reconcile
from tests import waiting
from tests.fakes.arango import server
from tests.fakes.ollama import process
from tests.kb import memory, scopes, world
from tests.kb.graph import contract as graph_contract
from tests.kb.vectors import contract

MOVED, NEIGHBOUR = scopes.make("acme", "shop", "wholesale"), scopes.make("acme", "bulk", "wholesale")


def checker(kb: world.ObservedState) -> check.Checker:
    return check.Checker(kb.graph, kb.vectors, kb.ledger.working)


def reconciler(kb: world.ObservedState, turn: reconcile.Turn | None = None) -> reconcile.Reconciler:
    """With a `turn`, what happens between its look and its repair is the test's."""
    return world.reconciler(kb, turn=turn, working=kb.ledger.working)


async def kinds(kb: world.ObservedState) -> list[str]:
    return sorted(finding.kind for finding in (await checker(kb).look("acme")).findings)


async def chunks_for(kb: world.ObservedState, viewer: scope.Scope) -> list[str]:
    """The chunks of which a viewer finds the document of these tests."""
    return [item.provenance.chunk_id for item in (await kb.ask("login bug", viewer)).items]


async def walked(looking: check.Checker, limit: int) -> list[str]:
    """The chunks that are seen by looks of so many, of which each goes on where the one before stopped."""
    seen: list[str] = []
    after: str | None = None
    for _ in range(200):
        look = await looking.look("acme", after=after, limit=limit)
        seen += [chunk for _, chunk, _ in look.seen]
        if (after := look.next) is None:
            return seen
    raise AssertionError(f"it never ends: {seen}")


async def test_an_ingest_leaves_nothing_to_find(kb: world.ObservedState) -> None:
    await kb.ingest(world.request())
    await kb.ingest(world.request(world.LONG, urn="u:long", owner=scopes.BLOG))
    look = await checker(kb).look("acme")
    assert (look.findings, look.next) == ([], None)
    assert len({document for document, _, _ in look.seen}) == 2


async def test_a_look_goes_on_where_it_stopped(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request(world.LONG * 3, urn="u:long"))
    assert sorted(await walked(checker(kb), 3)) == sorted(reply.chunk_ids)
    with pytest.raises(errors.Invalid, match="no cursor"):
        await checker(kb).look("acme", after="elsewhere:1")
    with pytest.raises(errors.Invalid, match="no place"):
        await checker(kb).look("acme", after="graph:elsewhere")


async def test_a_look_goes_on_where_it_stopped_on_arangodb() -> None:
    """Its keys are text."""
    with server.Server() as running:
        graph, vectors = arango.Store(running.url, "looked", "root", "secret"), memory.Vectors()
        for number in range(5):
            await graph.replace(scopes.SHOP, graph_contract.patch(scopes.SHOP, f"u:{number}", [("n:a", "to", "n:b")]))
        held, _ = await graph.audit("acme")
        seen = await walked(check.Checker(graph, vectors, world.idle), 1)
        assert sorted(seen) == sorted(one.chunk_id for one in held)
        assert len(seen) >= 5
        await graph.close()


async def test_references_that_differ_are_put_right(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request())
    [chunk] = (await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)).values()
    await kb.vectors.touch(scopes.SHOP, [replace(chunk, graph_refs=("n:invented",))])
    assert await kinds(kb) == ["GraphRefsDiffer"]
    assert await reconciler(kb).sweep("acme") == (1, 0)
    assert await kinds(kb) == []
    assert await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids) == {chunk.id: chunk}


async def test_what_was_never_committed_goes(kb: world.ObservedState) -> None:
    await kb.ingest(world.request())
    before = await kb.state()
    stray = contract.chunk(scopes.SHOP, "u:stray", "login bug")
    line = contract.sentence(stray, "login bug")
    await kb.vectors.put(scopes.SHOP, [(stray, [0.1] * 384)], [(line, [0.1] * 384)])
    assert await kinds(kb) == ["ChunkNotInGraph", "StraySentence"]
    assert await reconciler(kb).sweep("acme") == (2, 0)
    assert await kb.state() == before
    assert kb.meters.registry.get_sample_value("jervis_kb_repairs_total") == 2


async def test_what_is_still_being_ingested_is_left_alone(kb: world.ObservedState) -> None:
    kb.switch.fail_after = 3
    with pytest.raises(errors.Away):
        await kb.ingest(world.request())
    kb.switch.fail_after = None
    assert await kinds(kb) == []
    assert await reconciler(kb).sweep("acme") == (0, 0)
    await kb.ingest(world.request())
    assert await kinds(kb) == []


async def test_what_was_committed_since_the_look_is_left_alone(kb: world.ObservedState) -> None:
    """A job of the queue stores its sentences first and commits the graph later; its intent is finished already."""
    reply = await kb.intake.take(world.request(), priority.Priority.P3)
    [chunk] = (await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)).values()
    line = contract.sentence(chunk, "Please fix the login bug JERV-123 by 2026-04-15.")
    await kb.vectors.put(scopes.SHOP, [], [(line, [0.1] * 384)])
    assert await kinds(kb) == ["StraySentence"]
    mention = model.Mention("concept:login bug", chunk.id, line.id, line.text, "concept", "login bug")
    document = model.Document(chunk.document_id, chunk.source_urn, chunk.kind, chunk.title)

    @asynccontextmanager
    async def turn(document_id: str) -> AsyncIterator[document_locks.Turn]:
        async with kb.pipeline.turn(document_id) as held:
            await kb.graph.replace(scopes.SHOP, model.Patch(document, (chunk.id,), (mention,), ()))
            yield held

    await reconciler(kb, turn).sweep("acme")
    assert await kb.vectors.held_sentences("acme", [line.id]) == {line.id}


async def test_a_document_in_its_turn_is_in_work(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request())
    [chunk] = (await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)).values()
    line = contract.sentence(chunk, "not committed yet")
    look = check.Checker(kb.graph, kb.vectors, kb.pipeline.working)
    async with kb.pipeline.turn(chunk.document_id):
        await kb.vectors.put(scopes.SHOP, [], [(line, [0.1] * 384)])
        assert (await look.look("acme")).findings == []
    assert [one.kind for one in (await look.look("acme")).findings] == ["StraySentence"]


async def test_vectors_of_sentences_that_are_gone_are_made_again(kb: world.ObservedState) -> None:
    await kb.ingest(world.request())
    before, found = await kb.state(), await kb.ask("Who wrote UserService.kt?", explain=True)
    lines, _ = await kb.vectors.audit_sentences("acme")
    await kb.vectors.discard("acme", chunk_ids=[], sentence_ids=[line.sentence_id for line in lines[1:]])
    assert await kinds(kb) == ["SentenceVectorsMissing"]
    assert await reconciler(kb).sweep("acme") == (len(lines) - 1, 0)
    assert await kinds(kb) == []
    assert await kb.state() == before
    assert await kb.ask("Who wrote UserService.kt?", explain=True) == found


async def test_a_text_that_is_gone_is_said_to_be_gone(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request())
    await kb.vectors.discard("acme", chunk_ids=reply.chunk_ids, sentence_ids=[])
    assert await kinds(kb) == ["ChunkTextMissing"]
    assert await reconciler(kb).sweep("acme") == (0, 1)
    await kb.ingest(world.request())
    assert await kinds(kb) == []


async def test_a_project_takes_its_old_data_into_its_new_group(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request())
    assert await chunks_for(kb, NEIGHBOUR) == []
    documents, vectors = await reconciler(kb).regroup(MOVED)
    assert (documents, vectors > 1) == (1, True)
    assert await reconciler(kb).regroup(MOVED) == (0, 0)
    assert await chunks_for(kb, NEIGHBOUR) == reply.chunk_ids
    assert await chunks_for(kb, scopes.TILL) == []
    assert await kinds(kb) == []


async def test_what_is_being_written_while_its_project_moves_is_moved_too(
    kb: world.ObservedState, fake: process.Fake
) -> None:

    async def moved() -> bool:
        page, _ = await kb.graph.audit("acme")
        return all(row.owner == MOVED for row in page)

    await kb.ingest(world.request("JERV-1 is assigned to Jana Novak."))
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"gate": "read"}}])
    writing = asyncio.create_task(kb.ingest(world.request()))
    await waiting.eventually(lambda: fake.count(tag="kb.extract/v1") == 2)
    moving = asyncio.create_task(reconciler(kb).regroup(MOVED))
    await waiting.eventually(moved)
    fake.open_gate("read")
    await writing
    assert (await moving)[0] == 1
    assert await kb.graph.regroup(MOVED) == []
    assert await kinds(kb) == []


async def test_a_move_that_broke_off_is_finished_by_the_next_round(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request())
    await kb.graph.regroup(MOVED)
    assert await chunks_for(kb, scopes.TILL) == []
    assert "OwnerDiffers" in await kinds(kb)
    await reconciler(kb).sweep("acme")
    assert await chunks_for(kb, NEIGHBOUR) == reply.chunk_ids
    assert await kinds(kb) == []


async def test_the_past_is_compared_and_repaired_too(kb: world.ObservedState) -> None:
    await kb.ingest(world.request("JERV-1 is assigned to Jana Novak.", observed_at=datetime(2026, 3, 2, tzinfo=UTC)))
    await kb.ingest(world.request("JERV-1 is done.", observed_at=datetime(2026, 3, 5, tzinfo=UTC)))
    assert await kinds(kb) == []
    page, _ = await kb.graph.audit("acme")
    [past] = [one.chunk_id for one in page if one.document.until_ms is not None]
    [chunk] = (await kb.vectors.chunks(scopes.SHOP, [past], history=True)).values()
    await kb.vectors.touch(scopes.SHOP, [replace(chunk, graph_refs=("n:invented",))])
    assert await kinds(kb) == ["GraphRefsDiffer"]
    assert await reconciler(kb).sweep("acme") == (1, 0)
    assert await kb.vectors.chunks(scopes.SHOP, [past], history=True) == {past: chunk}
    # As a crash between the copy and the write of the graph leaves it.
    await kb.vectors.keep(
        scopes.SHOP, "another", None, 5, chunk_ids=[page[0].chunk_id, page[1].chunk_id], sentence_ids=[]
    )
    assert await kinds(kb) == ["ChunkNotInGraph"]
    assert await reconciler(kb).sweep("acme") == (1, 0)
    assert await kinds(kb) == []
    # Its text is gone: nothing can be done about it, and nothing of the present is lost.
    await kb.vectors.discard("acme", chunk_ids=[past], sentence_ids=[])
    assert await kinds(kb) == []
