"""Polls of one Connection until nothing is left, in a process of their own: `python -m bench.connectors.polling`.

Wired as `sources.__main__` wires them. One JSON document on stdout: the first poll, one that finds nothing
new, and memory. Settings come as one JSON argument.
"""

from __future__ import annotations

import asyncio
import cProfile
import imaplib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import prometheus_client
import pymongo.monitoring

import kube
from bench.operator import processes
from clients import mongo, tls_trust
from crds import connection
from kb import client as kb
from sources import metrics
from sources.core import assignments, counting, indexer, items, missing_items, poller, sweep
from sources.providers import table as protocols

UID = "bench-mailbox"


@dataclass(frozen=True, slots=True)
class Settings:
    """`tasks`: create one per item; without, items count as tasks once they are stored, in one write per poll."""

    mongodb: str
    kubeconfig: str
    outside: str
    url: str
    tasks: bool = True
    profile: str = ""
    database: str = "bench"


class Stored(indexer.Indexer):
    """Takes what is stored for done: what is measured ends where an item is durable."""

    def __init__(self, rows: Any, stored: items.Items) -> None:
        self._rows, self._counted = rows, stored.counted

    async def run(self, claim: assignments.Claim) -> bool:
        """One write for all."""
        waiting = {"connection": claim.uid, "state": counting.NEW}
        made = {"$set": {"state": counting.INDEXED}, "$unset": {"content": ""}}
        self._counted.written(claim.uid, (await self._rows.update_many(waiting, made)).modified_count)
        return True


class Calls(pymongo.monitoring.CommandListener):
    """Counts commands by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        """One more."""
        self.counts[event.command_name] += 1

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None:
        """Not counted."""

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None:
        """Not counted."""


class Commands:
    """Counts IMAP commands of this process by their tags (RFC 3501 2.2.1)."""

    def __init__(self) -> None:
        self.count = 0
        tagged = imaplib.IMAP4._new_tag  # type: ignore[attr-defined]  # every command takes one

        def counting(one: imaplib.IMAP4) -> Any:
            self.count += 1
            return tagged(one)

        imaplib.IMAP4._new_tag = counting  # type: ignore[attr-defined]


@dataclass
class Polls:
    """One Connection and all that polls it."""

    assigned: assignments.Assignments
    polls: poller.Poller
    calls: Calls
    commands: Commands

    async def until_done(self) -> dict[str, Any]:
        """Poll until it is not due; what that took."""
        begun, used, sent, rounds = time.monotonic(), sum(os.times()[:2]), self.commands.count, 0
        self.calls.counts.clear()
        while (claim := await self.assigned.claim("bench", datetime.now(UTC))) is not None:
            await self.polls.serve(claim)
            rounds += 1
        state = (await self.assigned.states())[UID][2]
        assert not state.failures, state.message
        return {
            "seconds": time.monotonic() - begun,
            "cpu": sum(os.times()[:2]) - used,
            "imap": self.commands.count - sent,
            "mongodb": sum(self.calls.counts.values()),
            "rounds": rounds,
            "items": dict(state.items or {}),
        }

    async def due(self) -> None:
        """Have it polled now."""
        now = datetime.now(UTC)
        await self.assigned.watched(UID, now, now, news=True)


@asynccontextmanager
async def wired(given: Settings) -> AsyncIterator[Polls]:
    """As the sources process has it."""
    calls, commands, wall = Calls(), Commands(), partial(datetime.now, UTC)
    store, tls = mongo.client(given.mongodb, 60.0, listeners=[calls]), tls_trust.context()
    database, measured = store[given.database], metrics.Metrics(prometheus_client.CollectorRegistry())
    assigned, stored = assignments.Assignments(database), items.Items(database)
    loaded = kube.configuration(given.kubeconfig)
    async with kube.session(loaded) as session, httpx.AsyncClient(trust_env=False) as http:
        api = kube.Kube(loaded, session, fence=lambda: None)
        knowledge = kb.Client(given.outside, http, attempts=1)
        made = indexer.Indexer(api, stored, measured, wall=wall)
        makes = made if given.tasks else Stored(database["source_items"], stored)
        sweeps = sweep.Sweeper(
            knowledge, assigned, missing_items.MissingItems(database), measured, every=1e9, wall=wall,
            monotonic=time.monotonic,
        )  # fmt: skip
        opens = protocols.table(plain=True, tls=tls, monotonic=time.monotonic, wall=wall)
        polls = poller.Poller(
            api, knowledge, assigned, stored, makes, sweeps, opens, measured, owner="bench", width=1, renew=20.0,
            wall=wall, monotonic=time.monotonic, chance=random.Random(1),
        )  # fmt: skip
        await assigned.prepare()
        await stored.prepare()
        meta = {"name": "mailbox", "namespace": "bench", "uid": UID, "generation": 1}
        spec = {
            "type": "Email", "clientId": "acme", "url": given.url, "secretRef": {"name": "mailbox"},
            "pollInterval": "1h", "maxInFlightTasks": 10_000, "rateLimit": {"requestsPerMinute": 6000, "burst": 1000},
        }  # fmt: skip
        await assigned.want(connection.Connection.model_validate({"metadata": meta, "spec": spec}))
        yield Polls(assigned, polls, calls, commands)
        store.close()


async def measure(given: Settings) -> dict[str, Any]:
    """The first poll to its end, then three that find nothing new."""
    async with wired(given) as one:
        idle = processes.peak(os.getpid())
        first = await one.until_done()
        again = []
        for _ in range(3):
            await one.due()
            again.append(await one.until_done())
    return {"first": first, "again": again, "idle_mib": idle, "peak_mib": processes.peak(os.getpid())}


def main(arguments: list[str]) -> int:
    """One argument: `Settings` as JSON."""
    given = Settings(**json.loads(arguments[0]))
    profile = cProfile.Profile() if given.profile else None
    if profile is not None:
        profile.enable()
    found = asyncio.run(measure(given))
    if profile is not None:
        profile.disable()
        profile.dump_stats(given.profile)
    print(json.dumps(found))  # the answer of this process
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
