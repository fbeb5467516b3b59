"""What left its source leaves: seeded histories of a model mailbox against MongoDB, with kills between any two writes.

JERVIS_TEST_HISTORIES sets how many histories there are; otherwise `make test` has ten and `make test-thorough` forty.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from controllers.connection import decide
from controllers.connection.credentials import Finding
from sources.core import assignments, missing_items
from sources.core.state import BROKEN, HELD, SWEPT
from tests import thorough
from tests.sources import parts
from tests.sources.model import Box, World

pytestmark = pytest.mark.services
HISTORIES = int(os.environ.get("JERVIS_TEST_HISTORIES", thorough.examples(40)))
SPEC = {"type": "Email", "url": "imap://h"}


Rig = parts.Rig[Box, World]


@contextlib.asynccontextmanager
async def rig(seed: int, *listeners: Any, mails: int = 0, folder: str = "INBOX") -> AsyncIterator[Rig]:
    """Its site is a mailbox with so many mails."""
    dice = random.Random(seed)
    box = Box(dice)
    for number in range(mails):
        box.put(number, folder)
    async with World().serving() as world:
        assert isinstance(world, World)
        opened = parts.rig(box, world, lambda *_: box, spec=SPEC, dice=dice, listeners=listeners)
        async with opened as standing:
            yield standing


def live(one: Rig) -> set[str]:
    return {f"email::m{number}" for number in one.site.present()}


async def condition(one: Rig) -> tuple[str, str, str]:
    """Status, reason and message of DeletionsApplied, as the operator writes them."""
    state = (await one.assigned.states())[one.uid][2]
    patched = decide.patch(one.connection(), Finding(True, "KeysPresent", "There."), one.now, state=state)
    [applied] = [each for each in patched["conditions"] if each["type"] == "DeletionsApplied"]
    return applied["status"], applied["reason"], applied["message"]


def change(one: Rig, fresh: list[int]) -> None:
    """One change of the mailbox."""
    box, dice = one.site, one.site.dice
    there, away = sorted(box.present()), sorted(set(box.appearances) - box.present())
    what = dice.choice(("new", "new", "move", "move", "copy", "delete", "back", "anew"))
    folder = dice.choice(("INBOX", "Sent"))
    if what == "new" or not there:
        fresh.append(len(fresh))
        box.put(fresh[-1], folder)
    elif what == "move":
        box.move(dice.choice(there))
    elif what == "copy":
        box.put(dice.choice(there), folder)
    elif what == "delete":
        box.take(dice.choice(there))
    elif what == "back" and away:
        box.put(dice.choice(away), folder)
    elif what == "anew":
        box.renumber(folder)


async def history(one: Rig, faults: tuple[str, ...]) -> int:
    """Changes, polls, kills and broken lists; then how many mails were deleted that never were away."""
    dice, fresh = one.site.dice, list[int]()
    for _ in range(dice.randint(4, 8)):
        change(one, fresh)
    one.site.meanwhile = lambda: change(one, fresh)
    for _ in range(7):
        for _ in range(dice.randint(0, 3)):
            change(one, fresh)
        one.site.fault = dice.choice(faults)
        one.world.refuses = {urn for urn in sorted(one.world.documents) if dice.random() < 0.2}
        await one.round(left=dice.choice((None, dice.randint(0, 40))))
        if dice.random() < 0.5:
            await one.settle()
        one.world.work(dice)
    wrong = {urn for urn in one.world.deleted if int(urn.removeprefix("email::m")) not in one.site.absent}
    one.site.fault, one.site.meanwhile = "", None
    one.world.refuses.clear()
    await one.quiet(3)
    return len(wrong)


@pytest.mark.parametrize("part", range(4))
async def test_histories_end_with_what_the_source_has(part: int) -> None:
    for seed in range(part, HISTORIES, 4):
        async with rig(seed) as one:
            wrong = await history(one, ("", "", "raises", "torn"))
            assert wrong == 0, f"seed {seed}: what was always there was deleted"
            assert one.world.documents == live(one), f"seed {seed}"
            for number, times in one.site.appearances.items():
                made = one.world.created.count(f"email::m{number}")
                assert made <= times, f"seed {seed}: mail {number} came {times} times and became {made} tasks"


async def test_an_error_that_is_taken_for_the_end_deletes_what_is_there() -> None:
    """The same histories with a source that breaks the port's rule: they can tell the difference."""
    wrong = 0
    for seed in range(6):
        async with rig(seed) as one:
            wrong += await history(one, ("believed",))
    assert wrong > 0


async def test_the_brake_holds_until_a_person_confirms_what_was_seen() -> None:
    async with rig(1, mails=20) as one:
        assert (await one.swept()).outcome == SWEPT
        one.world.work()
        assert len(one.world.documents) == 20
        for number in range(8):
            one.site.take(number)
        held = await one.swept()
        assert (held.outcome, held.known, held.missing, held.removed) == (HELD, 20, 8, 0)
        status, reason, message = await condition(one)
        assert (status, reason) == ("False", "TooManyMissing")
        seen = held.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        assert message.endswith(f"kubectl jervis resync site --confirm {seen}")
        for number in range(8, 16):
            one.site.take(number)
        one.confirmed = "2100-01-01T00:00:00Z"
        assert (await one.swept()).removed == 0, "no one has seen that yet"
        one.confirmed = seen
        part = await one.swept()
        assert (part.outcome, part.missing, part.removed) == (HELD, 16, 8), "what left later is not confirmed"
        await one.settle()
        await one.round()
        assert one.world.documents == {f"email::m{number}" for number in range(8, 20)}
        for number in range(8, 16):
            one.site.put(number, "Sent")
        assert (await one.swept()).outcome == SWEPT, "they are back"
        assert (
            one.measured.registry.get_sample_value(
                "jervis_sources_deletions_total", {"type": "Email", "outcome": "removed"}
            )
            == 8
        )


async def test_a_few_leave_at_once_and_a_begun_task_stays() -> None:
    async with rig(2, mails=4) as one:
        await one.swept()
        begun = next(each for each in one.world.tasks.values() if each["spec"]["sourceUrn"] == "email::m0")
        begun["status"] = {"phase": "Orchestrating", "attempt": 1}
        qualifying = next(each for each in one.world.tasks.values() if each["spec"]["sourceUrn"] == "email::m1")
        qualifying["status"] = {"phase": "Qualifying"}
        for number in range(3):
            one.site.take(number)
        assert (await one.swept()).removed == 3
        assert (await condition(one))[:2] == ("True", "Swept")
        assert (await condition(one))[2].endswith(": 3 of 4 items left the source.")
        await one.settle()
        await one.round()
        urns = {each["spec"]["sourceUrn"] for each in one.world.tasks.values()}
        assert urns == {"email::m0", "email::m1", "email::m3"}, "only what was not begun is deleted"
        one.world._step(qualifying)
        assert "email::m1" in one.world.documents
        await one.settle()
        one.now += timedelta(hours=2)
        await one.round()
        assert one.world.documents == set(), "its document goes once it is made"


async def test_who_may_see_mails_is_said_by_their_connection() -> None:
    """The mailbox does not tell. Another word holds for what is known once the mailbox is read from its beginning."""
    jana = {"visibility": "Restricted", "principals": ["user:jana@acme.cz"]}
    async with rig(6) as one:

        def told() -> dict[str, list[Any]]:
            found: dict[str, list[Any]] = {}
            for each in one.world.tasks.values():
                found.setdefault(each["spec"]["sourceUrn"], []).append(each["spec"].get("access"))
            return found

        one.site.put(0, "INBOX")
        await one.swept()
        assert told() == {"email::m0": [None]}, "Unknown, which the knowledge base shows to nobody"
        one.access, one.generation = jana, 2
        one.site.put(1, "INBOX")
        await one.round()
        assert told() == {"email::m0": [None], "email::m1": [jana]}
        one.resync = "now"
        await one.round()
        assert told() == {"email::m0": [None, jana], "email::m1": [jana]}
        for _ in range(2):
            one.access, one.generation, one.resync = {"visibility": "Unknown"}, one.generation + 1, one.resync + "!"
            await one.round()
            assert [each[-1] for each in told().values()] == [{"visibility": "Unknown"}] * 2
        assert len(one.world.created) == 5
        one.site.take(0)
        one.site.take(1)
        await one.swept()
        await one.settle()
        await one.round()
        assert one.world.tasks == {}, "all tasks leave that were not begun"


async def test_one_that_cannot_be_deleted_holds_up_no_other() -> None:
    async with rig(3, mails=4) as one:
        await one.swept()
        one.world.work()
        one.world.refuses = {"email::m0"}
        for number in range(3):
            one.site.take(number)
        await one.swept()
        await one.settle()
        await one.round()
        assert one.world.documents == {"email::m0", "email::m3"}
        one.world.refuses = set()
        one.now += timedelta(hours=2)
        await one.round()
        assert one.world.documents == {"email::m3"}


@pytest.mark.parametrize("fault", ["raises", "torn"])
async def test_a_list_that_breaks_off_deletes_nothing_and_says_so(fault: str) -> None:
    async with rig(4, mails=4) as one:
        await one.swept()
        one.site.take(0)
        one.site.fault, one.site.certain = fault, True
        broken = await one.swept()
        assert broken.outcome == BROKEN
        status, reason, message = await condition(one)
        assert (status, reason, message.endswith(broken.message)) == ("False", "SweepFailed", True)
        assert one.world.deleted == []


async def test_requests_are_the_items_by_pages() -> None:
    async with rig(5, mails=10) as one:
        await one.swept()
        before = one.site.requests
        await one.swept()
        assert one.site.requests - before == 4, "10 items, 3 a page"


async def leaving(one: Rig) -> assignments.Claim:
    """A claim of a process that is about to forget the document of the mail that left, which has come a second time."""
    one.site.put(1, "INBOX")
    one.site.put(2, "INBOX")
    await one.swept()
    one.world.work()
    one.site.take(1)
    one.now += timedelta(hours=2)
    await one.round()
    await one.settle()
    one.now += timedelta(hours=2)
    return await parts.claimed(one.assigned, one.now, by="frozen")


async def again(one: Rig) -> None:
    """Another process has the Connection now, the mail is back, and its document was made anew."""
    one.site.put(1, "INBOX")
    one.now += timedelta(hours=1)
    claim = await parts.claimed(one.assigned, one.now, by="other")
    await one.polls.serve(claim)
    one.now += timedelta(hours=2)
    await one.round()
    one.world.work()
    assert "email::m1" in one.world.documents
    one.world.deleted.clear()


async def test_a_process_that_lost_its_claim_forgets_no_document() -> None:
    async with rig(3) as one:
        claim = await leaving(one)

        async def frozen(wanted: dict[str, Any]) -> None:
            if wanted.get("urn") == "email::m1" and "scope" in wanted:
                one.database.reading = None
                assert await one.database[assignments.ITEMS].find_one(wanted) is None
                await again(one)

        one.database.reading = frozen
        with pytest.raises(assignments.Lost):
            await one.polls._sweeper.forget(claim)
        assert (one.world.deleted, "email::m1" in one.world.documents) == ([], True)


async def test_a_removal_that_was_on_its_way_while_another_process_took_over_is_refused() -> None:
    async with rig(4) as one:
        claim = await leaving(one)

        async def overtaken() -> None:
            one.world.forgetting = None
            await again(one)

        one.world.forgetting = overtaken
        with pytest.raises(assignments.Lost):
            await one.polls._sweeper.forget(claim)
        assert (one.world.deleted, "email::m1" in one.world.documents) == ([], True)
        assert one.measured.registry.get_sample_value("jervis_sources_outrun_total") == 1


async def test_of_two_processes_the_one_with_the_later_claim_removes() -> None:
    async with rig(5) as one:
        claim = await leaving(one)
        left = missing_items.MissingItems(one.database)
        [found] = await left.settled(one.uid, 10, one.now)
        assert await left.take(found.item_id, claim.fence + 1)
        assert not await left.take(found.item_id, claim.fence)
        await left.drop(found.item_id, claim.fence)
        assert len(await left.settled(one.uid, 10, one.now)) == 1, "the row is the other's"
        await left.drop(found.item_id, claim.fence + 1)
        assert await left.settled(one.uid, 10, one.now) == []


class _Always(random.Random):
    def random(self) -> float:
        return 0.0


async def test_what_was_listed_under_a_new_name_and_moved_on_does_not_leave() -> None:
    async with rig(9, mails=3, folder="Sent") as one:
        await one.swept()
        one.site.put(8, "INBOX")
        one.site.take(1)
        # After the batch of the poll, the first page of the list, its second page, and the batch of the second poll.
        events = iter(
            (
                lambda: None,
                lambda: one.site.renumber("Sent"),
                lambda: one.site.put(9, "INBOX"),
                lambda: one.site.move(0),
            )
        )
        one.site.dice, one.site.meanwhile = _Always(), lambda: next(events, lambda: None)()
        found = await one.swept()
        assert next(events, None) is None, "all of it happened"
        assert (found.missing, found.removed) == (2, 0), "0 and 1: which of them was listed is not known"
        found = await one.swept()
        assert (found.missing, found.removed) == (1, 1), "what is missing a second time leaves"
        await one.settle()
        one.world.work()
        await one.settle()
        await one.round()
        one.world.work()
        assert one.world.documents == live(one) == {f"email::m{number}" for number in (0, 2, 8, 9)}
