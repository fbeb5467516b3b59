"""A project moves to another group, and what waits of it moves too: requests that are open or have failed, and jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from crds import scope
from crds.priority import Priority
from kb import api, errors
from kb.ingest import request_record, source
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.ingest import victim

MOVED = scopes.make("acme", "shop", "wholesale")
AGAIN = scopes.make("acme", "shop", "export")
NEIGHBOURS = {group: scopes.make("acme", "neighbour", group) for group in ("retail", "wholesale", "export")}
REFUSED = {"match": {"path": "/api/embed"}, "status": {"code": 400, "message": "input too long"}}
Step = Callable[[world.ObservedState], Awaitable[object]]


async def seen(kb: world.ObservedState) -> set[str]:
    """The groups in which another project finds something of the document, its edges or its record included."""
    found = set()
    for group, viewer in NEIGHBOURS.items():
        records = await kb.ledger.listed(viewer) or (await kb.queue.listed(viewer, limit=1))[0]
        if records or (await kb.ask("login bug", viewer)).items or await kb.graph.edges(viewer):
            found.add(group)
    return found


async def broken_off(kb: world.ObservedState, ingest: Awaitable[object]) -> None:
    kb.switch.away = True
    with pytest.raises(errors.Away):
        await ingest
    kb.switch.away = False


async def recovered(kb: world.ObservedState) -> None:
    assert await kb.recovery.sweep(before=kb.clock() + timedelta(seconds=1)) == 1


async def retried(kb: world.ObservedState) -> None:
    [failed] = await kb.ledger.failed(MOVED, limit=10)
    assert await kb.intake.retry(failed.document_id, Priority.P2)
    await victim.worked(kb)


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("moves", [[MOVED], [AGAIN, MOVED], [AGAIN, scopes.SHOP, MOVED]], ids=["once", "twice", "back"])
@pytest.mark.parametrize(
    ("left", "done"),
    [("open", recovered), ("job", victim.worked), ("failed", retried)],
    ids=["open request", "job that is not indexed", "failed request"],
)
async def test_what_waits_is_stored_in_the_group_to_which_its_project_moved(
    kb: world.ObservedState,
    fake: process.Fake,
    left: str,
    done: Step,
    moves: list[scope.Scope],
    known: bool,
) -> None:
    if known:
        await kb.ingest(world.request("Jana Novak filed the login bug."))
    if left == "open":
        await broken_off(kb, kb.ingest(world.request()))
    elif left == "job":
        await broken_off(kb, _index(kb))
    else:
        fake.set_faults([REFUSED])
        with pytest.raises(router_client.Rejected):
            await kb.ingest(world.request())
        fake.set_faults([])
    for owner in moves:
        assert (await victim.reconciler(kb).regroup(owner))[0] == 1
        assert await seen(kb) == {owner.group_id}
    await done(kb)
    assert await seen(kb) == {"wholesale"}
    assert await victim.reconciler(kb).regroup(MOVED) == (0, 0)
    assert (await kb.ledger.count(), await kb.queue.depth()) == ({request_record.State.FINISHED: 1}, {})


async def stalled(
    writing: Awaitable[object], fake: process.Fake, match: dict[str, str], gate: str
) -> asyncio.Future[object]:
    """What is written, once a request for it that is like `match` waits for the gate."""
    begun = fake.count(**match)
    fake.set_faults([{"match": match, "stall": {"gate": gate}}])
    future = asyncio.ensure_future(writing)
    await waiting.eventually(lambda: fake.count(**match) > begun)
    return future


async def _ingest(kb: world.ObservedState) -> None:
    await kb.ingest(world.request())


async def _index(kb: world.ObservedState) -> None:
    await kb.pipeline.index(world.request(), Priority.P3)


@pytest.mark.parametrize(
    ("operation", "gate"),
    [
        pytest.param(_ingest, {"tag": "kb.extract/v1"}, id="ingest"),
        pytest.param(_index, {"path": "/api/embed"}, id="index"),
        pytest.param(victim.worked, {"tag": "kb.extract/v1"}, id="perform"),
    ],
)
async def test_a_new_document_that_is_being_written_is_stored_in_the_group_of_the_move(
    kb: world.ObservedState, fake: process.Fake, operation: Step, gate: dict[str, str]
) -> None:
    """The graph does not know it when its project moves."""
    if operation is victim.worked:
        await broken_off(kb, _index(kb))
    name = f"a move meets {operation.__name__}"
    writing = await stalled(operation(kb), fake, gate, name)

    async def moved() -> bool:
        return bool(await kb.ledger.listed(NEIGHBOURS["wholesale"]))

    moving = asyncio.create_task(victim.reconciler(kb).regroup(MOVED))
    await waiting.eventually(moved, pause=0)  # it goes on before, after or while the move comes past the graph
    fake.open_gate(name)
    await writing
    assert (await moving)[0] == 1
    await victim.worked(kb)
    assert await seen(kb) == {"wholesale"}


async def test_a_request_that_models_read_is_stored_in_the_group_that_its_record_has_then(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    """As when a move breaks off after the records: the graph has nothing to move yet."""
    writing = await stalled(kb.ingest(world.request()), fake, {"tag": "kb.extract/v1"}, "a move breaks off")
    assert len(await kb.ledger.regroup(MOVED)) == 1
    fake.open_gate("a move breaks off")
    await writing
    assert await seen(kb) == {"wholesale"}


async def test_a_request_that_names_the_former_group_after_the_move_is_stored_there(kb: world.ObservedState) -> None:
    """As its caller said: the newest object decides which group a project has, and the operator asks for the move."""
    await kb.ingest(world.request("Jana Novak filed the login bug.", urn="note:1"))
    await victim.reconciler(kb).regroup(MOVED)
    await kb.ingest(world.request())
    assert await seen(kb) == {"retail", "wholesale"}
    assert (await victim.reconciler(kb).regroup(MOVED))[0] == 1
    assert await seen(kb) == {"wholesale"}


async def test_only_what_the_project_has_moves(kb: world.ObservedState) -> None:
    owners = {scopes.GLOBAL, scopes.ACME, scopes.RETAIL, scopes.TILL, scopes.make("other", "shop", "retail")}
    for owner in owners:
        await broken_off(kb, kb.pipeline.index(world.request(owner=owner), Priority.P3))
    assert await victim.reconciler(kb).regroup(MOVED) == (0, 0)
    records = await kb.ledger.unfinished(before=kb.clock() + timedelta(seconds=1))
    jobs = await kb.queue.among([one.document_id for one in records])
    assert {one.owner for one in records} == {one.owner for one in jobs.values()} == owners


async def test_a_request_that_moved_is_tried_again_and_is_no_newer_one(kb: world.ObservedState) -> None:
    """What a failed attempt owes to the version before it is known by the number of attempts."""
    await broken_off(kb, kb.ingest(world.request()))
    await victim.reconciler(kb).regroup(MOVED)
    kb.switch.away = True
    assert await kb.recovery.sweep(before=kb.clock() + timedelta(seconds=1)) == 0
    [record] = await kb.ledger.unfinished(before=kb.clock() + timedelta(seconds=1))
    assert (record.owner, record.attempts) == (MOVED, 2)


@pytest.mark.parametrize("owner", [scopes.GLOBAL, scopes.ACME, scopes.RETAIL, scopes.BLOG, scopes.SHOP])
def test_a_record_holds_a_request_without_the_group_of_its_project(owner: scope.Scope) -> None:
    request = world.request(owner=owner)
    text = source.record(request)
    assert source.recorded(text, owner) == request
    # For a process of an earlier version, which reads the text alone: a project's document is seen by fewer then.
    alone = api.IngestRequest.model_validate_json(text).scope
    assert alone == (scopes.make("acme", "shop") if owner == scopes.SHOP else owner)
