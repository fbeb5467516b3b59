"""One history by one algorithm: two replicas of the sources process against a source that changes, and what is held
when the source holds still.

Poller, sweep, indexer, items and the operator's removals are the real ones, against MongoDB; the apiserver and the
knowledge base are `Knowledge`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx
import prometheus_client
from kubernetes import client as kubernetes

import kube
from bench.connectors import atlassian, forges, mailbox, meetings, plan, references, repository, site
from bench.connectors.database import Database, KilledError
from bench.connectors.knowledge import Knowledge
from bench.connectors.site import Site
from clients import mongo
from contracts import mongo_collections
from controllers.connection import removals
from crds import connection, errors, labels
from kb import client as kb
from sources import metrics
from sources.core import assignments, indexer, items, missing_items, poller, port, sweep
from sources.core.state import Sweep
from sources.providers.meetings import store

PROTOCOLS: dict[str, Callable[[int], Site] | None] = {
    "IMAP": mailbox.Mailbox, "POP3": mailbox.Maildrop, "Jira": atlassian.Jira, "Confluence": atlassian.Confluence,
    "GitHub": forges.GitHub, "GitLab": forges.GitLab, "Gitea": forges.Gitea, "Git": repository.Repository,
    "Meetings": None,
}  # fmt: skip
OURS = "ours"
ALGORITHMS = (OURS, "window", "days", "believed")
DATABASE = f"jervis_histories_{os.getpid()}"
ROUND = timedelta(seconds=65)
"""Between two polls; a claim lasts 60 seconds."""
MOST_CYCLES = 4
"""Sweeps that a person confirms at the end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one history. `differing`: documents and commits that are held and not there, there and not held, or of another
    state; `unnamed`: titles of what cannot be read, is not held and is no failure with that title; `twice`: tasks that
    were made once more than their item came; `wrong`: documents, tasks and commits that were deleted though their item
    was always there."""

    protocol: str
    algorithm: str
    seed: int
    events: int
    kills: int
    requests: int
    seconds: float
    differing: tuple[str, ...]
    unnamed: tuple[str, ...]
    twice: tuple[str, ...]
    wrong: tuple[str, ...]


class Replica:
    """One process: all that works on Connections, with memory of its own."""

    def __init__(self, rig: Rig, number: int) -> None:
        self.database = Database(rig.real)
        # The clocks of processes differ by less than a claim lasts.
        self._wall: Callable[[], datetime] = lambda: rig.now + timedelta(seconds=20 * number)
        self._number, self._site, self._algorithm = number, rig.site, rig.algorithm
        self.assigned = assignments.Assignments(self.database)
        stored = items.Items(self.database)
        real = rig.algorithm in (OURS, "believed")
        self._opens: Callable[[assignments.Claim], port.Source] | None = rig.site.opens(self.assigned) if real else None
        sweeps = sweep.Sweeper(
            rig.knowledge, self.assigned, missing_items.MissingItems(self.database), rig.measured, every=60,
            wall=self._wall, monotonic=lambda: 0.0, chance=random.Random(number),
        )  # fmt: skip
        self.polls = poller.Poller(
            rig.api, rig.knowledge, self.assigned, stored,
            indexer.Indexer(rig.api, stored, rig.measured, wall=self._wall), sweeps, {}, rig.measured,
            owner=f"replica-{number}", width=1, renew=60, wall=self._wall, monotonic=lambda: 0.0,
            chance=random.Random(number), stored_here={rig.site.type: self._source},
        )  # fmt: skip

    def _source(self, claim: assignments.Claim) -> port.Source:
        if self._algorithm == "window":
            return references.Window(self._site, self._wall)
        if self._algorithm == "days":
            return references.Days(self._site, self._wall)
        assert self._opens is not None
        made = self._opens(claim)
        return made if self._algorithm == OURS else references.Believed(made)

    async def round(self) -> None:
        """A poll, with a sweep if one is due."""
        claim = await self.assigned.claim(f"replica-{self._number}", self._wall())
        if claim is not None:
            with contextlib.suppress(errors.Operational):
                await self.polls.serve(claim)


class Rig:
    """One Connection, its source, and two replicas. `now` is our clock."""

    def __init__(self, made: Site, algorithm: str, real: Any, uid: str, world: Knowledge) -> None:
        self.site, self.algorithm, self.real, self.uid, self.world = made, algorithm, real, uid, world
        self.measured = metrics.Metrics(prometheus_client.CollectorRegistry())
        self.kills, self._confirmed, self._resync = 0, "", ""
        self._ordinal, self._within = 0, set[int]()

    def connect(self, api: kube.Kube, knowledge: kb.Client) -> None:
        """Start both replicas."""
        self.api, self.knowledge = api, knowledge
        self.assigned = assignments.Assignments(self.real)
        self.removing = removals.Removals(api, self.assigned)
        self._meetings = store.Meetings(self.real)
        self.replicas = [Replica(self, 0), Replica(self, 1)]

    @property
    def now(self) -> datetime:
        """By our clock."""
        return self.site.now + self.site.skew

    def connection(self) -> connection.Connection:
        """As the operator sees it."""
        said = {labels.CONFIRM_DELETIONS: self._confirmed, labels.RESYNC: self._resync}
        meta = {
            "name": meetings.NAME, "namespace": meetings.NAMESPACE, "uid": self.uid, "generation": 1,
            "annotations": {name: value for name, value in said.items() if value},
        }  # fmt: skip
        spec = {
            "type": self.site.type.value, "clientId": "acme", "projectId": repository.PROJECT, "url": self.site.url,
            "pollInterval": "10s", "maxInFlightTasks": 1000, "filter": dict(self.site.filter),
        }  # fmt: skip
        return connection.Connection.model_validate({"metadata": meta, "spec": spec})

    async def event(self) -> None:
        """Something happens at the source."""
        waits = self.site.event()
        if waits is not None:
            await waits

    def _request(self) -> None:
        if self._ordinal in self._within:
            self._within.discard(self._ordinal)
            self.site.event()
        self._ordinal += 1

    async def _write(self) -> None:
        if self._ordinal in self._within:
            self._within.discard(self._ordinal)
            await self.event()
        self._ordinal += 1

    async def step(self, one: plan.Step, number: int) -> None:
        """One poll, with what befalls it."""
        await self.assigned.want(self.connection())
        for _ in range(one.before):
            await self.event()
        dice = random.Random(f"work {self.site.seed} {number}")
        self.world.refuses = {urn for urn in sorted(self.world.documents) if dice.random() < 0.2}
        if one.resync:
            self._resync = str(number)
        self.site.tick(ROUND)
        await self.assigned.want(self.connection())
        self._ordinal, self._within = 0, set(one.within)
        self.site.faults(one.fault)
        mine, other = self.replicas[one.replica], self.replicas[1 - one.replica]
        mine.database.arm(one.kill, one.freeze)
        if self.site.by_writes:
            mine.database.meanwhile = self._write
        else:
            self.site.meanwhile = self._request
        work = asyncio.create_task(mine.round())
        if one.freeze is not None:
            frozen = asyncio.create_task(mine.database.frozen.wait())
            await asyncio.wait({work, frozen}, return_when=asyncio.FIRST_COMPLETED)
            frozen.cancel()
            if mine.database.frozen.is_set():
                self.site.tick(ROUND)
                await other.round()
                mine.database.thawed.set()
        await asyncio.wait({work})
        if isinstance(work.exception(), KilledError):
            self.kills += 1
            self.replicas[one.replica] = Replica(self, one.replica)
        elif work.exception() is not None:
            await work
        mine.database.arm(None, None)
        mine.database.meanwhile = self.site.meanwhile = None
        for _ in self._within:
            await self.event()
        if one.settle:
            await self._settle()
        self.world.work(dice)

    async def _settle(self) -> None:
        await self.removing.reconcile_once()
        if self.site.type is connection.Type.MEETING:
            await self._meetings.index()

    async def _sweep(self) -> Sweep | None:
        found = (await self.assigned.states()).get(self.uid)
        return found[2].sweep if found else None

    async def _swept(self) -> Sweep:
        before = await self._sweep()
        for number in range(8):
            self.site.tick(timedelta(hours=2))
            await self.assigned.want(self.connection())
            await self.replicas[number % 2].round()
            found = await self._sweep()
            if found is not None and found != before:
                return found
        state = (await self.assigned.states())[self.uid][2]
        raise AssertionError(f"no sweep ended: {state.reason} {state.message}")

    async def quiet(self) -> None:
        """The source holds still, everything answers, and a person confirms what is missing."""
        self.site.faults(None)
        self.site.heal(random.Random(f"heal {self.site.seed}"))
        self.world.refuses.clear()
        self.world.work()
        for _ in range(MOST_CYCLES):
            found = await self._swept()
            self._confirmed = found.at.isoformat()
            await self._swept()
            await self._settle()
            self.world.work()
            await self._settle()
            await self._swept()
            self.world.work()
            if not _differing(self.world.held(), self.site.live(), self.site.unreadable):
                return

    async def unnamed(self) -> tuple[str, ...]:
        """Titles of what cannot be read and is neither held nor a failure."""
        failed = {
            row["title"] async for row in self.real[assignments.ITEMS].find({"connection": self.uid, "state": "Failed"})
        }
        held, live = self.world.held(), self.site.live()
        some = {title for urn, title in self.site.unreadable.items() if urn in live and urn not in held}
        return tuple(sorted(some - failed))


def _most(made: site.Site, urn: str, said: frozenset[str]) -> int:
    """How many tasks with these tokens may be made. A source that shows a comment late has what it had before, or never
    had at once, each time that the thing comes."""
    return max(1, made.came[urn, said], made.arrived[urn])


def _differing(
    held: dict[str, frozenset[str]], live: dict[str, frozenset[str]], unreadable: Mapping[str, str]
) -> tuple[str, ...]:
    """What cannot be read is held as it was, under its former name too, or not at all."""
    names = (name for name in held.keys() | live.keys() if held.get(name) != live.get(name))
    return tuple(sorted(name for name in names if name not in unreadable))


@contextlib.asynccontextmanager
async def database(uri: str) -> AsyncIterator[Any]:
    """One of this process; gone afterwards."""
    client = mongo.client(uri)
    made = client[DATABASE]
    await assignments.Assignments(made).prepare()
    await items.Items(made).prepare()
    await store.Meetings(made).prepare()
    try:
        yield made
    finally:
        await client.drop_database(DATABASE)
        client.close()


async def run(protocol: str, algorithm: str, seed: int, real: Any) -> Outcome:
    """One history. What it wrote is gone afterwards."""
    begun = time.perf_counter()
    uid, makes = f"{protocol}-{algorithm}-{seed}", PROTOCOLS[protocol]
    made = makes(seed) if makes is not None else meetings.Meetings(seed, real)
    world, loaded = Knowledge(), kubernetes.Configuration()
    async with made.serving(), world.serving(), httpx.AsyncClient(trust_env=False, verify=site.tls()) as http:
        loaded.host = world.url
        session = kube.session(loaded)
        try:
            rig = Rig(made, algorithm, real, uid, world)
            rig.connect(kube.Kube(loaded, session, fence=lambda: None), kb.Client(world.url, http, attempts=1))
            for number, one in enumerate(plan.steps(seed)):
                await rig.step(one, number)
            await rig.quiet()
            live = made.live()
            twice = tuple(sorted({urn for urn, said, count in world.counted() if count > _most(made, urn, said)}))
            wrong = tuple(sorted(set(world.deleted) & made.known - made.away))
            return Outcome(
                protocol, algorithm, seed, made.events, rig.kills, made.bucket.count, time.perf_counter() - begun,
                _differing(world.held(), live, made.unreadable), await rig.unnamed(), twice, wrong,
            )  # fmt: skip
        finally:
            await assignments.Assignments(real).drop(uid)
            for name in (mongo_collections.MEETINGS, mongo_collections.TRANSCRIPTS):
                await real[name].delete_many({})
            await session.close()
