"""An ingest may stop anywhere: nothing half-visible, the same end state, no model asked twice."""

from __future__ import annotations

import copy
import shutil
from datetime import timedelta

import pytest

from crds import errors as root
from crds.priority import Priority
from kb import errors, metrics
from kb.ingest import request_record
from kb.queue import job
from kb.vectors import embedding
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world

OLD = "Zdenek Veverka wrote Oldthing.java for Initech."
NEW = world.LONG


async def reference(open_world: world.Opening) -> tuple[object, int]:
    """The state after an uninterrupted replacement, and how often it calls the vector store."""
    vectors = memory.Vectors()
    async with open_world(vectors, within="reference", chunk_chars=900) as kb:
        await kb.ingest(world.request(OLD))
        before = len(vectors.switch.calls)
        await kb.ingest(world.request(NEW))
        calls = len(vectors.switch.calls) - before
        return await kb.state(), calls


async def test_stopped_before_each_call_of_the_vector_store_and_resumed_after_a_restart(
    open_world: world.Opening, clock: clocks.Clock, fake: process.Fake
) -> None:
    expected, calls = await reference(open_world)
    old = memory.Vectors()
    async with open_world(old, within="before", chunk_chars=900) as kb:
        await kb.ingest(world.request(OLD))
    # Every boundary at the ends, and every seventh call in the long middle of identical puts.
    stops = sorted({*range(4), *range(4, calls, 7), *range(calls - 3, calls)})
    assert len(stops) > 8
    for stop in stops:
        # The world in which the old document is known, as its files and its vectors were left.
        name = f"stop{stop}"
        shutil.copytree(open_world.path / "before", open_world.path / name)
        vectors, content = copy.deepcopy(old), memory.Content()
        async with open_world(vectors, content, within=name, chunk_chars=900) as kb:
            vectors.switch.fail_after = stop
            with pytest.raises(errors.Away):
                await kb.ingest(world.request(NEW))
            vectors.switch.fail_after = None
            # The last call is the cleaning after the commit: then the new document is there, whole, else the old one.
            committed = stop == calls - 1
            found = await kb.ask("Who wrote something?", max_results=50)
            shown = {"old" if "Oldthing" in item.content else "new" for item in found.items}
            assert shown == ({"new"} if committed else {"old"})
            assert await kb.ledger.count() == {request_record.State.OPEN: 1}
        extractions = fake.count(tag="kb.extract/v1")
        async with open_world(vectors, content, within=name, chunk_chars=900) as kb:
            assert await kb.recovery.sweep(before=clock() + timedelta(seconds=1)) == 1
            assert await kb.state() == expected
            assert await kb.ledger.count() == {request_record.State.FINISHED: 1}
        assert fake.count(tag="kb.extract/v1") == extractions


async def test_a_long_document_is_embedded_and_stored_slice_by_slice(
    open_world: world.Opening, meters: metrics.Metrics, fake: process.Fake
) -> None:
    text = "\n\n".join(f"Paragraph {number} goes on. " + "Filler follows here. " * 23 for number in range(140))
    fake.set_faults([{"match": {"path": "/api/embed", "body": "Paragraph 135 "}, "status": {"code": 503}}])
    vectors = memory.Vectors()
    async with open_world(vectors, chunk_chars=900) as kb:
        with pytest.raises(root.Operational):
            await kb.pipeline.index(world.request(text), Priority.P3)
        assert sorted(chunk.ordinal for _, chunk, _ in vectors._chunks.values()) == list(range(embedding.SLICE))
        assert (await kb.ask("Which paragraph?")).items == []
        fake.set_faults([])
        before = meters.embedded._value.get()
        reply = await kb.pipeline.index(world.request(text), Priority.P3)
        assert vectors._chunks.keys() == set(reply.chunk_ids)
        # What was stored is not embedded again.
        texts = len(vectors._chunks) + len(vectors._sentences)
        assert meters.embedded._value.get() - before == texts - embedding.SLICE


async def test_models_that_fail_midway_are_asked_only_for_what_is_missing(
    open_world: world.Opening, fake: process.Fake
) -> None:
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "nth": 3, "status": {"code": 503, "retryAfter": 7}}])
    async with open_world(chunk_chars=900) as kb:
        with pytest.raises(root.Operational) as caught:
            await kb.ingest(world.request(NEW))
        assert caught.value.retry_after == 7
        asked = fake.count(tag="kb.extract/v1")
        reply = await kb.ingest(world.request(NEW))
        assert asked == len(reply.chunk_ids) > 4
        assert fake.count(tag="kb.extract/v1") == asked + 1
        assert fake.count(tag="kb.qualify.email/v2") == 1
        assert reply.replaced is False


async def test_recovery_leaves_alone_what_somebody_works_on_and_what_cannot_succeed(
    open_world: world.Opening, clock: clocks.Clock, meters: metrics.Metrics
) -> None:
    vectors = memory.Vectors()
    async with open_world(vectors) as kb:
        await world.broken_off(kb, kb.ingest(world.request()))
        vectors.switch.away = True
        assert await kb.recovery.sweep(before=clock() - timedelta(seconds=120)) == 0
        clock.advance(seconds=300)
        assert await kb.recovery.sweep(before=clock()) == 0  # still away: stays open
        assert await kb.ledger.count() == {request_record.State.OPEN: 1}
        await kb.ledger.open("unreadable", scopes.SHOP, "u:x", '{"not": "a request"}', clock())
        vectors.switch.away = False
        assert await kb.recovery.sweep(before=clock() + timedelta(seconds=1)) == 1
        assert await kb.ledger.count() == {request_record.State.FINISHED: 1, request_record.State.FAILED: 1}
        assert meters.registry.get_sample_value("jervis_kb_unfinished_ingests") == 0
        assert meters.registry.get_sample_value("jervis_kb_failed_documents") == 1


async def test_jobs_that_wait_do_not_hide_what_nothing_else_will_finish(kb: world.ObservedState) -> None:
    for number in range(101):
        name = f"waits{number}"
        await kb.ledger.open(name, scopes.SHOP, f"u:{name}", "{}", kb.clock())
        await kb.queue.put(name, scopes.SHOP, f"u:{name}", "email", job.Action.EXTRACT, Priority.P3, "{}")
    kb.clock.advance(seconds=1)
    await world.broken_off(kb, kb.ingest(world.request()))
    kb.clock.advance(seconds=1)
    assert await kb.recovery.sweep(before=kb.clock()) == 1
    assert (await kb.ask("login bug")).items != []


@pytest.mark.parametrize("gone", [False, True])
async def test_a_content_store_that_is_away_keeps_the_intent_open_until_it_is_back_or_the_content_has_gone(
    open_world: world.Opening, clock: clocks.Clock, gone: bool
) -> None:
    content = memory.Content()
    async with open_world(text=content) as kb:
        kept = await content.save(scopes.SHOP, world.MAIL.encode(), "text/plain")
        await content.switch.refuse(kb.ingest(world.request(content=None, content_ref=kept)))
        clock.advance(seconds=1)
        if not gone:
            assert await kb.recovery.sweep(before=clock()) == 1
            return
        content.lose(kept.key)
        assert await kb.recovery.sweep(before=clock()) == 0
        [failed] = await kb.ledger.failed(scopes.SHOP, limit=5)
        assert (failed.recorded, "no content" in failed.reason) == (True, True)
