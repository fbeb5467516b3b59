"""Which documents each pass over the stores reads, and what stays to be looked at by the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crds import errors as root
from crds import scope
from crds.priority import Priority
from kb import errors, identity, metrics
from kb.ingest import changes, document_locks
from kb.upkeep import check, reconcile
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.ingest import victim

WEEK = timedelta(days=7)


class Recorded:
    """Whatever store it stands for; `read` counts the rows that its comparisons are given, by document."""

    def __init__(self, inner: Any, read: Counter[str]) -> None:
        self._inner = inner
        self._read = read

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("audit", "audit_sentences", "held"):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            answer = await found(*args, **more)
            for row in answer.values() if name == "held" else answer[0]:
                self._read[row.document.id if hasattr(row, "document") else row.document_id] += 1
            return answer

        return call


def counting(kb: world.ObservedState, read: Counter[str]) -> reconcile.Reconciler:
    """One whose reading is counted."""
    return world.reconciler(kb, graph=Recorded(kb.graph, read), vectors=Recorded(kb.vectors, read))


def document(urn: str) -> str:
    return identity.document(scopes.SHOP, urn)


async def noted(kb: world.ObservedState) -> list[str]:
    return [one.document_id for one in await kb.ledger.changed()]


async def damage(kb: world.ObservedState, urn: str) -> None:
    """Let the references of a document's chunks be wrong, as a store that went back to an older copy has them."""
    known = await kb.vectors.known(scopes.SHOP, document(urn))
    for chunk in (await kb.vectors.chunks(scopes.SHOP, known)).values():
        await kb.vectors.touch(scopes.SHOP, [replace(chunk, graph_refs=("n:invented",))])


async def wrong(kb: world.ObservedState) -> set[str]:
    look = await check.Checker(kb.graph, kb.vectors, world.idle).look("acme")
    return {one.source_urn for one in look.findings}


async def test_a_pass_over_changes_reads_the_changed_documents_alone(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock
) -> None:
    for urn in ("u:1", "u:2", "u:3"):
        await kb.ingest(world.request(urn=urn))
    read: Counter[str] = Counter()
    upkeep = counting(kb, read)
    await upkeep.step(WEEK)
    assert read.keys() == {document("u:1"), document("u:2"), document("u:3")}
    assert await noted(kb) == []

    clock.advance(hours=1)
    await kb.ingest(world.request("Jana Novak fixed JERV-123.", urn="u:2"))
    await damage(kb, "u:1")
    await damage(kb, "u:2")
    read.clear()
    await upkeep.step(WEEK)
    assert read.keys() == {document("u:2")}
    assert (await wrong(kb), await noted(kb)) == ({"u:1"}, [])

    read.clear()
    await upkeep.step(WEEK)
    assert read == {}
    name = "jervis_kb_reconcile_passes_total"
    ended = [meters.registry.get_sample_value(name, {"kind": kind}) for kind in ("full", "changed")]
    assert ended == [1, 3]


async def test_a_full_pass_is_made_after_none_and_when_it_is_due(kb: world.ObservedState, clock: clocks.Clock) -> None:
    await kb.ingest(world.request(urn="u:1"))
    upkeep, first = world.reconciler(kb), clock()
    [change] = await kb.ledger.changed()
    await kb.ledger.settle(change.document_id, change.mark)
    # Never noted: as in the records of a release before this one.
    await damage(kb, "u:1")
    await upkeep.step(WEEK)
    assert await wrong(kb) == set()
    clock.advance(days=6, hours=23)
    await damage(kb, "u:1")
    await upkeep.step(WEEK)
    assert await wrong(kb) == {"u:1"}
    found = await kb.ledger.passes()
    assert (found["Full"], found["Changed"].ended_at) == (changes.Pass("Full", first, first), clock())
    clock.advance(hours=1)
    await upkeep.step(WEEK)
    assert await wrong(kb) == set()
    assert (await kb.ledger.passes())["Full"] == changes.Pass("Full", clock(), clock())


async def test_what_is_committed_within_a_pass_is_looked_at_again(kb: world.ObservedState) -> None:
    await world.reconciler(kb).step(WEEK)
    await kb.ingest(world.request(urn="u:1"))
    await damage(kb, "u:1")

    @asynccontextmanager
    async def turn(document_id: str) -> AsyncIterator[document_locks.Turn]:
        async with kb.pipeline.turn(document_id) as held:
            yield held
        await kb.ingest(world.request("Jana Novak fixed JERV-123.", urn="u:1"))
        await damage(kb, "u:1")

    await world.reconciler(kb, turn=turn).step(WEEK)
    assert (await wrong(kb), await noted(kb)) == ({"u:1"}, [document("u:1")])
    await world.reconciler(kb).step(WEEK)
    assert (await wrong(kb), await noted(kb)) == (set(), [])


async def test_a_document_in_work_stays_noted(kb: world.ObservedState, clock: clocks.Clock) -> None:
    await kb.ingest(world.request(urn="u:1"))
    await world.reconciler(kb).step(WEEK)
    async with kb.pipeline.turn(document("u:1")):
        await kb.ledger.note(scopes.SHOP, [document("u:1")])
        # As a commit has it that stores nothing yet, and may end in an error after this pass.
        await world.reconciler(kb).step(WEEK)
        assert await noted(kb) == [document("u:1")]
        await damage(kb, "u:1")
        await world.reconciler(kb).step(WEEK)
        assert await noted(kb) == [document("u:1")]
        # One that a full pass comes upon too, whatever was noted of it before.
        [change] = await kb.ledger.changed()
        await kb.ledger.settle(change.document_id, change.mark)
        clock.advance(days=7)
        await world.reconciler(kb).step(WEEK)
        assert await noted(kb) == [document("u:1")]
    assert await wrong(kb) == {"u:1"}
    await world.reconciler(kb).step(WEEK)
    assert (await wrong(kb), await noted(kb)) == (set(), [])


async def test_a_document_that_can_never_be_repaired_keeps_no_other_one_so(kb: world.ObservedState) -> None:
    for urn in ("u:1", "u:2", "u:3"):
        await kb.ingest(world.request(urn=urn))
        await damage(kb, urn)
    hopeless = sorted(map(document, ("u:1", "u:2", "u:3")))[0]

    @asynccontextmanager
    async def turn(document_id: str) -> AsyncIterator[document_locks.Turn]:
        if document_id == hopeless:
            raise root.Permanent("the model takes no such text")
        async with kb.pipeline.turn(document_id) as mine:
            yield mine

    await world.reconciler(kb, turn=turn).step(WEEK)
    assert {document(urn) for urn in await wrong(kb)} == {hopeless}
    assert await noted(kb) == [hopeless]
    await world.reconciler(kb).step(WEEK)
    assert (await wrong(kb), await noted(kb)) == (set(), [])


async def test_a_lost_text_is_counted_by_each_pass_until_it_is_back(
    kb: world.ObservedState, meters: metrics.Metrics
) -> None:
    await world.reconciler(kb).step(WEEK)
    reply = await kb.ingest(world.request(world.LONG * 3, urn="u:1"))
    await kb.vectors.discard("acme", chunk_ids=reply.chunk_ids[:1], sentence_ids=[])
    # The others are repaired, and the document stays noted all the same.
    await damage(kb, "u:1")
    for _ in range(3):
        await world.reconciler(kb).step(WEEK)
        assert meters.registry.get_sample_value("jervis_kb_lost_chunks") == 1
    await kb.ingest(world.request(world.LONG * 3, urn="u:1"))
    await world.reconciler(kb).step(WEEK)
    assert (meters.registry.get_sample_value("jervis_kb_lost_chunks"), await noted(kb)) == (0, [])


async def test_a_full_pass_that_broke_off_goes_on_where_it_was(kb: world.ObservedState, clock: clocks.Clock) -> None:
    await kb.ingest(world.request(urn="u:1"))
    await kb.ingest(world.request(urn="u:2", owner=scopes.OTHER))
    await world.reconciler(kb).sweep("acme")
    calls = len(kb.switch.calls)
    await world.reconciler(kb).sweep("acme")
    kb.switch.fail_after = len(kb.switch.calls) - calls + 1
    begun = clock()
    with pytest.raises(errors.Away):
        await world.reconciler(kb).step(WEEK)
    kb.switch.fail_after = None
    assert await kb.ledger.passes() == {"Full": changes.Pass("Full", begun, None, "other")}
    for change in await kb.ledger.changed():
        await kb.ledger.settle(change.document_id, change.mark)
    clock.advance(hours=1)
    read: Counter[str] = Counter()
    await counting(kb, read).step(WEEK)
    assert read.keys() == {identity.document(scopes.OTHER, "u:2")}
    assert (await kb.ledger.passes())["Full"] == changes.Pass("Full", begun, clock())


async def test_a_full_pass_begins_a_client_anew_where_its_cursor_means_nothing(kb: world.ObservedState) -> None:
    """The graph was moved to another store meanwhile."""
    await kb.ingest(world.request(urn="u:1"))
    await damage(kb, "u:1")
    await kb.ledger.record(changes.Pass("Full", kb.clock(), None, "acme", "graph:$document::x"))
    await world.reconciler(kb).step(WEEK)
    assert (await wrong(kb), (await kb.ledger.passes())["Full"].ended_at) == (set(), kb.clock())


async def test_what_is_deleted_is_noted(kb: world.ObservedState) -> None:
    await kb.ingest(world.request(urn="u:1"))
    await world.reconciler(kb).step(WEEK)
    kb.switch.away = True
    with pytest.raises(root.Operational):
        await kb.pipeline.drop(scopes.SHOP, document("u:1"))
    kb.switch.away = False
    assert await noted(kb) == [document("u:1")]
    await world.reconciler(kb).step(WEEK)
    assert (await wrong(kb), await noted(kb), await kb.vectors.size("acme")) == (set(), [], (0, 0))


async def test_a_kill_after_the_note_leads_to_a_look(
    tmp_path: Path, router: router_client.Client, fake: process.Fake
) -> None:
    """Nothing else would repeat it here: the job of the queue is dropped, as its document's sender could ask."""

    async def left(deadly: int) -> tuple[list[str], bool, list[str]]:
        """The calls, whether the stores disagreed after the kill, and what is noted after the next pass."""
        folder = tmp_path / str(deadly)
        folder.mkdir()
        async with victim.opened(folder, router) as kb:
            await kb.pipeline.index(world.request(world.LONG[:1000], urn="u:1"), Priority.P2)
            await world.reconciler(kb).step(WEEK)
            assert await noted(kb) == []
        calls = victim.run({"ollama": fake.url}, folder, "perform", "", deadly)
        async with victim.opened(folder, router) as kb:
            await kb.queue.drop(document("u:1"))
            assert await noted(kb) == [document("u:1")]
            disagreed = await wrong(kb) != set()
            await world.reconciler(kb).step(WEEK)
            assert await wrong(kb) == set()
            return calls, disagreed, await noted(kb)

    calls, _, _ = await left(0)
    first, last = calls.index("note"), calls.index("replace")
    found = [await left(deadly) for deadly in range(first + 2, last + 2)]
    assert [after for _, _, after in found] == [[]] * len(found)
    # Among them is a kill that leaves something to repair.
    assert any(disagreed for _, disagreed, _ in found)


async def test_what_is_moved_stays_noted_though_a_pass_came_before_the_graph_had_moved_it(
    kb: world.ObservedState,
) -> None:
    await kb.ingest(world.request(urn="u:1"))
    upkeep = world.reconciler(kb)

    class Late(Recorded):
        async def regroup(self, owner: scope.Scope) -> list[str]:
            await upkeep.step(WEEK)
            assert await noted(kb) == []
            moved: list[str] = await kb.graph.regroup(owner)
            kb.switch.away = True
            return moved

    late = world.reconciler(kb, graph=Late(kb.graph, Counter()))
    with pytest.raises(errors.Away):
        await late.regroup(scopes.make("acme", "shop", "wholesale"))
    kb.switch.away = False
    assert (await wrong(kb), await noted(kb)) == ({"u:1"}, [document("u:1")])
    await upkeep.step(WEEK)
    assert await wrong(kb) == set()
