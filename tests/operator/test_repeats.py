"""A task that brings what another task has brought: Done without a model call, unless that one came to nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
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


def submit(space: Space, at: Any, name: str, content: str = world.MAIL, **spec: Any) -> None:
    space.submit(name, content, **{**MAIL, **spec})
    at.here.hear(space.get(name))


async def ended(space: Space, at: Any, name: str, phase: str, **spec: Any) -> None:
    submit(space, at, name, **spec)
    await at.here.until(lambda: space.phase(name) == phase, f"{name} is in {phase}")
