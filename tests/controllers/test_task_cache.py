"""In which order the workers take tasks out of the cache's queue, and what comes into the cache at all."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import web

import kube
from controllers import queue
from controllers.pendingtask import cache
from controllers.pendingtask.decision import WaitFor
from crds.phases import Phase
from tests import httpserver
from tests.controllers import build
from tests.controllers.test_slot_scheduler import Desk
from tests.kube import apiserver


def created(seconds: int) -> str:
    """`seconds` after 11:00."""
    return f"2027-03-01T11:{seconds // 60:02}:{seconds % 60:02}Z"


class Place(Desk):
    """The parts of a Desk behind a cache and a queue."""

    def __init__(self, http: aiohttp.ClientSession, host: str = "") -> None:
        super().__init__()
        self.members = {"default"}
        loaded = apiserver.configuration(host or "http://localhost")
        self.work: queue.WorkQueue[str] = queue.WorkQueue(lambda: self.now.timestamp())
        self.cache = cache.TaskCache(
            kube.Kube(loaded, http, fence=lambda: None),
            members=self.members,
            work=self.work,
            tasks=self.tasks,
            workloads=self.workloads,
            book=self.scheduler,
            cancel_reading=lambda uid: None,
            monotonic=lambda: self.now.timestamp(),
        )

    def has(self, uid: str, phase: Phase, at: int, **spec: Any) -> None:
        self.version += 1
        meta = {"uid": uid, "name": uid, "creationTimestamp": created(at), "resourceVersion": str(self.version)}
        found = build.task if phase is Phase.NEW else build.routed
        raw = found(phase, spec=spec).wire()
        raw["metadata"] |= meta
        assert self.cache.take(raw)
        self.cache.enqueue(uid)

    async def taken(self) -> list[str]:
        return [await self.work.get() for _ in range(len(self.work))]


async def test_the_jobs_of_a_burst_come_before_what_its_first_runs_have_to_say() -> None:
    async with aiohttp.ClientSession() as http:
        place = Place(http)
        place.has("run", Phase.ORCHESTRATING, 0)
        place.has("soon", Phase.NEW, cache.RUNS_BEHIND_SECONDS - 1)
        place.has("late", Phase.NEW, cache.RUNS_BEHIND_SECONDS + 1)
        assert await place.taken() == ["soon", "run", "late"], "and no run waits for ever"


async def test_a_user_s_run_and_the_end_for_which_a_task_waits_keep_their_place() -> None:
    async with aiohttp.ClientSession() as http:
        place = Place(http)
        place.has("users", Phase.ORCHESTRATING, 0, mode="Foreground")
        place.has("new", Phase.NEW, 1, mode="Foreground")
        assert await place.taken() == ["users", "new"]
        place.wait("waiter", WaitFor.GPU)
        place.has("run", Phase.ORCHESTRATING, 0)
        place.has("soon", Phase.NEW, 1)
        assert await place.taken() == ["run", "soon"]


async def test_what_is_read_or_written_while_its_namespace_leaves_stays_out() -> None:
    task = build.routed(Phase.READY_FOR_GPU)
    raw, uid, namespace = task.wire(), task.metadata.uid, task.metadata.namespace
    asked, answers = asyncio.Event(), asyncio.Event()

    async def serve(_: web.Request) -> web.Response:
        asked.set()
        await answers.wait()
        return web.json_response(raw)

    async with aiohttp.ClientSession() as http, httpserver.serving(serve, method="GET") as url:
        place = Place(http, url)
        assert place.cache.take(raw)
        reading = asyncio.create_task(place.cache.read(task))
        await asked.wait()
        place.members.discard(namespace)
        place.cache.leave(uid)
        answers.set()
        await reading
        assert list(place.tasks) == []
        later = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "999"}}
        assert not place.cache.take(later), "the answer of a write"
        assert not place.cache.admit({**later, "spec": {}}), "one that cannot be read is not reported either"
        assert list(place.tasks) == []
        assert (len(place.cache.contents), place.cache.unreadable, len(place.work)) == (0, {}, 0)
        place.members.add(namespace)
        assert place.cache.take(raw), "any version of it may come back"
