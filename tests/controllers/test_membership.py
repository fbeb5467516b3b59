"""A namespace that leaves while a task of it is looked at: an answer that comes in afterwards brings nothing back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes import client

import kube
from controllers import queue
from controllers.pendingtask import cache, observed, task_index, workloads
from controllers.pendingtask.slots import router_use, scheduler
from crds.phases import Phase
from tests.controllers import build


class Apiserver:
    """Serves one task, once it is let."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def serve(self, _: web.Request) -> web.Response:
        self.asked.set()
        await self.answers.wait()
        return web.json_response(self._raw)


@asynccontextmanager
async def served(apiserver: Apiserver) -> AsyncIterator[kube.Kube]:
    application = web.Application()
    application.router.add_get("/{path:.*}", apiserver.serve)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    loaded: Any = client.Configuration()
    loaded.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with kube.session(loaded) as http:
        yield kube.Kube(loaded, http, fence=lambda: None)
    await runner.cleanup()


def known(api: kube.Kube, members: set[str]) -> cache.TaskCache:
    tasks, runs = task_index.Tasks(lambda: build.NOW), workloads.Workloads("jervis")
    users = router_use.UserActivity(
        None,
        needed=lambda: False,
        changed=lambda: None,
        heard=lambda _: None,
        wall=lambda: build.NOW,
        monotonic=time.monotonic,
    )
    book = scheduler.SlotScheduler(
        tasks,
        observed.Limits(),
        list,
        workloads=runs,
        readings=(),
        users=users,
        wall=lambda: build.NOW,
        monotonic=time.monotonic,
    )
    return cache.TaskCache(
        api,
        members=members,
        work=queue.WorkQueue(time.monotonic),
        tasks=tasks,
        workloads=runs,
        book=book,
        cancel_reading=lambda uid: None,
        monotonic=time.monotonic,
    )


async def test_what_is_read_or_written_while_its_namespace_leaves_stays_out() -> None:
    task = build.routed(Phase.READY_FOR_GPU)
    raw, uid, namespace = task.wire(), task.metadata.uid, task.metadata.namespace
    apiserver, members = Apiserver(raw), {namespace}
    async with served(apiserver) as api:
        kept = known(api, members)
        assert kept.take(raw)
        reading = asyncio.create_task(kept.read(task))
        await apiserver.asked.wait()
        members.discard(namespace)
        kept.leave(uid)
        apiserver.answers.set()
        await reading
        assert list(kept.tasks) == []
        later = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "999"}}
        assert not kept.take(later), "the answer of a write"
        assert not kept.admit({**later, "spec": {}}), "and one that cannot be read is not reported either"
        assert list(kept.tasks) == []
        assert (len(kept.contents), kept.unreadable, len(kept.work)) == (0, {}, 0)
        members.add(namespace)
        assert kept.take(raw), "any version of it may come back"
