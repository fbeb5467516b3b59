"""The parts of a sources process as tests put them together: a database of its own, clients of the apiserver and of the
knowledge base, a poller with all that it needs; and a Connection that is polled round by round."""

from __future__ import annotations

import contextlib
import os
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import httpx
import prometheus_client
import pytest

import kube
from clients import mongo
from controllers.connection import removals
from crds import connection, labels
from kb import client as kb
from sources import metrics
from sources.core import assignments, indexer, items, missing_items, poller, sweep
from sources.core.state import Sweep
from tests.kube import apiserver
from tests.sources.model import Dying, KilledError, World

S = TypeVar("S")
W = TypeVar("W", bound=World)


@asynccontextmanager
async def database(*listeners: Any) -> AsyncIterator[Any]:
    """Empty at the beginning, gone afterwards; `listeners` are pymongo's."""
    store = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"], listeners=listeners)
    empty = store[f"jervis_sources_{uuid.uuid4().hex[:8]}"]
    try:
        yield empty
    finally:
        await store.drop_database(empty.name)
        store.close()


@asynccontextmanager
async def clients(url: str, knows: str = "") -> AsyncIterator[tuple[kube.Kube, kb.Client]]:
    """Of the apiserver at `url`, and of the knowledge base at `knows` or else there as well."""
    loaded = apiserver.configuration(url)
    async with kube.session(loaded) as session, httpx.AsyncClient(trust_env=False) as http:
        yield kube.Kube(loaded, session, fence=lambda: None), kb.Client(knows or url, http, attempts=1)


async def claimed(
    assigned: assignments.Assignments, at: datetime, *, by: str = "me", without: Sequence[str] = ()
) -> assignments.Claim:
    """What is due then, which there must be, claimed by a process that works on some others."""
    claim = await assigned.claim(by, at, without)
    assert claim is not None, "nothing is due"
    return claim


@contextlib.contextmanager
def refused(kind: type[Exception], *, match: str | None = None, **told: object) -> Iterator[None]:
    """The block raises an error of this kind, which has these attributes."""
    with pytest.raises(kind, match=match) as caught:
        yield
    shown = {name: getattr(caught.value, name) for name in told}
    assert shown == told, f"{shown} instead of {told}"


def meters() -> metrics.Metrics:
    """Those of one process."""
    return metrics.Metrics(prometheus_client.CollectorRegistry())


async def polling(
    api: kube.Kube,
    knowledge: kb.Client,
    store: Any,
    assigned: assignments.Assignments,
    opens: Mapping[connection.Type, poller.Opens],
    *,
    wall: Callable[[], datetime],
    measured: metrics.Metrics | None = None,
    every: float = 60,
    **more: Any,
) -> poller.Poller:
    """A poller of the database `store`, which is prepared for it. `every`: the seconds between two sweeps; `more` goes
    to the poller."""
    measured, stored = measured or meters(), items.Items(store)
    await assigned.prepare()
    await stored.prepare()
    shared = {"wall": wall, "monotonic": lambda: 0.0, **more}
    known = {name: shared[name] for name in ("wall", "monotonic", "chance") if name in shared}
    sweeps = sweep.Sweeper(knowledge, assigned, missing_items.MissingItems(store), measured, every=every, **known)
    creates = indexer.Indexer(api, stored, measured, wall=wall)
    options = {"owner": "me", "width": 1, "renew": 60, **shared}
    return poller.Poller(api, knowledge, assigned, stored, creates, sweeps, opens, measured, **options)


def connected(
    name: str,
    *,
    uid: str = "",
    namespace: str = "here",
    generation: int = 1,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> connection.Connection:
    """A Connection of client acme, a mailbox if nothing else is said; its uid is its name."""
    meta = {"name": name, "namespace": namespace, "uid": uid or name, "generation": generation}
    known = {"type": "Email", "clientId": "acme", "url": "imaps://mail.example.com", **spec}
    return connection.Connection.model_validate({"metadata": {**meta, "annotations": annotations or {}}, "spec": known})


@dataclass
class Clock:
    """A time that the test owns."""

    now: datetime = datetime(2026, 11, 25, 12, tzinfo=UTC)


@dataclass
class Rig(Generic[S, W]):
    """One Connection of the model `site` with all that works on it. `clock` may be the site's, whose time `ahead` is
    ahead of everyone else's."""

    site: S
    world: W
    database: Dying
    assigned: assignments.Assignments
    polls: poller.Poller
    removing: removals.Removals
    measured: metrics.Metrics
    uid: str
    spec: dict[str, Any]
    clock: Any
    ahead: timedelta
    confirmed: str = ""
    resync: str = ""
    access: dict[str, Any] | None = None
    generation: int = 1

    @property
    def now(self) -> datetime:
        """Everyone's time but the site's."""
        at: datetime = self.clock.now - self.ahead
        return at

    @now.setter
    def now(self, at: datetime) -> None:
        self.clock.now = at + self.ahead

    def connection(self) -> connection.Connection:
        """As it is wanted now."""
        wishes = {labels.CONFIRM_DELETIONS: self.confirmed, labels.RESYNC: self.resync}
        spec = self.spec | ({"access": self.access} if self.access else {})
        annotations = {name: wish for name, wish in wishes.items() if wish}
        return connected("site", uid=self.uid, generation=self.generation, annotations=annotations, **spec)

    async def round(self, *, left: int | None = None) -> None:
        """A poll, with a sweep if one is due; `left`: the process dies at that write."""
        self.now += timedelta(seconds=65)
        await self.assigned.want(self.connection())
        self.database.left = left
        with contextlib.suppress(KilledError):
            claim = await self.assigned.claim("me", self.now)
            if claim is not None:
                await self.polls.serve(claim)
        self.database.left = None

    async def settle(self) -> None:
        """Look for what left, as the operator does."""
        await self.removing.reconcile_once()

    async def sweep(self) -> Sweep | None:
        """The end of the last sweep."""
        row = (await self.assigned.states()).get(self.uid)
        return row[2].sweep if row else None

    async def swept(self) -> Sweep:
        """A poll with a sweep that nothing disturbs."""
        before = await self.sweep()
        for _ in range(5):
            self.now += timedelta(hours=2)
            await self.round()
            last = await self.sweep()
            if last is not None and last != before:
                return last
        raise AssertionError("no sweep ended")

    async def quiet(self, turns: int) -> None:
        """Until nothing is left to be done, where nothing disturbs: a person confirms what is missing."""
        for _ in range(turns):
            self.confirmed = (await self.swept()).at.isoformat()
            await self.swept()
            await self.settle()
            self.world.work()
            await self.settle()
            self.now += timedelta(hours=2)
            await self.round()
            self.world.work()


@asynccontextmanager
async def rig(
    site: S,
    world: W,
    opens: poller.Opens,
    *,
    spec: Mapping[str, Any],
    dice: random.Random,
    clock: Any = None,
    ahead: timedelta = timedelta(),
    every: float = 60,
    knows: str = "",
    listeners: tuple[Any, ...] = (),
) -> AsyncIterator[Rig[S, W]]:
    """Against the MongoDB of the tests, with a world that serves. `opens` a poll of the site; `knows` as of `clients`,
    `every` as of `polling`."""
    async with database(*listeners) as real, clients(world.url, knows) as (api, knowledge):
        store, measured = Dying(real), meters()
        assigned = assignments.Assignments(store)
        polls = await polling(
            api, knowledge, store, assigned, {connection.Type(spec["type"]): opens}, wall=lambda: standing.now,
            measured=measured, every=every, chance=dice,
        )  # fmt: skip
        known = {"pollInterval": "10s", "maxInFlightTasks": 1000, **spec}
        removing = removals.Removals(api, assigned)
        parts = (store, assigned, polls, removing, measured, f"uid-{spec['type']}", known, clock or Clock(), ahead)
        standing = Rig(site, world, *parts)
        yield standing
