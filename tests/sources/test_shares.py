"""Connections whose sources hang leave places for those of other namespaces."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import httpx
import prometheus_client
import pytest
from kubernetes import client as kubernetes

import kube
from controllers.sources import assignments, gone, indexer, items, limits, metrics, mongo, poller, port, sweep
from crds import connection
from kb import client as kb
from tests import waiting
from tests.sources.model import World

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def test_whoever_holds_twice_what_is_free_takes_no_more() -> None:
    taken = list[str]()
    while "a" not in limits.full(taken, 8):
        taken.append("a")
    assert taken == ["a"] * 6
    assert limits.full([*taken, "b"], 8) == ["a"]
    assert limits.full(["a"], 1) == ["a"]
    assert limits.full([], 1) == []


def conn(namespace: str, number: int) -> connection.Connection:
    meta = {"name": f"box-{number}", "namespace": namespace, "uid": f"uid-{number}", "generation": 1}
    spec = {"type": "Email", "clientId": "acme", "url": "imaps://mail.example.com"}
    return connection.Connection.model_validate({"metadata": meta, "spec": spec})


class Hanging:
    """A server that takes the connection and says nothing."""

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        await asyncio.Event().wait()
        yield port.Batch({}, "")

    async def ids(self) -> AsyncGenerator[port.Page]:
        yield port.Page(())


@pytest.mark.services
async def test_a_namespace_of_sources_that_hang_leaves_places_for_others() -> None:
    store = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    name = f"jervis_shares_{uuid.uuid4().hex[:8]}"
    assigned, stored = assignments.Assignments(store[name]), items.Items(store[name])
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    loaded: Any = kubernetes.Configuration()
    idle = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds == poller.IDLE_SECONDS:
            idle.set()
        await asyncio.Event().wait()

    async with World().serving() as world, httpx.AsyncClient(trust_env=False) as http:
        loaded.host = world.url
        session = kube.session(loaded)
        api, knowledge = kube.Kube(loaded, session, fence=lambda: None), kb.Client(world.url, http, attempts=1)
        polls = poller.Poller(
            api, knowledge, assigned, stored, indexer.Indexer(api, stored, measured, wall=lambda: NOW),
            sweep.Sweeper(knowledge, assigned, gone.Gone(store[name]), measured, every=60, wall=lambda: NOW,
                          monotonic=lambda: 0.0),
            {connection.Type.EMAIL: lambda *_: Hanging()}, measured, owner="me", width=8, renew=60,
            wall=lambda: NOW, monotonic=lambda: 0.0, sleep=sleep,
        )  # fmt: skip
        try:
            for number in range(12):
                await assigned.want(conn("loud", number))
            await assigned.want(conn("quiet", 12))
            await store[name][assignments.CONNECTIONS].update_one({"_id": "uid-12"}, {"$set": {"pollAt": NOW}})
            running = asyncio.create_task(polls.run())
            await waiting.done(idle.wait())
            # The one of the other namespace is taken though twelve were due before it.
            assert sorted(polls._namespaces.values()) == ["loud"] * 6 + ["quiet"]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        finally:
            await store.drop_database(name)
            await session.close()
            store.close()
