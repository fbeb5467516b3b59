"""A task that waits for the reading of another one: what becomes of that one, by the API, and when the wait is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import kube
from controllers.pendingtask.decide import decide
from controllers.pendingtask.effects import repeats
from controllers.pendingtask.observed import ObservedState, Trouble
from crds import pendingtask
from crds.phases import Phase
from kb import api
from tests import httpserver
from tests.controllers import build
from tests.controllers.build import present
from tests.controllers.test_task_index import Place
from tests.kube import apiserver

LATER = "2027-03-01T12:04:59Z"
READ = api.Repeat(task_uid="first", task="default/first", reading=True)
NAMED = api.Repeat(task_uid="first", task="default/first")


class Cluster:
    """An apiserver that has some tasks, by namespace/name; `refused` namespaces are forbidden."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.tasks: dict[str, dict[str, Any]] = {}
        self.refused: set[str] = set()
        self.asked: list[str] = []

    def application(self) -> web.Application:
        async def get(request: web.Request) -> web.Response:
            namespace, name = request.match_info["namespace"], request.match_info["name"]
            self.asked.append(f"{namespace}/{name}")
            found = self.tasks.get(f"{namespace}/{name}")
            code = 403 if namespace in self.refused else 404 if found is None else 200
            return web.json_response(found if code == 200 else {"kind": "Status", "code": code}, status=code)

        made = web.Application()
        made.router.add_get("/apis/jervis.dev/v1alpha1/namespaces/{namespace}/pendingtasks/{name}", get)
        return made


@asynccontextmanager
async def serving_tasks() -> AsyncIterator[tuple[Cluster, kube.Kube]]:
    """The cluster, and the operator's client of it."""
    async with aiohttp.ClientSession() as http:
        made = Cluster(http)
        async with httpserver.serving(made.application()) as url:
            yield made, kube.Kube(apiserver.configuration(url), http, fence=lambda: None)


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[Cluster, kube.Kube]]:
    async with serving_tasks() as made:
        yield made


def first(phase: Phase = Phase.QUALIFYING, status: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return build.task(phase, status=status, **{"uid": "first", "name": "first"} | meta).wire()


def waiting(tries: int = 0) -> pendingtask.PendingTask:
    retry = {"count": tries, "nextAt": LATER, "reason": "QualificationPostponed: x", "waitsFor": "first"}
    return build.task(Phase.READY_FOR_QUALIFICATION, status={"retry": retry}, uid="second", name="second")


async def nothing(uid: str) -> None:
    """Neither the archive nor the API has that task."""


@pytest.mark.parametrize(
    ("there", "of", "waits"),
    [
        (first(), READ, "the same document is being read for task first"),
        (first(Phase.READY_FOR_QUALIFICATION), NAMED, "task first has the same content and is not qualified yet"),
        (None, READ, None),
        (first(uid="another"), READ, None),
        (first(deletionTimestamp="2027-03-01T11:59:00Z"), READ, None),
        (first(Phase.ERROR), READ, None),
        (first(Phase.USER_TASK, {"userTask": {"kind": "Failure"}}), READ, None),
        ({**first(), "spec": {}}, READ, None),
    ],
    ids=["read", "not qualified", "gone", "of the same name", "being deleted", "failed", "given up", "unreadable"],
)
async def test_only_a_task_that_may_still_be_read_is_waited_for(
    cluster: tuple[Cluster, kube.Kube], there: dict[str, Any] | None, of: api.Repeat, waits: str | None
) -> None:
    place, reached = cluster
    if there is not None:
        place.tasks["default/first"] = there
    found = await repeats.settled(reached, nothing, waiting(), of)
    assert found == (None if waits is None else Trouble(waits, operational=True, waits_for="first"))


async def test_a_reading_is_waited_for_however_often_it_was_tried(cluster: tuple[Cluster, kube.Kube]) -> None:
    place, reached = cluster
    place.tasks["default/first"] = first()
    often = waiting(repeats.PATIENCE)
    assert isinstance(await repeats.settled(reached, nothing, often, READ), Trouble)
    assert await repeats.settled(reached, nothing, often, NAMED) is None


async def test_of_another_namespace_only_proof_ends_the_wait(cluster: tuple[Cluster, kube.Kube]) -> None:
    place, reached = cluster
    elsewhere = api.Repeat(task_uid="first", task="others/first", reading=True)
    place.tasks["others/first"] = first(namespace="others")
    place.refused = {"others"}
    for refused in ({"others"}, set[str]()):
        place.refused = refused
        found = await repeats.settled(reached, nothing, waiting(), elsewhere)
        assert isinstance(found, Trouble)
        assert ("others" in found.message, found.waits_for) == (False, "")
    del place.tasks["others/first"]
    assert await repeats.settled(reached, nothing, waiting(), elsewhere) is None
    # Of one that is stored nothing is asked.
    place.asked.clear()
    stored = elsewhere.model_copy(update={"reading": False})
    assert (await repeats.settled(reached, nothing, waiting(), stored), place.asked) == (None, [])


def test_the_end_of_the_first_one_ends_the_wait_and_not_the_clock() -> None:
    now, task = build.NOW, waiting(5)
    assert present(task.status.retry).next_at is not None
    assert timedelta(0) < present(task.status.retry).next_at - now < timedelta(minutes=5)
    held = decide(task, ObservedState(), now)
    assert (held.phase, held.requeue_after is not None) == (None, True)
    assert decide(task, ObservedState(first_over=True), now).phase is Phase.QUALIFYING


async def test_a_task_is_reconciled_when_the_one_that_it_waits_for_ends() -> None:
    async with aiohttp.ClientSession() as http:
        for end in ("deleted", "routed", "namespace"):
            place = Place(http)
            place.cache.take(first(resourceVersion="1"))
            place.cache.take(waiting().wire())
            assert await place.taken() == []
            place.cache.take(first(resourceVersion="2"))
            assert await place.taken() == [], "it is read still"
            if end == "deleted":
                place.cache.forget("first", 3)
            elif end == "namespace":
                place.cache.leave("first")
            else:
                routed = {"route": {"decision": "Execute"}}
                place.cache.take(first(Phase.READY_FOR_GPU, routed, resourceVersion="3"))
            assert await place.taken() == ["second"], end
