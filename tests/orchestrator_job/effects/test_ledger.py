"""The ledger and the session memory against a real MongoDB wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import pendingtask, scope
from orchestrator_job import errors
from orchestrator_job.effects import ledger, ledger_entries, results
from orchestrator_job.store import fence, mongo, retry
from tests.orchestrator_job import job

pytestmark = pytest.mark.services

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Letter:
    """An effect outside that cannot be taken back: sent letters, and what the post office knows of them."""

    def __init__(self, *, repeatable: bool = False, dies: bool = False) -> None:
        self.repeatable = repeatable
        self.dies = dies
        self.sent: list[str] = []
        self.known: set[str] = set()

    def intent(self) -> Mapping[str, Any]:
        return {"to": "ann"}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        return {"found": key} if key in self.known else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        self.sent.append(key)
        if self.dies:
            raise ConnectionError("the process dies here")
        return {"sent": key}


def _database(store: job.Store) -> mongo.Database:
    return mongo.Database(store.client, store.name, retry.Retry(5))


async def _book(store: job.Store, attempt: int = 1, *decisions: pendingtask.Decided) -> ledger.Ledger:
    guard = fence.Fence(_database(store), "t1", attempt, f"holder-{attempt}")
    await guard.claim(NOW)
    return ledger.Ledger(_database(store), guard, lambda: NOW, decisions)


async def _started(store: job.Store) -> Letter:
    """One that the first process has begun to send, and died."""
    letter = Letter(dies=True)
    with pytest.raises(ConnectionError):
        await (await _book(store)).settle("s", 0, letter)
    return letter


async def test_an_effect_happens_once_and_its_receipt_is_remembered(store: job.Store) -> None:
    letter = Letter()
    assert await (await _book(store)).settle("r1.mail", 0, letter) == {"sent": "t1/r1.mail/0"}
    assert await (await _book(store, 2)).settle("r1.mail", 0, letter) == {"sent": "t1/r1.mail/0"}
    assert await (await _book(store, 2)).settle("r1.mail", 1, letter) == {"sent": "t1/r1.mail/1"}
    assert letter.sent == ["t1/r1.mail/0", "t1/r1.mail/1"]


async def test_a_started_effect_is_looked_up_then_repeated_only_if_harmless(store: job.Store) -> None:
    letter = Letter(dies=True)
    book = await _book(store)
    with pytest.raises(ConnectionError):
        await book.settle("s", 0, letter)
    assert [entry["state"] for entry in store.all("orchestrator_ledger")] == ["started"]
    with pytest.raises(errors.MayHaveHappened):
        await book.settle("s", 0, letter)
    assert letter.sent == ["t1/s/0"]
    letter.known.add("t1/s/0")
    assert await book.settle("s", 0, letter) == {"found": "t1/s/0"}

    harmless = Letter(repeatable=True, dies=True)
    with pytest.raises(ConnectionError):
        await book.settle("s", 1, harmless)
    harmless.dies = False
    assert await book.settle("s", 1, harmless) == {"sent": "t1/s/1"}
    assert harmless.sent == ["t1/s/1", "t1/s/1"]


def _decided(attempt: int, verdict: str, request: str = "") -> pendingtask.Decided:
    return pendingtask.Decided(
        request_id=request or f"run-{attempt}-1", attempt=attempt, verdict=pendingtask.Verdict(verdict), author="ada"
    )


async def _asked(book: ledger.Ledger, letter: Letter, step: str = "s") -> errors.MayHaveHappened:
    """It is unknown whether the letter was sent; a person is shown that and asked."""
    with pytest.raises(errors.MayHaveHappened) as caught:
        await book.settle(step, 0, letter)
    assert not await book.resolved(step, 0)
    await book.show(step, 0)
    return caught.value


async def test_an_approval_has_a_started_effect_done_again_and_counts_once(store: job.Store) -> None:
    letter = await _started(store)
    await _asked(await _book(store, 2), letter)
    # What was decided about another run's request decides nothing here.
    await _asked(await _book(store, 3, _decided(1, "Approved")), letter)
    assert letter.sent == ["t1/s/0"]
    with pytest.raises(ConnectionError):  # it dies in the middle once more
        await (await _book(store, 4, _decided(3, "Approved"))).settle("s", 0, letter)
    assert letter.sent == ["t1/s/0"] * 2
    letter.dies = False
    await _asked(await _book(store, 5, _decided(3, "Approved")), letter)
    book = await _book(store, 6, _decided(3, "Approved"), _decided(5, "Approved"))
    assert await book.settle("s", 0, letter) == {"sent": "t1/s/0"}
    assert letter.sent == ["t1/s/0"] * 3


async def test_other_arguments_do_not_have_a_started_effect_done_again(store: job.Store) -> None:
    letter = await _started(store)
    await _asked(await _book(store), letter)
    edited = _decided(1, "Approved").model_copy(update={"arguments": '{"to": "b"}'})
    again = await _asked(await _book(store, 2, edited), letter)
    assert "cannot be changed" in str(again.remedy)
    assert letter.sent == ["t1/s/0"]
    letter.dies = False
    assert await (await _book(store, 3, edited, _decided(2, "Approved"))).settle("s", 0, letter) == {"sent": "t1/s/0"}


@pytest.mark.parametrize("named", [True, False])
async def test_an_approval_counts_for_the_entry_that_was_shown(store: job.Store, named: bool) -> None:
    first, second = Letter(dies=True), Letter(dies=True)
    book = await _book(store)
    for step, letter in (("a", first), ("b", second)):
        with pytest.raises(ConnectionError):
            await book.settle(step, 0, letter)
        letter.dies = False
    # Both are unknown, and one of them is shown.
    with pytest.raises(errors.MayHaveHappened):
        await book.settle("a", 0, first)
    await _asked(book, second, "b")
    approved = _decided(1, "Approved").model_copy(update={"about": "b/0" if named else ""})
    book = await _book(store, 2, approved)
    await _asked(book, first, "a")
    assert await book.settle("b", 0, second) == {"sent": "t1/b/0"}
    assert (first.sent, second.sent) == (["t1/a/0"], ["t1/b/0"] * 2)


async def test_a_decision_without_a_name_does_not_count_where_an_attempt_has_asked_twice(store: job.Store) -> None:
    """Two pods of one attempt showed different entries, and an older operator does not say which was meant."""
    first, second = Letter(dies=True), Letter(dies=True)
    for step, letter in (("a", first), ("b", second)):
        book = await _book(store)
        with pytest.raises(ConnectionError):
            await book.settle(step, 0, letter)
        await _asked(book, letter, step)
    await _asked(await _book(store, 2, _decided(1, "Approved")), first, "a")
    assert (first.sent, second.sent) == (["t1/a/0"], ["t1/b/0"])


async def test_a_rejection_leaves_a_started_effect_as_it_is(store: job.Store) -> None:
    letter = await _started(store)
    await _asked(await _book(store), letter)
    receipt = await (await _book(store, 2, _decided(1, "Rejected"))).settle("s", 0, letter)
    assert receipt["skipped"] is True
    assert receipt["decision"]["verdict"] == "Rejected"
    # It stays so without the decision in the memory.
    assert await (await _book(store, 3)).settle("s", 0, letter) == receipt
    assert letter.sent == ["t1/s/0"]


async def test_a_decision_is_asked_for_once_and_remembered(store: job.Store) -> None:
    assert await (await _book(store)).decide("r1.approval.a", {"answer": "a"}) is None
    assert await (await _book(store, 2)).decide("r1.approval.a", {"answer": "a"}) is None
    # The latest request is open, not the one before it.
    assert await (await _book(store, 3, _decided(1, "Approved"))).decide("r1.approval.a", {"answer": "a"}) is None
    decided = await (await _book(store, 4, _decided(3, "Rejected"))).decide("r1.approval.a", {"answer": "a"})
    assert decided == _decided(3, "Rejected")
    assert await (await _book(store, 5)).decide("r1.approval.a", {"answer": "a"}) == decided
    # Another answer is another question.
    assert await (await _book(store, 5, _decided(3, "Approved"))).decide("r1.approval.b", {"answer": "b"}) is None


async def test_an_older_epoch_does_not_act(store: job.Store) -> None:
    older, letter = await _book(store), Letter(dies=True)
    newer = await _book(store)
    with pytest.raises(ConnectionError):
        await newer.settle("s", 0, letter)
    with pytest.raises(errors.Fenced):
        await older.settle("s", 0, Letter(repeatable=True))
    assert letter.sent == ["t1/s/0"]


async def test_the_session_memory_keeps_fifty_entries_of_seven_days(store: job.Store) -> None:
    owner, other = scope.Scope(client_id="a", project_id="p"), scope.Scope(client_id="b")
    database = _database(store)
    for number in range(results.SESSION_LIMIT + 3):
        at = NOW + timedelta(minutes=number)
        await results.RememberSession(database, owner, "t1", "chat", "x" * 300, at).perform(f"k{number:03}")
    await results.RememberSession(database, other, "t2", "chat", "y", NOW).perform("other")
    entries = store.all("session_memory", clientId="a")
    assert sorted(entry["_id"] for entry in entries) == [f"k{number:03}" for number in range(3, 53)]
    assert {len(entry["summary"]) for entry in entries} == {results.SESSION_SUMMARY_CHARS}
    late = NOW + timedelta(days=8)
    await results.RememberSession(database, owner, "t3", "chat", "z", late).perform("late")
    assert [entry["_id"] for entry in store.all("session_memory", clientId="a")] == ["late"]
    assert len(store.all("session_memory", clientId="b")) == 1


async def test_groups_and_their_client_have_fifty_entries_each(store: job.Store) -> None:
    """An entry of a project is that of any group."""
    client = scope.Scope(client_id="a")
    first, second = (scope.Scope(client_id="a", group_id=name) for name in ("g1", "g2"))
    moved = [scope.Scope(client_id="a", project_id="p", group_id=name) for name in ("g1", "g2")]
    database = _database(store)
    for number in range(results.SESSION_LIMIT + 1):
        at = NOW + timedelta(minutes=number)
        for owner in (first, second, moved[number % 2]):
            key = f"{owner.group_id if not owner.project_id else 'p'}-{number:02}"
            await results.RememberSession(database, owner, "t", "chat", "x", at).perform(key)
    found = store.all("session_memory")
    kept = Counter((one["projectId"], one["groupId"]) for one in found)
    assert kept == {("", "g1"): 50, ("", "g2"): 50, ("p", ""): 50}
    assert not {"g1-00", "g2-00", "p-00"} & {one["_id"] for one in found}
    for number in range(results.SESSION_LIMIT):
        at = NOW + timedelta(minutes=number)
        await results.RememberSession(database, client, "t", "chat", "x", at).perform(f"c-{number:02}")
    assert len(store.all("session_memory", projectId="", groupId="")) == 50


class _Away(Letter):
    async def perform(self, key: str) -> ledger_entries.Receipt:
        raise errors.NotBegun("The server does not answer. Nothing was sent.")


async def test_a_permit_is_not_free_between_two_tries_of_its_effect(store: job.Store) -> None:
    book = await _book(store)
    allowed: ledger_entries.Allowed = {"by": "Permit", "name": "spec.permits[0]", "permit": "1"}
    for _ in range(2):
        await book.announce("s", 0, {"to": "ann"}, allowed)
        with pytest.raises(errors.NotBegun):
            await book.settle("s", 0, _Away(), allowed)
        assert (await book.used("other", 0)).permitted == (allowed,)
        # Given up, and announced again by the next run.
        await book.withdraw("s", 0)
        assert (await book.used("other", 0)).permitted == ()
    await book.announce("s", 0, {"to": "ann"}, allowed)
    assert (await book.used("other", 0)).permitted == (allowed,)
    letter = Letter()
    await book.settle("s", 0, letter, allowed)
    await book.withdraw("s", 0)
    assert (await book.used("other", 0)).permitted == (allowed,)
    assert len(letter.sent) == 1
