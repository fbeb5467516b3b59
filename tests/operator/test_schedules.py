"""Recurring tasks against the real apiserver: one copy per run, over restarts; what forbids one; what a user sees."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import kube
from controllers.pendingtask.effects import copies
from controllers.pendingtask.observed import CopyHeld, CopyMade, NoCopy, Trouble
from crds import pendingtask
from tests.operator.conftest import Space
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
DUE = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)


def made(space: Space) -> list[str]:
    return sorted(one["metadata"]["name"] for one in space.every() if "ownerReferences" in one["metadata"])


def test_a_template_makes_its_copies_over_restarts_and_tells_of_the_next_run(space: Space, start: Start) -> None:
    began = time.monotonic()
    uid = space.submit("tick", "INFO", schedule={"cron": "* * * * *", "timeZone": "Europe/Prague"})["metadata"]["uid"]
    with start(IDENTITY="operator-0"):
        until(lambda: len(made(space)) > 0, "a copy is made")
        until(lambda: bool(space.status("tick").get("recurrence", {}).get("lastTask")), "and remembered")
        until(lambda: "CopyCreated" in space.events("tick"), "and told: kill -9 may come between the two")
    with start(IDENTITY="operator-0"):
        space.edit("tick", {"suspend": True})
        until(lambda: any(c["type"] == "Suspended" for c in space.status("tick")["conditions"]), "it is held")
        status = space.status("tick")
        names = made(space)
        assert status["phase"] == "Scheduled"
        assert status["recurrence"]["lastTask"] == names[-1]
        last = datetime.fromisoformat(status["recurrence"]["lastRun"])
        assert datetime.fromisoformat(status["scheduledFor"]) == last + timedelta(minutes=1)
        assert names[-1] == f"tick-{uid[:8]}-{last:%Y%m%d%H%M}"
        assert len(names) <= 2 + (time.monotonic() - began) // 60, "one per minute"
        until(lambda: all(space.phase(name) == "Done" for name in names), "the copies are worked off")


async def test_a_copy_whose_maker_died_before_it_told_is_on_record_although_the_template_is_held(
    api: kube.Kube, space: Space, start: Start
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=2)
    space.submit("daily", "INFO", schedule={"cron": f"{soon:%M %H} * * *"})
    with start(IDENTITY="operator-0"):
        until(lambda: space.phase("daily") == "Scheduled", "it is planned")
    due = datetime.fromisoformat(space.status("daily")["scheduledFor"])
    raw = space.get("daily")
    await copies.make(api, pendingtask.PendingTask.model_validate(raw), due)
    space.edit("daily", {"suspend": True})
    with start(IDENTITY="operator-0"):
        until(lambda: any(c["type"] == "Suspended" for c in space.status("daily")["conditions"]), "it is held")
        status = space.status("daily")
        assert [status["recurrence"]["lastTask"]] == made(space)
        assert status["recurrence"]["lastRun"] == raw["status"]["scheduledFor"]
        assert datetime.fromisoformat(status["scheduledFor"]) == due + timedelta(days=1)


async def test_a_copy_whose_creation_was_not_answered_is_on_record_at_once(kubeconfig: Path, space: Space) -> None:
    """Before it can be finished, archived and deleted: after that the next try would make a second one."""

    async def unanswered(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        response = await handler(request)
        if request.method == "POST":
            response.close()
            raise aiohttp.ClientConnectionError("the answer is lost")
        return response

    raw: Any = space.submit("report", schedule={"cron": "0 12 * * *"})
    loaded = kube.configuration(str(kubeconfig))
    async with kube.session(loaded, middlewares=(unanswered,)) as http:
        api = kube.Kube(loaded, http, fence=lambda: None)
        found = await copies.make(api, pendingtask.PendingTask.model_validate(raw), DUE)
    assert found == CopyMade(DUE, copies.name(raw, DUE))
    assert made(space) == [copies.name(raw, DUE)]


async def test_who_forbids_and_who_refuses_a_copy(api: kube.Kube, space: Space) -> None:
    plan = {"cron": "0 12 * * *", "concurrencyPolicy": "Forbid"}
    raw: Any = space.submit("report", schedule=plan)
    task = pendingtask.PendingTask.model_validate(raw)
    first = await copies.make(api, task, DUE)
    name = copies.name(raw, DUE)
    assert first == CopyMade(DUE, name)
    assert await copies.make(api, task, DUE) == first, "made once, however often it is asked for"
    later = DUE + timedelta(days=1)
    assert await copies.make(api, task, later) == CopyHeld(later, name)
    assert made(space) == [name]
    assert await copies.latest(api, task, later) == first
    assert await copies.latest(api, task, DUE - timedelta(minutes=1)) == NoCopy()
    owner = {**raw, "spec": {**raw["spec"], "schedule": {"cron": "0 12 * * *"}}}
    free = pendingtask.PendingTask.model_validate(owner)
    taken = copies.name(raw, later)
    space.submit(taken)
    refused = await copies.make(api, free, later)
    assert isinstance(refused, Trouble)
    assert (refused.operational, refused.field) == (False, "metadata.name")
