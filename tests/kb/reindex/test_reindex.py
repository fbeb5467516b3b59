"""A new embedding model takes the place of the one before: nothing is missing at any moment, and nothing is left."""

from __future__ import annotations

import asyncio
import copy
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crds import scope
from crds.priority import Priority
from kb import errors, metrics, mongo
from kb.erasure import places
from kb.ingest import document_locks
from kb.reindex import indexes, phase
from kb.reindex.phase import Phase
from kb.vectors import embedding, model
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.reindex import rig as rigs
from tests.kb.vectors import contract

pytestmark = pytest.mark.services
Open = Callable[..., AbstractAsyncContextManager[rigs.Rig]]
PETR, JANA = "Petr Svoboda wrote Oldthing.java for Globex.", "Jana Novak wrote Newthing.java for Initech."


@pytest.fixture
def opened(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    database: mongo.Database,
    meters: metrics.Metrics,
) -> Open:
    def started(path: Path = tmp_path / "here", **more: Any) -> AbstractAsyncContextManager[rigs.Rig]:
        path.mkdir(exist_ok=True)
        return rigs.rig(path, router, clock, database, meters, **more)

    return started


@pytest.fixture
async def rig(opened: Open) -> AsyncIterator[rigs.Rig]:
    async with opened() as started:
        yield started


async def filled(rig: rigs.Rig, clock: clocks.Clock) -> None:
    """Three owners of two clients and the global one; of one document two versions."""
    await rig.kb.ingest(world.request(world.LONG, urn="u:long"))
    await rig.kb.ingest(world.request(PETR, urn="u:1"))
    clock.advance(days=1)
    await rig.kb.ingest(world.request(JANA, urn="u:1"))
    await rig.kb.ingest(world.request(PETR, urn="u:other", owner=scopes.OTHER))
    await rig.kb.ingest(world.request(JANA, urn="u:all", owner=scopes.GLOBAL))


async def answers(rig: rigs.Rig) -> list[str]:
    return [item.content for item in (await rig.kb.ask("Who wrote Newthing?", max_results=9)).items]


async def test_all_is_copied_from_what_is_stored_and_questions_are_answered_all_the_while(
    rig: rigs.Rig, clock: clocks.Clock, fake: process.Fake
) -> None:
    await filled(rig, clock)
    expected, found = rigs.holds(rig.old), await answers(rig)
    assert found
    assert rigs.holds(rig.new) == ({}, {}, {}, {})
    asked, before = fake.count(tag="kb.extract/v1"), rig.meters.embedded._value.get()
    in_pieces = rig.meters.embedded_in_pieces.labels("window")._value.get
    halves = in_pieces()
    size = [await rig.old.size(client) for client in ("acme", "other", "")]
    works = rig.reindexer()
    for state in (Phase.COPYING, Phase.SWITCHED, Phase.DROPPING, Phase.DONE):
        await rig.until(state, works)
        assert await answers(rig) == found
        assert rig.both.serving.name == (rigs.BEFORE if state is Phase.COPYING else rigs.MODEL)
    assert rigs.holds(rig.new) == expected
    assert rigs.holds(rig.old) == ({}, {}, {}, {})
    assert fake.count(tag="kb.extract/v1") == asked
    # Each text once, the probe of the model, and four questions with what each needs to know its model.
    texts = sum(chunks + lines for chunks, lines in size)
    assert rig.meters.reindexed._value.get() == texts
    # A text of two pieces is two texts to the model.
    halves = in_pieces() - halves
    assert rig.meters.embedded._value.get() - before == texts + halves + 1 + 4 * 11
    said = await rig.record()
    assert (said.state, said.copied, said.lost, said.clients_done) == ("Done", 0, 0, 3)
    assert said.checked == said.chunks == sum(chunks for chunks, _ in size)
    assert await works.step(document_locks.Turn()) is False


async def test_stopped_before_each_call_of_the_new_index_it_goes_on_where_it_was(
    opened: Open, tmp_path: Path, clock: clocks.Clock
) -> None:
    async with opened(tmp_path / "before") as rig:
        await filled(rig, clock)
        expected, old, new = rigs.holds(rig.old), copy.deepcopy(rig.old), copy.deepcopy(rig.new)
        await rig.until(Phase.DONE)
        calls = len(rig.new.switch.calls)
        texts = rig.meters.reindexed._value.get()
    assert calls > 20
    for stop in [*range(6), *range(6, calls, 9)]:
        path = Path(shutil.copytree(tmp_path / "before", tmp_path / f"stop{stop}"))
        stores: dict[str, Any] = {"old": copy.deepcopy(old), "new": copy.deepcopy(new), "record": f"stop{stop}"}
        async with opened(path, **stores) as rig:
            rig.new.switch.fail_after, begun = stop, rig.meters.reindexed._value.get()
            with pytest.raises(errors.Away):
                await rig.until(Phase.DONE)
            if (await rig.view.look()) is Phase.COPYING:
                assert rigs.holds(rig.old) == expected, "the index that serves is whole"
        stores["new"].switch.fail_after = None
        async with opened(path, **stores) as rig:
            await rig.until(Phase.DONE)
            assert rigs.holds(rig.new) == expected
            # What was stored is not copied again.
            assert rig.meters.reindexed._value.get() - begun <= texts
            assert rigs.holds(rig.old) == ({}, {}, {}, {})


async def changes(kb: world.ObservedState, clock: clocks.Clock, number: int) -> None:
    """All kinds of writes, on documents that were there before and on new ones."""
    clock.advance(hours=1)
    await kb.ingest(world.request(f"{PETR} Version {number}.", urn="u:long"))
    await kb.ingest(world.request(f"{JANA} Number {number}.", urn=f"u:new{number}"))
    await kb.pipeline.index(world.request(f"{JANA} Later {number}.", urn=f"u:later{number}"), Priority.P3)
    # The same text under another title: its vectors stay, what is said of it changes.
    await kb.ingest(world.request(PETR, urn="u:titled", title=f"Title {number}"))
    if number:
        await kb.pipeline.forget(scopes.SHOP, f"u:new{number - 1}")
    moved = scopes.make("acme", "shop", f"group{number % 2}")
    await kb.graph.regroup(moved)
    await kb.vectors.regroup(moved)


async def test_what_is_written_meanwhile_is_in_both_and_what_is_deleted_in_neither(
    opened: Open, tmp_path: Path, clock: clocks.Clock
) -> None:
    steps: list[Phase] = [Phase.PREPARING, Phase.COPYING, Phase.SWITCHED, Phase.DROPPING, Phase.DONE]
    then = clock.now
    async with opened(tmp_path / "undisturbed", record="undisturbed") as rig:
        await filled(rig, clock)
        for number, _ in enumerate(steps):
            await changes(rig.kb, clock, number)
        expected, state = rigs.holds(rig.old), await rig.kb.state(scopes.ACME)
    clock.now = then
    async with opened(tmp_path / "moved", record="moved") as rig:
        await filled(rig, clock)
        works = rig.reindexer()
        for number, step in enumerate(steps):
            await rig.until(step, works)
            await changes(rig.kb, clock, number)
            if step is Phase.SWITCHED:
                assert rigs.holds(rig.new) == rigs.holds(rig.old)
        assert rigs.holds(rig.new) == expected
        assert await rig.kb.state(scopes.ACME) == state


async def test_what_an_index_holds_of_an_earlier_use_is_brought_up_to_date(rig: rigs.Rig, clock: clocks.Clock) -> None:
    await filled(rig, clock)
    expected = rigs.holds(rig.old)
    for owner, chunk, vector in list(rig.old._chunks.values()):
        stale = replace(chunk, title="Before", graph_refs=("n:gone",))
        await rig.new.put(owner, [(stale, vector)], [])
    for owner, chunk, vector in list(rig.old._past.values()):
        moved = owner.model_copy(update={"group_id": "left"})
        await rig.new.put(moved, [(chunk, vector)], [])
    await rig.until(Phase.SWITCHED)
    assert rigs.holds(rig.new) == expected


async def test_an_ingest_that_broke_off_before_is_whole_in_the_new_index_after_it_is_resumed(
    rig: rigs.Rig, clock: clocks.Clock
) -> None:
    # Its vectors are in the old index, its graph was never committed.
    rig.kb.shut.replace([])
    broken = rig.kb.graph.replace

    async def breaks(*_: object, **__: object) -> None:
        raise errors.Away("disk", "full")

    rig.kb.graph.replace = breaks  # type: ignore[method-assign]  # the disk of this process
    with pytest.raises(errors.Away):
        await rig.kb.ingest(world.request(PETR, urn="u:1"))
    rig.kb.graph.replace = broken  # type: ignore[method-assign]
    assert (await rig.old.size("acme"))[0] == 1
    await rig.until(Phase.SWITCHED)
    assert await rig.new.size("acme") == (0, 0)
    assert await rig.kb.recovery.sweep(before=clock() + timedelta(seconds=1)) == 1
    assert rigs.holds(rig.new) == rigs.holds(rig.old)
    assert (await rig.new.size("acme"))[0] == 1


async def test_a_document_that_is_deleted_just_before_it_is_copied_does_not_come_back(rig: rigs.Rig) -> None:
    await rig.kb.ingest(world.request(PETR, urn="u:1"))

    @asynccontextmanager
    async def late(owner: scope.Scope, document_id: str) -> AsyncIterator[document_locks.Turn]:
        await rig.kb.pipeline.drop(owner, document_id)
        async with rig.kb.pipeline.writing(owner, document_id) as turn:
            yield turn

    await rig.until(Phase.DONE, rig.reindexer(writing=late))
    assert rigs.holds(rig.new) == ({}, {}, {}, {})


async def test_a_scope_that_is_being_erased_is_not_copied_and_holds_the_switch_up(rig: rigs.Rig) -> None:
    await rig.kb.ingest(world.request(PETR, urn="u:1"))
    await rig.until(Phase.COPYING)
    works = rig.reindexer()
    rig.kb.shut.replace([scopes.ACME])
    assert await works.step(document_locks.Turn()) is False
    said = await rig.record()
    assert (said.state, said.left, said.copied) == ("Copying", 1, 0)
    assert await rig.new.size("acme") == (0, 0)
    # The eraser finds what is in either index: here a chunk that only the new one has.
    stray = contract.chunk(scopes.SHOP, "u:stray", "login")
    line = contract.sentence(stray, "login")
    await rig.new.put(scopes.SHOP, [(stray, [0.1])], [(line, [0.1])])
    found, after = await rig.both.audit("acme")
    rest, end = await rig.both.audit("acme", after=after)
    assert stray.id in {one.chunk_id for one in (*found, *rest)}
    assert end is None
    lines, after = await rig.both.audit_sentences("acme", limit=1000)
    more, _ = await rig.both.audit_sentences("acme", after=after)
    assert line.id in {one.sentence_id for one in (*lines, *more)}
    await rig.both.discard("acme", chunk_ids=[stray.id], sentence_ids=[line.id])
    rig.kb.shut.replace([])
    await rig.until(Phase.DONE, works)
    assert (await rig.new.size("acme"))[0] == 1


async def test_the_old_index_is_kept_up_to_date_where_it_is_not_to_be_dropped_until_it_is_asked_for(
    opened: Open, clock: clocks.Clock
) -> None:
    async with opened() as rig:
        await filled(rig, clock)
        works = rig.reindexer(drop=False)
        await rig.until(Phase.SWITCHED, works)
        assert await works.step(document_locks.Turn()) is False
        await changes(rig.kb, clock, 0)
        assert rigs.holds(rig.old) == rigs.holds(rig.new)
        stores, held = {"old": rig.new, "new": rig.old}, rigs.holds(rig.new)
    # The way back: the settings the other way round. All is there, so nothing is embedded.
    async with opened(**stores, models=(rigs.MODEL, rigs.BEFORE)) as rig:
        copied = rig.meters.reindexed._value.get()
        await rig.until(Phase.SWITCHED, rig.reindexer(drop=False))
        assert rig.both.serving.name == rigs.BEFORE
        assert rig.meters.reindexed._value.get() == copied
        assert await rig.book.ask_drop() is not None
        await rig.until(Phase.DONE, rig.reindexer(drop=False))
        assert rigs.holds(rig.new) == held
        assert await rig.book.ask_drop() is None


async def test_no_phase_begins_before_every_process_is_in_the_one_before(
    opened: Open, tmp_path: Path, clock: clocks.Clock, database: mongo.Database
) -> None:
    async with opened(tmp_path / "a", name="a") as a:
        # One that has never met a reindex, as those of an older version or with the settings of before.
        strange = places.Places(database, "strange", "Process", "strange", clock, lambda: 0.0)
        await strange.confirm(())
        works = a.reindexer()
        assert await works.step(document_locks.Turn())
        assert await works.step(document_locks.Turn())
        await a.place.confirm(())
        assert await works.step(document_locks.Turn()) is False
        said = await a.record()
        assert (said.state, said.reason) == ("Copying", "waits for strange")
        await strange.leave()
        async with opened(tmp_path / "b", name="b", old=a.old, new=a.new) as b:
            await b.place.confirm(())
            # A write that began while the old index alone took writes, and is still under way.
            b.view._phase = Phase.PREPARING
            with b.view.using():
                await b.view.look()
                await b.place.confirm(())
                assert await works.step(document_locks.Turn()) is False
                assert (await a.record()).reason == "waits for b"
            await b.place.confirm(())
            assert await works.step(document_locks.Turn())
            assert a.view.phase is Phase.SWITCHED
            # b still reads the old index, which a still writes.
            await a.kb.ingest(world.request(PETR, urn="u:1"))
            assert b.view.phase is Phase.COPYING
            assert len(await b.both.known(scopes.SHOP, (await a.old.audit("acme"))[0][0].document_id)) == 1
            assert rigs.holds(a.old) == rigs.holds(a.new)


async def test_a_duty_that_was_taken_over_moves_nothing_on(rig: rigs.Rig) -> None:
    works = rig.reindexer()
    assert await works.step(document_locks.Turn(7))
    assert await works.step(document_locks.Turn(9))
    await rig.place.confirm(())
    with pytest.raises(errors.Outrun):
        await works.step(document_locks.Turn(8))
    assert (await rig.record()).state == "Copying"
    with pytest.raises(errors.Outrun):
        await rig.book.begin("x", "y", 8)


async def test_a_process_that_does_not_know_the_phase_neither_reads_nor_writes(opened: Open, tmp_path: Path) -> None:
    async with opened(tmp_path / "a", known_for=45.0) as rig:
        await rig.kb.ingest(world.request(PETR, urn="u:1"))
        rig.reading[0] = 45.0
        for call in (rig.kb.ask("Who?"), rig.kb.ingest(world.request(JANA, urn="u:2")), rig.both.ready()):
            with pytest.raises(errors.Away, match="which vector index serves"):
                await call
        await rig.view.look()
        assert await answers(rig)
        await rig.until(Phase.DONE)
        rig.reading[0] = 1000.0
        assert await answers(rig), "what is done stays done"
    # The settings of another reindex than the one on record.
    with pytest.raises(errors.Away, match="another-model"):
        async with opened(tmp_path / "b", models=("another-model", "a-third")):
            pass
    # Those of the next one, while one process still has the settings of this one.
    async with opened(tmp_path / "c", models=(rigs.MODEL, "a-third")) as rig:
        assert rig.view.phase is Phase.PREPARING
        await rig.reindexer().step(document_locks.Turn())
        assert (await rig.record()).before == rigs.MODEL
    async with opened(tmp_path / "d") as rig:
        assert rig.view.phase is Phase.DONE


async def test_a_question_that_was_embedded_before_the_switch_is_asked_of_its_own_index(rig: rigs.Rig) -> None:
    await rig.kb.ingest(world.request(PETR, urn="u:1"))
    await rig.until(Phase.COPYING)
    questions = indexes.Questions(rig.both)
    assert questions.instruction() == f"{rigs.BEFORE}: "
    works = rig.reindexer()
    await rig.place.confirm(())
    [old] = await questions.embed(["Who?"], Priority.P0)
    while await rig.view.look() is Phase.COPYING:
        await works.step(document_locks.Turn())
    # It may not be answered yet, so the old index stays.
    for seconds, waits in ((0, ["here"]), (29, ["here"]), (1, [])):
        rig.reading[0] += seconds
        await rig.place.confirm(())
        assert await rig.view.awaited() == waits
    assert questions.instruction() == f"{rigs.MODEL}: "
    asked = len(rig.old.switch.calls)
    assert await rig.both.dense(scopes.SHOP, old, limit=5) != []
    assert rig.old.switch.calls[asked:] == ["dense"]
    written = await indexes.Documents(rig.both).embed(["text"], Priority.P3)
    await rig.until(Phase.DONE)
    with pytest.raises(errors.Away, match="another vector index serves"):
        await rig.both.dense(scopes.SHOP, old, limit=5)
    chunk = contract.chunk(scopes.SHOP, "u:1", "text")
    await rig.both.put(scopes.SHOP, [(chunk, written[0])], [])
    with pytest.raises(errors.Away, match="takes writes"):
        await rig.both.put(scopes.SHOP, [(chunk, model.Made([1.0], rigs.BEFORE))], [])


async def test_a_model_that_does_not_answer_changes_nothing(opened: Open, fake: process.Fake) -> None:
    async with opened(models=(rigs.BEFORE, "no-such-model")) as rig:
        works = rig.reindexer()
        assert await works.step(document_locks.Turn())
        with pytest.raises(errors.Unconfigured):
            await works.step(document_locks.Turn())
        await rig.kb.ingest(world.request(PETR, urn="u:1"))
        running = asyncio.create_task(works.run(document_locks.Turn(), interval=3600))
        await waiting.eventually(rig.record, good=lambda record: "no-such-model" in record.reason)
        running.cancel()
        assert rig.view.phase is Phase.PREPARING


async def test_a_document_of_which_the_new_model_computes_no_numbers_holds_nothing_up(
    rig: rigs.Rig, clock: clocks.Clock, fake: process.Fake
) -> None:
    await filled(rig, clock)
    await rig.kb.ingest(world.request("Nobody wrote Badthing.java.", urn="u:bad"))
    fault: dict[str, Any] = {"status": {"code": 500, "message": "json: unsupported value: NaN"}}
    await rig.until(Phase.COPYING)
    # Of no text at all: then it is not the documents' fault, and nothing is passed over.
    fake.set_faults([{"match": {"path": "/api/embed", "model": rigs.MODEL}, **fault}])
    with pytest.raises(router_client.NoNumber):
        await rig.reindexer().step(document_locks.Turn())
    fake.set_faults([{"match": {"path": "/api/embed", "model": rigs.MODEL, "body": "Badthing"}, **fault}])
    await rig.until(Phase.SWITCHED)
    old, new = ({chunk.source_urn for _, chunk, _ in each._chunks.values()} for each in (rig.old, rig.new))
    assert old - new == {"u:bad"}
    said = await rig.record()
    assert (said.state, said.copied, said.left, said.lost) == ("Switched", 0, 0, 1)


async def test_a_slice_that_was_stored_before_the_copying_began_is_stored_again(rig: rigs.Rig) -> None:
    text = "\n\n".join(f"Paragraph {number} goes on. " + "Filler follows here. " * 23 for number in range(130))
    put = rig.old.put

    async def late(owner: scope.Scope, chunks: Any, sentences: Any) -> None:
        await put(owner, chunks, sentences)
        rig.view._phase = Phase.COPYING

    rig.old.put = late  # type: ignore[method-assign]  # another process moves on while this one writes
    with pytest.raises(errors.Away, match="other vector indexes"):
        await rig.kb.pipeline.index(world.request(text), Priority.P3)
    await rig.kb.pipeline.index(world.request(text), Priority.P3)
    assert rig.old._chunks.keys() == rig.new._chunks.keys()
    assert len(rig.new._chunks) > embedding.SLICE


async def test_phases_and_words_are_the_same_everywhere() -> None:
    assert [one.word for one in Phase] == ["Preparing", "Copying", "Switched", "Dropping", "Done"]
    assert set(phase._PHASES.values()) == set(Phase)
    assert memory.Vectors().switch.calls == []
