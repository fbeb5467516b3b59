"""A task that brings what another task has brought: Done without a model call, unless that one came to nothing."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kb import world
from tests.operator.conftest import Space
from tests.operator.test_superseded import ACME, site

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
MAIL = {"type": "EmailProcessing", "sourceUrn": "email::<m1@acme.com>"}


async def test_nothing_is_asked_and_the_condition_names_the_first(
    space: Space, local: dict[str, Any], tmp_path: Path
) -> None:
    async with site(space, local, tmp_path) as at:
        await ended(space, at, "first", "ReadyForGpu")
        before, asked = await at.kb.state(ACME), at.fake.count()
        await ended(space, at, "second", "Done", correlationId="another")
        assert (at.fake.count(), await at.kb.state(ACME)) == (asked, before)
        status = space.status("second")
        said = {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}
        why = "The same content came with task first, and nothing is done twice. It is in ReadyForGpu."
        assert said["Duplicate"] == ("True", "SameContent", why)
        assert (status["route"]["decision"], status["result"]["summary"]) == ("InfoOnly", why)
        # What a user made on purpose, and what a person waits for, is done.
        await ended(space, at, "ordered", "ReadyForGpu", type="UserTask")
        await ended(space, at, "waited-for", "DispatchedGpu", mode="Foreground")
        await ended(space, at, "third", "ReadyForGpu", content=f"{world.MAIL}P.S. And JERV-124.")


async def test_a_first_one_that_came_to_nothing_swallows_no_other(
    space: Space, local: dict[str, Any], tmp_path: Path, database: Any
) -> None:
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
    async with site(space, local, tmp_path) as at:
        await ended(space, at, "n0", "ReadyForGpu")
        for number, happen in enumerate(happens, start=1):
            await asyncio.to_thread(happen, f"n{number - 1}")
            await ended(space, at, f"n{number}", "ReadyForGpu")
            assert "Duplicate" not in space.conditions(f"n{number}"), happen.__name__
        await asyncio.to_thread(archived_well, f"n{len(happens)}")
        await ended(space, at, "last", "Done")
        assert "It ended as Completed." in space.status("last")["result"]["summary"]


async def test_it_waits_for_the_first_one_that_models_read(space: Space, local: dict[str, Any], tmp_path: Path) -> None:
    async with site(space, local, tmp_path) as at:
        gate = f"reads-{uuid.uuid4()}"
        at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
        submit(space, at, "first")
        await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 1, "models read it")
        submit(space, at, "second")
        await at.here.until(lambda: "retry" in space.status("second"), "it waits")
        assert "for task" in space.status("second")["retry"]["reason"]
        at.fake.set_faults([])
        asked = at.fake.count(tag="kb.extract/v1")
        await asyncio.to_thread(at.fake.open_gate, gate)
        await at.here.until(lambda: space.phase("second") == "Done", "the first one is qualified")
        assert (space.phase("first"), at.fake.count(tag="kb.extract/v1")) == ("ReadyForGpu", asked)


async def test_the_reading_of_a_task_that_is_deleted_is_taken_over_at_once(
    space: Space, local: dict[str, Any], tmp_path: Path
) -> None:
    async with site(space, local, tmp_path) as at:
        gate = f"reads-{uuid.uuid4()}"
        at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
        submit(space, at, "first")
        await at.here.until(lambda: at.fake.count(tag="kb.extract/v1") == 1, "models read it")
        for name in ("second", "third"):
            submit(space, at, name)
            await at.here.until(functools.partial(waits_for, space, name, "first"), "it waits")
            await postponed_for_long(space, at, name)
        gone = space.get("first")
        await asyncio.to_thread(space.delete, "first")
        # Another object of the same name is not that task.
        submit(space, at, "first", content="INFO: another matter.", sourceUrn="email::<m2@acme.com>")
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


async def test_a_reading_that_broke_off_for_a_task_that_is_gone_holds_no_other(
    space: Space, local: dict[str, Any], tmp_path: Path
) -> None:
    """The operator never had the event of the deletion: it was started anew."""
    async with site(space, local, tmp_path) as at:
        at.fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "status": {"code": 503}}])
        submit(space, at, "first")
        await at.here.until(lambda: "retry" in space.status("first"), "its reading broke off")
        submit(space, at, "second")
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


def submit(space: Space, at: Any, name: str, content: str = world.MAIL, **spec: Any) -> None:
    space.submit(name, content, **{**MAIL, **spec})
    at.here.hear(space.get(name))


async def ended(space: Space, at: Any, name: str, phase: str, **spec: Any) -> None:
    submit(space, at, name, **spec)
    await at.here.until(lambda: space.phase(name) == phase, f"{name} is in {phase}")
