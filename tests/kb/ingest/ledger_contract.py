"""What every ledger does. A test class inherits this and gives the fixture `ledger`, which keeps three answers."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from kb import visibility
from kb.extract import answers
from kb.ingest import changes, request_record
from tests.kb import clock as clocks
from tests.kb import scopes


class Ledger(request_record.IngestRequestRecords, answers.Shelf, changes.Changes, Protocol):
    """The three ports: a ledger keeps intents, answers and changes."""


async def record(ledger: request_record.IngestRequestRecords, document_id: str) -> request_record.IngestRequestRecord:
    """What the ledger has of a document that it knows."""
    found = await ledger.find(document_id)
    assert found is not None
    return found[0]


class LedgerContract:
    """The meaning of `IngestRequestRecords`, `kb.extract.answers.Shelf` and `kb.ingest.changes.Changes`."""

    async def test_a_document_is_known_once_it_was_finished(self, ledger: Ledger, clock: clocks.Clock) -> None:
        first = await ledger.open("d", scopes.SHOP, "u:1", "{}", clock())
        again = await ledger.open("d", scopes.SHOP, "u:1", "{}", clock())
        assert (first.known, first.attempts, again.known, again.attempts) == (False, 1, False, 2)
        await ledger.finish("d", clock())
        replacing = await ledger.open("d", scopes.SHOP, "u:1", '{"new": 1}', clock())
        retried = await ledger.open("d", scopes.SHOP, "u:1", '{"new": 1}', clock())
        assert (replacing.known, replacing.attempts, retried.known, retried.attempts) == (True, 1, True, 2)
        await ledger.forget("d")
        assert (await ledger.open("d", scopes.SHOP, "u:1", "{}", clock())).known is False

    async def test_a_record_is_found_with_its_request(self, ledger: Ledger, clock: clocks.Clock) -> None:
        assert await ledger.find("d") is None
        opened = await ledger.open("d", scopes.SHOP, "u:1", '{"is": 1}', clock())
        assert await ledger.find("d") == (opened, '{"is": 1}')
        await ledger.finish("d", clock())
        found = await ledger.find("d")
        assert found is not None
        assert (found[0].state, found[0].recorded, found[1]) == (request_record.State.FINISHED, False, None)

    async def test_a_record_keeps_when_its_request_and_what_is_stored_were_observed(
        self, ledger: Ledger, clock: clocks.Clock
    ) -> None:
        async def times() -> tuple[int | None, int | None]:
            known = await record(ledger, "d")
            return known.dated_ms, known.stored_ms

        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 1}', clock(), dated_ms=1)
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 1}', clock(), dated_ms=7)
        assert await times() == (1, None), "the same request came when it came first"
        await ledger.finish("d", clock())
        assert (await times())[1] == 1
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 0}', clock())
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 0}', clock(), dated_ms=1)
        assert await times() == (1, 1), "a record without the time of its request gets it when that is tried again"
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 2}', clock(), dated_ms=2)
        assert await times() == (2, 1)
        await ledger.fail("d", "no way", clock())
        await ledger.refuse("d", scopes.SHOP, "u:1", "empty", clock())
        assert (await times())[1] == 1, "of what is stored nothing has changed"
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 3}', clock())
        assert await times() == (None, 1)
        await ledger.finish("d", clock())
        assert (await times())[1] is None
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 4}', clock(), dated_ms=4)
        await ledger.finish("d", clock())
        await ledger.forget("d")
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 5}', clock(), dated_ms=5)
        assert await times() == (5, None)

    async def test_a_stamp_is_that_of_the_version_that_is_stored(self, ledger: Ledger, clock: clocks.Clock) -> None:
        async def stamp() -> str:
            return (await record(ledger, "d")).stamp

        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 1}', clock())
        assert await stamp() == ""
        await ledger.finish("d", clock(), stamp="first")
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 2}', clock())
        await ledger.fail("d", "no way", clock())
        assert await stamp() == "first", "the first version is stored still"
        await ledger.open("d", scopes.SHOP, "u:1", '{"v": 2}', clock())
        await ledger.finish("d", clock())
        assert await stamp() == ""
        await ledger.finish("d", clock(), stamp="second")
        await ledger.forget("d")
        assert await ledger.find("d") is None

    async def test_open_records_are_listed_oldest_first(self, ledger: Ledger, clock: clocks.Clock) -> None:
        for name in ("first", "second", "done", "broken"):
            clock.advance(seconds=1)
            await ledger.open(name, scopes.SHOP, f"u:{name}", f'{{"is": "{name}"}}', clock())
        await ledger.finish("done", clock())
        await ledger.fail("broken", "no way", clock())
        await ledger.interrupt("first", "weaviate is away", clock())
        listed = await ledger.unfinished(before=clock() + timedelta(seconds=1))
        assert [(one.document_id, one.reason) for one in listed] == [
            ("second", ""),
            ("first", "weaviate is away"),
        ]
        assert listed[0].owner == scopes.SHOP
        assert await ledger.unfinished(before=clock() - timedelta(hours=1)) == []
        assert await ledger.count() == {
            request_record.State.OPEN: 2,
            request_record.State.FINISHED: 1,
            request_record.State.FAILED: 1,
        }
        assert await ledger.working(["first", "done", "broken", "unknown"]) == {"first"}

    async def test_open_and_failed_records_are_shown_to_whom_they_concern(
        self, ledger: Ledger, clock: clocks.Clock
    ) -> None:
        owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
        for number, owner in enumerate(owners):
            clock.advance(seconds=1)
            await ledger.open(f"open {number}", owner, f"u:{number}", "{}", clock())
            await ledger.open(f"failed {number}", owner, f"u:{number}", "{}", clock())
            await ledger.fail(f"failed {number}", "no way", clock())
        for viewer in owners:
            seen = [number for number, owner in enumerate(owners) if visibility.sees(viewer, owner)][::-1]
            pending = await ledger.pending(viewer, limit=100)
            failed = await ledger.failed(viewer, limit=100)
            assert [one.document_id for one in pending] == [f"open {number}" for number in seen]
            assert [(one.document_id, one.reason) for one in failed] == [(f"failed {n}", "no way") for n in seen]
        assert len(await ledger.pending(scopes.SHOP, limit=2)) == 2

    async def test_what_an_open_request_mentions(self, ledger: Ledger, clock: clocks.Clock) -> None:
        await ledger.open("d", scopes.SHOP, "u:1", '{"contentRef": {"key": "a.b(c"}}', clock())
        assert await ledger.mentions("a.b(c")
        assert not await ledger.mentions("a-b(c")
        await ledger.finish("d", clock())
        assert not await ledger.mentions("a.b(c")

    async def test_what_waits_of_a_project_moves_with_it(self, ledger: Ledger, clock: clocks.Clock) -> None:
        owners = (scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL, scopes.ACME, scopes.GLOBAL)
        for number, owner in enumerate((*owners, scopes.make("other", "shop", "retail"))):
            for name in ("open", "failed", "done"):
                await ledger.open(f"{name} {number}", owner, f"u:{number}", f'{{"of": "{name}"}}', clock())
            await ledger.fail(f"failed {number}", "no way", clock())
            await ledger.finish(f"done {number}", clock())
        await ledger.refuse("refused", scopes.SHOP, "u:refused", "empty", clock())
        before = {name: await ledger.find(name) for name in ("open 0", "failed 0", "open 1", "failed 6")}
        clock.advance(hours=1)
        for moved in (scopes.make("acme", "shop", "wholesale"), scopes.make("acme", "shop")):
            assert sorted(await ledger.regroup(moved)) == ["failed 0", "open 0", "refused"]
            assert await ledger.regroup(moved) == []
            for name, found in before.items():
                assert found is not None
                known = replace(found[0], owner=moved) if name.endswith("0") else found[0]
                assert await ledger.find(name) == (known, found[1])
            seen = await ledger.listed(scopes.make("acme", "neighbour", "wholesale"))
            assert ("open 0" in {one.document_id for one in seen}) == bool(moved.group_id)
        assert (await ledger.open("open 0", moved, "u:0", '{"of": "open"}', clock())).attempts == 2

    async def test_an_erased_scope_has_no_records(self, ledger: Ledger, clock: clocks.Clock) -> None:
        owners = {"client": scopes.ACME, "project": scopes.SHOP, "sibling": scopes.BLOG, "other": scopes.OTHER}
        for name, owner in owners.items():
            await ledger.open(name, owner, f"u:{name}", "{}", clock())
        assert await ledger.erase(scopes.SHOP) == 1
        assert await ledger.find("project") is None
        assert await ledger.erase(scopes.ACME) == 2
        assert await ledger.working(owners) == {"other"}

    async def test_an_erased_scope_has_no_answers_and_takes_none_of_another(self, ledger: Ledger) -> None:
        for owner in (scopes.SHOP, scopes.OTHER):
            await ledger.keep_answer("k", "kb.extract/v1", f"of {owner.client_id}", owner)
        assert await ledger.erase(scopes.SHOP) == 0
        assert await ledger.answer("k", scopes.SHOP) is None
        assert await ledger.answer("k", scopes.BLOG) is None
        assert await ledger.answer("k", scopes.OTHER) == f"of {scopes.OTHER.client_id}"

    async def test_an_answer_is_shared_within_a_client_and_stays_with_each_that_used_it(self, ledger: Ledger) -> None:
        await ledger.keep_answer("k", "kb.extract/v1", "a", scopes.SHOP)
        assert await ledger.answer("k", scopes.OTHER) is None
        assert await ledger.answer("k", scopes.BLOG) == "a"
        await ledger.erase(scopes.SHOP)
        assert await ledger.answer("k", scopes.BLOG) == "a"
        await ledger.erase(scopes.ACME)
        assert await ledger.answer("k", scopes.BLOG) is None

    async def test_the_answers_not_used_for_longest_go_first(self, ledger: Ledger, clock: clocks.Clock) -> None:
        for number in range(3):
            clock.advance(hours=1)
            await ledger.keep_answer(f"k{number}", "kb.extract/v1", f"a{number}", scopes.SHOP)
        clock.advance(hours=1)
        assert await ledger.answer("k0", scopes.SHOP) == "a0"
        for number in (3, 4):
            clock.advance(hours=1)
            await ledger.keep_answer(f"k{number}", "kb.extract/v1", f"a{number}", scopes.SHOP)
        assert [await ledger.answer(f"k{number}", scopes.SHOP) for number in range(5)] == ["a0", None, None, "a3", "a4"]

    async def test_a_refused_request_is_listed_and_displaces_no_accepted_one(
        self, ledger: Ledger, clock: clocks.Clock
    ) -> None:
        await ledger.open("open", scopes.SHOP, "u:open", "{}", clock())
        await ledger.open("failed", scopes.SHOP, "u:failed", '{"of": "failed"}', clock())
        await ledger.fail("failed", "the model refused it", clock())
        await ledger.open("done", scopes.SHOP, "u:done", "{}", clock())
        await ledger.finish("done", clock())
        for name in ("open", "failed", "done", "new"):
            clock.advance(seconds=1)
            await ledger.refuse(name, scopes.SHOP, f"u:{name}", "empty", clock())
        listed = await ledger.failed(scopes.SHOP, limit=10)
        assert [(one.document_id, one.reason, one.known, one.recorded) for one in listed] == [
            ("new", "empty", False, False),
            ("done", "empty", True, False),
            ("failed", "the model refused it", False, True),
        ]
        found = await ledger.find("failed")
        assert found is not None
        assert (found[1], await ledger.find("never")) == ('{"of": "failed"}', None)
        assert (await ledger.mentions("of"), await ledger.mentions("else")) == (True, False)
        assert await ledger.working(["open", "failed", "done", "new"]) == {"open"}

    async def test_no_list_holds_the_requests(self, ledger: Ledger, clock: clocks.Clock) -> None:
        size, before = 400_000, clock() + timedelta(seconds=1)
        for number in range(10):
            await ledger.open(f"d{number}", scopes.SHOP, f"u:{number}", "x" * size, clock())
            await ledger.open(f"f{number}", scopes.SHOP, f"v:{number}", "x" * size, clock())
            await ledger.fail(f"f{number}", "no way", clock())
        tracemalloc.start()
        assert len(await ledger.unfinished(before=before)) == 10
        assert len(await ledger.pending(scopes.SHOP, limit=100)) == 10
        assert len(await ledger.failed(scopes.SHOP, limit=100)) == 10
        assert len(await ledger.listed(scopes.SHOP, limit=100)) == 20
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < size

    async def test_open_records_go_on_page_by_page(self, ledger: Ledger, clock: clocks.Clock) -> None:
        for number in range(7):
            await ledger.open(f"d{number}", scopes.SHOP, f"u:{number}", "{}", clock())
            clock.advance(seconds=number % 2)
        seen: list[str] = []
        after: request_record.IngestRequestRecord | None = None
        while page := await ledger.unfinished(before=clock() + timedelta(seconds=1), after=after, limit=2):
            seen += [one.document_id for one in page]
            after = page[-1]
        assert seen == [f"d{number}" for number in range(7)]

    async def test_open_and_failed_records_are_listed_by_their_source(
        self, ledger: Ledger, clock: clocks.Clock
    ) -> None:
        for name, owner in (("a", scopes.SHOP), ("b", scopes.BLOG), ("c", scopes.SHOP), ("d", scopes.SHOP)):
            await ledger.open(name, owner, f"mail::{name}", "{}", clock())
        await ledger.open("e", scopes.SHOP, "note::e", "{}", clock())
        await ledger.fail("c", "no way", clock())
        await ledger.finish("d", clock())

        async def ids(*, beginning: str = "", after: str = "") -> list[str]:
            return [one.document_id for one in await ledger.listed(scopes.SHOP, beginning=beginning, after=after)]

        assert await ids() == ["a", "c", "e"]
        assert await ids(beginning="mail::") == ["a", "c"]
        assert await ids(beginning="m.il") == []
        assert await ids(after="a") == ["c", "e"]
        assert [one.document_id for one in await ledger.listed(scopes.SHOP, limit=1)] == ["a"]
        found = await ledger.among(["a", "b", "d", "unknown"])
        assert {name: one.source_urn for name, one in found.items()} == {"a": "mail::a", "b": "mail::b"}

    async def test_changes_are_listed_in_order_page_by_page(self, ledger: Ledger) -> None:
        await ledger.note(scopes.SHOP, ["b", "d"])
        await ledger.note(scopes.BLOG, ["a", "c"])
        await ledger.note(scopes.SHOP, [])
        seen: list[changes.Change] = []
        while page := await ledger.changed(after=seen[-1].document_id if seen else "", limit=3):
            assert len(page) <= 3
            seen += page
        assert [(one.document_id, one.owner) for one in seen] == [
            ("a", scopes.BLOG),
            ("b", scopes.SHOP),
            ("c", scopes.BLOG),
            ("d", scopes.SHOP),
        ]

    async def test_a_change_that_is_noted_again_is_not_settled_by_what_was_read_before(self, ledger: Ledger) -> None:
        await ledger.note(scopes.SHOP, ["d"])
        [first] = await ledger.changed()
        await ledger.note(scopes.SHOP, ["d"])
        await ledger.settle("d", first.mark)
        [second] = await ledger.changed()
        await ledger.settle("d", second.mark)
        assert await ledger.changed() == []
        # Nor once nothing is left of the marks that were given before.
        await ledger.note(scopes.SHOP, ["d"])
        for mark in (first.mark, second.mark):
            await ledger.settle("d", mark)
        assert [one.document_id for one in await ledger.changed()] == ["d"]

    async def test_an_erased_scope_has_no_changes(self, ledger: Ledger) -> None:
        for owner in (scopes.SHOP, scopes.BLOG, scopes.OTHER):
            await ledger.note(owner, [f"{owner.client_id} {owner.project_id}"])
        await ledger.erase(scopes.SHOP)
        assert [one.owner for one in await ledger.changed()] == [scopes.BLOG, scopes.OTHER]
        await ledger.erase(scopes.ACME)
        assert [one.owner for one in await ledger.changed()] == [scopes.OTHER]

    async def test_the_last_pass_of_each_kind_is_kept(self, ledger: Ledger, clock: clocks.Clock) -> None:
        assert await ledger.passes() == {}
        full = changes.Pass("Full", clock(), None, "acme", "graph:7")
        await ledger.record(full)
        await ledger.record(changes.Pass("Changed", clock()))
        ended = changes.Pass("Changed", clock(), clock() + timedelta(seconds=2))
        await ledger.record(ended)
        assert await ledger.passes() == {"Full": full, "Changed": ended}
