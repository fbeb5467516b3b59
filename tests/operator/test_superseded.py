"""Tasks with one content or one sourceUrn, and mails that answer one, by a knowledge base and its simulated models."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pytest

from crds import scope
from kb import metrics
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.service import serving
from tests.operator import unwatched
from tests.operator.conftest import Space

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
URN = "jira::JERV-1"
ACME = scope.Scope(client_id="acme")
NEWER = "Jana Novak wrote Newthing.java for Initech."
FILE = {
    "name": "plan.txt",
    "mediaType": "text/plain",
    "contentRef": {"store": "gridfs", "key": "k1", "sha256": "0" * 64, "bytes": 5},
}


@dataclass
class Site:
    """A knowledge base, its service, and an operator that uses it."""

    fake: process.Fake
    kb: world.ObservedState
    served: httpx.AsyncClient
    here: unwatched.Unwatched


@pytest.fixture
async def at(space: Space, local: dict[str, Any], tmp_path: Path) -> AsyncIterator[Site]:
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    with process.running(num_parallel=8) as fake:
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            router = router_client.Client(fake.url, http)
            stores = (memory.Vectors(), memory.Content())
            async with (
                world.opened(tmp_path, router, clocks.Clock(), meters, *stores) as kb,
                serving.over(kb, meters) as (_, served),
                unwatched.working(space, **local | {"kb_url": str(served.base_url).rstrip("/")}) as here,
            ):
                yield Site(fake, kb, served, here)


def submit(space: Space, here: unwatched.Unwatched, name: str, content: str, **spec: Any) -> None:
    space.submit(name, content, type="BugTrackerProcessing", sourceUrn=URN, **spec)
    here.hear(space.get(name))


@pytest.mark.parametrize("deleted", [False, True])
async def test_the_older_one_is_decided_by_its_own_hints(space: Space, at: Site, deleted: bool) -> None:
    gate = f"reads-{uuid.uuid4()}"
    at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
    submit(space, at.here, "older", world.MAIL, attachments=[FILE])
    await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 1, "models read it")
    at.fake.set_faults([])
    if deleted:
        await at.kb.pipeline.forget(ACME, URN)
    else:
        submit(space, at.here, "newer", NEWER)
        await at.here.until(lambda: space.phase("newer") == "Done", "the newer one does not wait for it")
    assert "route" not in space.status("older")
    before = await at.kb.state(ACME)
    await asyncio.to_thread(at.fake.open_gate, gate)
    await at.here.until(lambda: space.phase("older") == "ReadyForGpu", "its hints ask for something")
    assert await at.kb.state(ACME) == before
    assert (await at.kb.vectors.counts(ACME))[0] == (0 if deleted else 1)
    status = space.status("older")
    conditions = {one["type"]: one for one in status["conditions"]}
    assert conditions["Qualified"]["status"] == "True"
    assert ("deleted" if deleted else "newer version") in conditions["Qualified"]["message"]
    assert (conditions["AttachmentsIngested"]["status"], conditions["AttachmentsIngested"]["reason"]) == (
        "False",
        "Superseded",
    )
    assert "retry" not in status
    # This service takes no files: none was sent.
    assert 'status="404"' not in (await at.served.get("/metrics")).text


ASKED = "Please restart the billing service."


def reply(number: int, text: str, sender: str = "petr@acme.com", *answered: int) -> dict[str, Any]:
    references = f"References: {' '.join(f'<m{one}@acme.com>' for one in answered)}\n" if answered else ""
    head = f"From: {sender}\nTo: jana@acme.com, petr@acme.com\nMessage-ID: <m{number}@acme.com>\n{references}"
    return {"content": f"{head}Subject: Billing\n\n{text}\n", "sourceUrn": f"email::<m{number}@acme.com>"}


async def test_the_older_task_is_done_and_names_the_answer(space: Space, at: Site) -> None:

    async def ended(name: str, phase: str, **spec: Any) -> None:
        space.submit(name, **spec)
        at.here.hear(space.get(name))
        await at.here.until(lambda: space.phase(name) == phase, f"{name} is in {phase}")

    await ended("asked", "ReadyForGpu", **reply(1, ASKED, "jana@acme.com"))
    await ended("another", "ReadyForGpu", **reply(2, ASKED.replace("billing", "shop"), "jana@acme.com"))
    await ended("ordered", "ReadyForGpu", **reply(3, ASKED, "jana@acme.com") | {"type": "UserTask"})
    # One who did not take part ends nothing.
    await ended("stranger", "Done", **reply(4, "Done.", "mallory@evil.example", 1, 2, 3))
    assert space.phase("asked") == "ReadyForGpu"
    await ended("answer", "Done", **reply(5, "It is done.", "petr@acme.com", 3, 1))
    # What a user ordered is not ended by a reply.
    await ended("second", "Done", **reply(6, "It is done.", "petr@acme.com", 1, 3))
    assert space.phases() == {
        "asked": "Done", "another": "ReadyForGpu", "ordered": "ReadyForGpu", "stranger": "Done", "answer": "Done",
        "second": "Done",
    }  # fmt: skip
    assert space.conditions("asked")["Superseded"] == "AnsweredInThread"
    assert space.condition("answer", "Qualified")["message"].endswith("It answers email::<m1@acme.com>.")
    assert "task answer" in space.status("asked")["result"]["summary"]
    moved = at.here.metrics.transitions.labels("ReadyForGpu", "Done")._value.get()
    assert moved == 1


MAIL = {"type": "EmailProcessing", "sourceUrn": "email::<m1@acme.com>"}


async def test_nothing_is_asked_and_the_condition_names_the_first(space: Space, at: Site) -> None:
    await brought(space, at, "first", "ReadyForGpu")
    before, asked = await at.kb.state(ACME), at.fake.count()
    await brought(space, at, "second", "Done", correlationId="another")
    assert (at.fake.count(), await at.kb.state(ACME)) == (asked, before)
    status = space.status("second")
    said = {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}
    why = "The same content came with task first, and nothing is done twice. It is in ReadyForGpu."
    assert said["Duplicate"] == ("True", "SameContent", why)
    assert (status["route"]["decision"], status["result"]["summary"]) == ("InfoOnly", why)
    # What a user made on purpose, and what a person waits for, is done.
    await brought(space, at, "ordered", "ReadyForGpu", type="UserTask")
    await brought(space, at, "waited-for", "DispatchedGpu", mode="Foreground")
    await brought(space, at, "third", "ReadyForGpu", content=f"{world.MAIL}P.S. And JERV-124.")


async def test_a_first_one_that_came_to_nothing_swallows_no_other(space: Space, at: Site, database: Any) -> None:
    def deleted(name: str) -> None:
        space.delete(name)

    def failed(name: str) -> None:
        space.edit_status(name, {"phase": "Error"})

    def given_to_a_person(name: str) -> None:
        space.edit_status(name, {"phase": "UserTask", "userTask": {"kind": "Failure"}})

    def archived(name: str) -> None:
        kept = {"_id": space.get(name)["metadata"]["uid"], "namespace": space.name, "phase": "Error"}
        database["task_archive"].insert_one(kept)
        space.delete(name)

    def archived_well(name: str) -> None:
        kept = {"_id": space.get(name)["metadata"]["uid"], "namespace": space.name, "phase": "Completed"}
        database["task_archive"].insert_one(kept)
        space.delete(name)

    happens: list[Callable[[str], None]] = [deleted, failed, given_to_a_person, archived]
    await brought(space, at, "n0", "ReadyForGpu")
    for number, happen in enumerate(happens, start=1):
        await asyncio.to_thread(happen, f"n{number - 1}")
        await brought(space, at, f"n{number}", "ReadyForGpu")
        assert "Duplicate" not in space.conditions(f"n{number}"), happen.__name__
    await asyncio.to_thread(archived_well, f"n{len(happens)}")
    await brought(space, at, "last", "Done")
    assert "It ended as Completed." in space.status("last")["result"]["summary"]


async def test_it_waits_for_the_first_one_that_models_read(space: Space, at: Site) -> None:
    gate = f"reads-{uuid.uuid4()}"
    at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
    bring(space, at, "first")
    await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 1, "models read it")
    bring(space, at, "second")
    await at.here.until(lambda: "retry" in space.status("second"), "it waits")
    assert "for task" in space.status("second")["retry"]["reason"]
    at.fake.set_faults([])
    asked = at.fake.count(tag="kb.extract/v1")
    await asyncio.to_thread(at.fake.open_gate, gate)
    await at.here.until(lambda: space.phase("second") == "Done", "the first one is qualified")
    assert (space.phase("first"), at.fake.count(tag="kb.extract/v1")) == ("ReadyForGpu", asked)


async def test_the_reading_of_a_task_that_is_deleted_is_taken_over_at_once(space: Space, at: Site) -> None:
    gate = f"reads-{uuid.uuid4()}"
    at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
    bring(space, at, "first")
    await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 1, "models read it")
    for name in ("second", "third"):
        bring(space, at, name)
        await at.here.until(functools.partial(waits_for, space, name, "first"), "it waits")
        await postponed_for_long(space, at, name)
    gone = space.get("first")
    await asyncio.to_thread(space.delete, "first")
    # Another object of the same name is not that task.
    bring(space, at, "first", content="INFO: another matter.", sourceUrn="email::<m2@acme.com>")
    at.here.wiring.tasks.handlers.observe_task(gone, deleted=True)
    names = {space.get(one)["metadata"]["uid"]: one for one in ("second", "third")}
    await at.here.until(lambda: any(waits_for(space, *pair) for pair in ORDERS), "one takes it over, one waits")
    reader = next(uid_of(space, first) for one, first in ORDERS if waits_for(space, one, first))
    await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 2, "the other matter is read too")
    at.fake.set_faults([])
    await asyncio.to_thread(at.fake.open_gate, gate)
    await at.here.until(lambda: space.phase(names[reader]) == "ReadyForGpu", "it has the result")
    assert at.fake.count(tag="kb.extract/v1") == 2
    [other] = set(names.values()) - {names[reader]}
    await at.here.until(lambda: space.phase(other) == "Done", "the other one repeats it")
    assert f"came with task {names[reader]}" in space.status(other)["result"]["summary"]
    assert "waitsFor" not in space.status(names[reader]).get("retry", {})


async def test_a_reading_that_broke_off_for_a_task_that_is_gone_holds_no_other(space: Space, at: Site) -> None:
    """The operator never had the event of the deletion: it was started anew."""
    at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "status": {"code": 503}}])
    bring(space, at, "first")
    await at.here.until(lambda: "retry" in space.status("first"), "its reading broke off")
    bring(space, at, "second")
    await at.here.until(functools.partial(waits_for, space, "second", "first"), "it waits")
    await postponed_for_long(space, at, "second")
    at.fake.set_faults([])
    uid = space.get("first")["metadata"]["uid"]
    await asyncio.to_thread(space.delete, "first")
    at.here.wiring.index.leave(uid)
    at.here.wiring.cache.enqueue(space.get("second")["metadata"]["uid"])
    await at.here.until(lambda: space.phase("second") == "ReadyForGpu", "it is read in the first one's place")


ORDERS = (("second", "third"), ("third", "second"))


def waits_for(space: Space, name: str, first: str) -> bool:
    retry = space.status(name).get("retry", {})
    return bool(retry.get("waitsFor") == space.get(first)["metadata"]["uid"] and "for task" in retry["reason"])


async def postponed_for_long(space: Space, at: Any, name: str) -> None:
    """As after many tries: what ends the wait within this test is no next try."""
    far = (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await asyncio.to_thread(space.edit_status, name, {"retry": {"nextAt": far}})
    at.here.hear(space.get(name))


def uid_of(space: Space, name: str) -> str:
    return str(space.get(name)["metadata"]["uid"])


def bring(space: Space, at: Any, name: str, content: str = world.MAIL, **spec: Any) -> None:
    space.submit(name, content, **{**MAIL, **spec})
    at.here.hear(space.get(name))


async def brought(space: Space, at: Any, name: str, phase: str, **spec: Any) -> None:
    bring(space, at, name, **spec)
    await at.here.until(lambda: space.phase(name) == phase, f"{name} is in {phase}")
