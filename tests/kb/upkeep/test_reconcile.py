"""The stores are compared, every disagreement is found, and what can be repaired is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kb import errors, metrics
from kb.upkeep import check, reconcile
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.vectors import contract


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[world.ObservedState]:
    async with world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content()) as made:
        yield made


def checker(kb: world.ObservedState) -> check.Checker:
    return check.Checker(kb.graph, kb.vectors, kb.ledger.working)


def reconciler(kb: world.ObservedState, meters: metrics.Metrics) -> reconcile.Reconciler:
    return reconcile.Reconciler(checker(kb), kb.graph, kb.vectors, kb.pipeline.turn, kb.ledger.working, meters)


async def kinds(kb: world.ObservedState) -> list[str]:
    return sorted(finding.kind for finding in (await checker(kb).look("acme")).findings)


async def test_an_ingest_leaves_nothing_to_find(kb: world.ObservedState) -> None:
    await kb.ingest(world.request())
    await kb.ingest(world.request(world.LONG, urn="u:long", owner=scopes.BLOG))
    look = await checker(kb).look("acme")
    assert (look.findings, look.next) == ([], None)
    assert len({document for document, _, _ in look.seen}) == 2


async def test_a_look_goes_on_where_it_stopped(kb: world.ObservedState) -> None:
    reply = await kb.ingest(world.request(world.LONG * 3, urn="u:long"))
    seen: list[str] = []
    after: str | None = None
    for _ in range(200):
        look = await checker(kb).look("acme", after=after, limit=3)
        seen += [chunk for _, chunk, _ in look.seen]
        after = look.next
        if after is None:
            break
    assert sorted(seen) == sorted(reply.chunk_ids)
    with pytest.raises(errors.Invalid, match="no cursor"):
        await checker(kb).look("acme", after="elsewhere:1")


async def test_references_that_differ_are_put_right(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    reply = await kb.ingest(world.request())
    [chunk] = (await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids)).values()
    await kb.vectors.touch(scopes.SHOP, [replace(chunk, graph_refs=("n:invented",))])
    assert await kinds(kb) == ["GraphRefsDiffer"]
    assert await reconciler(kb, meters).sweep("acme") == (1, 0)
    assert await kinds(kb) == []
    assert await kb.vectors.chunks(scopes.SHOP, reply.chunk_ids) == {chunk.id: chunk}


async def test_what_was_never_committed_goes(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    await kb.ingest(world.request())
    before = await kb.state()
    stray = contract.chunk(scopes.SHOP, "u:stray", "login bug")
    line = contract.sentence(stray, "login bug")
    await kb.vectors.put(scopes.SHOP, [(stray, [0.1] * 384)], [(line, [0.1] * 384)])
    assert await kinds(kb) == ["ChunkNotInGraph", "StraySentence"]
    assert await reconciler(kb, meters).sweep("acme") == (2, 0)
    assert await kb.state() == before
    assert meters.registry.get_sample_value("jervis_kb_repairs_total") == 2


async def test_what_is_still_being_ingested_is_left_alone(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    vectors = kb.vectors
    assert isinstance(vectors, memory.Vectors)
    vectors.switch.fail_after = 3
    with pytest.raises(errors.Away):
        await kb.ingest(world.request())
    vectors.switch.fail_after = None
    assert await kinds(kb) == []
    assert await reconciler(kb, meters).sweep("acme") == (0, 0)
    await kb.ingest(world.request())
    assert await kinds(kb) == []


async def test_a_text_that_is_gone_is_said_to_be_gone(kb: world.ObservedState, meters: metrics.Metrics) -> None:
    reply = await kb.ingest(world.request())
    await kb.vectors.discard("acme", chunk_ids=reply.chunk_ids, sentence_ids=[])
    assert await kinds(kb) == ["ChunkTextMissing"]
    assert await reconciler(kb, meters).sweep("acme") == (0, 1)
    await kb.ingest(world.request())
    assert await kinds(kb) == []


async def test_a_project_takes_its_old_data_into_its_new_group(
    kb: world.ObservedState, meters: metrics.Metrics
) -> None:
    reply = await kb.ingest(world.request())
    moved = scopes.make("acme", "shop", "wholesale")
    neighbour = scopes.make("acme", "bulk", "wholesale")
    assert (await kb.ask("login bug", neighbour)).items == []
    documents, vectors = await reconciler(kb, meters).regroup(moved)
    assert (documents, vectors > 1) == (1, True)
    assert await reconciler(kb, meters).regroup(moved) == (0, 0)
    assert [item.provenance.chunk_id for item in (await kb.ask("login bug", neighbour)).items] == reply.chunk_ids
    assert (await kb.ask("login bug", scopes.TILL)).items == []
    assert await kinds(kb) == []


async def test_a_move_that_broke_off_is_finished_by_the_next_round(
    kb: world.ObservedState, meters: metrics.Metrics
) -> None:
    reply = await kb.ingest(world.request())
    moved = scopes.make("acme", "shop", "wholesale")
    await kb.graph.regroup(moved)
    assert (await kb.ask("login bug", scopes.TILL)).items == []
    assert "OwnerDiffers" in await kinds(kb)
    await reconciler(kb, meters).sweep("acme")
    neighbour = scopes.make("acme", "bulk", "wholesale")
    assert [item.provenance.chunk_id for item in (await kb.ask("login bug", neighbour)).items] == reply.chunk_ids
    assert await kinds(kb) == []
