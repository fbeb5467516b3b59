"""A second task with the same document costs no call and stores nothing, unless what it repeats is not there."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from crds import errors as root
from crds.priority import Priority
from kb import api, identity
from kb.ingest import request_record, source
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.rules import test_enforce, test_ingest


@pytest.fixture
def kept() -> test_ingest.Kept:
    rules = test_ingest.Kept()
    rules.rules = []
    return rules


@pytest.fixture
async def kb(open_world: world.Opening, kept: test_ingest.Kept) -> AsyncIterator[world.ObservedState]:
    async with open_world(rules=kept) as opened:
        yield opened


def by(
    uid: str,
    text: str = world.MAIL,
    *,
    fingerprint: str = "f",
    again: bool = False,
    instead_of: list[str] | None = None,
    **more: Any,
) -> Any:
    name = f"shop/{uid}"
    origin = api.TaskOrigin(uid=uid, name=name, fingerprint=fingerprint, again=again, instead_of=instead_of)
    return world.request(text, task=origin, metadata={"taskUid": uid}, **more)


async def test_nothing_is_asked_and_stored(kb: world.ObservedState, fake: process.Fake, clock: clocks.Clock) -> None:
    first = await kb.ingest(by("one", observed_at=clock()))
    before, asked = await kb.state(), fake.count()
    clock.advance(days=3)
    reply = await kb.ingest(by("two", observed_at=clock()))
    assert reply.repeats == api.Repeat(task_uid="one", task="shop/one")
    assert (reply.chunk_ids, reply.hints.has_actionable_content) == ([], False)
    assert (fake.count(), await kb.state()) == (asked, before)
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}
    assert kb.meters.registry.get_sample_value("jervis_kb_ingests_total", {"outcome": "repeated"}) == 1
    # A third one repeats the first too, and the first itself is read again as before.
    assert (await kb.ingest(by("three", observed_at=clock() - timedelta(days=9)))).repeats == reply.repeats
    same = await kb.ingest(by("one", observed_at=clock() - timedelta(days=3)))
    assert (same.repeats, same.chunk_ids) == (None, first.chunk_ids)


@pytest.mark.parametrize(
    "second",
    [
        by("two", world.MAIL + "P.S. And JERV-124."),
        by("two", fingerprint="g"),
        by("two", fingerprint=""),
        by("two", again=True),
        by("two", instead_of=["another", "one"]),
        by("two", title="Another title"),
        by("two", team=["Core Team", "Others"]),
        by("two", attachments=["more.pdf"]),
        by("two", owner=scopes.BLOG),
        by("two", owner=scopes.OTHER),
        by("two", urn="email::<m2@acme.com>"),
        world.request(),
    ],
)
async def test_whatever_differs_is_read(kb: world.ObservedState, second: api.IngestRequest) -> None:
    await kb.ingest(by("one"))
    reply = await kb.ingest(second)
    assert (reply.repeats, reply.chunk_ids != []) == (None, True)


async def test_what_is_gone_is_read_anew(kb: world.ObservedState) -> None:
    await kb.ingest(by("one"))
    await kb.pipeline.forget(scopes.SHOP, by("one").source_urn)
    assert (await kb.ingest(by("two"))).chunk_ids != []
    await kb.ledger.erase(scopes.SHOP)
    reply = await kb.ingest(by("three"))
    assert (reply.repeats, reply.chunk_ids != []) == (None, True)


async def test_a_version_between_counts(kb: world.ObservedState) -> None:
    await kb.ingest(by("one"))
    await kb.ingest(by("two", "Petr Svoboda left Globex."))
    assert (await kb.ingest(by("three"))).repeats is None
    assert (await kb.ingest(by("four"))).repeats == api.Repeat(task_uid="three", task="shop/three")


async def test_other_rules_may_say_something_else(kb: world.ObservedState, kept: test_ingest.Kept) -> None:
    await kb.ingest(by("one"))
    kept.rules = [test_enforce.rule("enforce: route Execute when kind email")]
    reply = await kb.ingest(by("two"))
    assert (reply.repeats, reply.hints.route) == (None, "Execute")
    assert (await kb.ingest(by("three"))).repeats == api.Repeat(task_uid="two", task="shop/two")
    kept.rules = []
    assert (await kb.ingest(by("four"))).repeats is None
    kept.rules = [test_enforce.rule("enforce: never-index when kind email")]
    for uid in ("five", "six"):
        left_out = await kb.ingest(by(uid))
        assert (left_out.repeats, left_out.indexed) == (None, False)


@pytest.mark.parametrize("tag", ["kb.qualify.email/v2", "kb.extract/v1"])
async def test_what_no_model_could_read_is_tried_again(kb: world.ObservedState, fake: process.Fake, tag: str) -> None:
    fake.set_faults([{"match": {"tag": tag}, "malformed": "answer"}])
    await kb.ingest(by("one"))
    fake.set_faults([])
    reply = await kb.ingest(by("two"))
    assert (reply.repeats, reply.problems, reply.hints.failure) == (None, [], "")


@contextlib.asynccontextmanager
async def read_by(kb: world.ObservedState, fake: process.Fake, *sent: api.IngestRequest) -> AsyncIterator[list[Any]]:
    """The calls of these requests, begun one after the other while models read the first; they go on at the end."""
    async with world.stalled(fake, kb.ingest(sent[0]), tag="kb.extract/v1") as first:
        calls = [first]
        for one in sent[1:]:
            calls.append(asyncio.create_task(kb.ingest(one)))
            await waiting.eventually(functools.partial(recorded, kb, one))
        yield calls


async def recorded(kb: world.ObservedState, request: api.IngestRequest) -> bool:
    found = await kb.ledger.find(identity.document(request.scope, request.source_urn))
    return found is not None and found[1] == source.record(request)


async def test_one_that_is_being_read_is_waited_for(kb: world.ObservedState, fake: process.Fake) -> None:
    async with read_by(kb, fake, by("one")) as [first]:
        reply = await kb.ingest(by("two"))
        assert reply.repeats == api.Repeat(task_uid="one", task="shop/one", reading=True)
        assert (reply.chunk_ids, "is being read for" in reply.hints.reason) == ([], True)
    assert (await first).chunk_ids != []
    reply = await kb.pipeline.ingest(by("two"), Priority.P0)
    assert reply.repeats == api.Repeat(task_uid="one", task="shop/one")


async def test_the_reading_of_a_task_that_is_gone_is_taken_over(kb: world.ObservedState, fake: process.Fake) -> None:
    before = fake.count(path="/api/chat")
    # The first one is the newer version: the second does not wait for it as for one of other content.
    first, second = (
        by("one", observed_at=kb.clock()),
        by("two", instead_of=["one"], observed_at=kb.clock() - timedelta(1)),
    )
    async with read_by(kb, fake, first, second) as calls:
        # A third one waits for the task that reads now, although the first is gone.
        third = await kb.ingest(by("three", instead_of=["one"]))
        assert third.repeats == api.Repeat(task_uid="two", task="shop/two", reading=True)
        assert not calls[1].done()
    former, reply = await asyncio.gather(*calls)
    assert (former.superseded_by, former.chunk_ids) == ("Version", [])
    assert (reply.repeats, reply.superseded_by, reply.chunk_ids != []) == (None, None, True)
    assert (reply.hints.reason, await kb.ledger.count()) == (former.hints.reason, {request_record.State.FINISHED: 1})
    assert (await kb.ingest(by("three"))).repeats == api.Repeat(task_uid="two", task="shop/two")
    # As many calls as for one reading.
    asked = fake.count(path="/api/chat") - before
    await kb.ingest(by("alone", owner=scopes.OTHER))
    assert asked == fake.count(path="/api/chat") - before - asked


async def test_a_reading_that_has_broken_off_is_free_at_once(kb: world.ObservedState, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "status": {"code": 503}}])
    with pytest.raises(root.Operational):
        await kb.ingest(by("one"))
    assert (await kb.ingest(by("two"))).repeats == api.Repeat(task_uid="one", task="shop/one", reading=True)
    fake.set_faults([])
    reply = await kb.ingest(by("two", instead_of=["one"]))
    assert (reply.repeats, reply.chunk_ids != []) == (None, True)
