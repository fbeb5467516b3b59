"""What a poll costs that finds nothing, or one new thing, beside how many items are known.

    python -m bench.connectors.standing --items 1000000

MongoDB's wire is the server of the tests, with a database on disk; apiserver and knowledge base only count. Prints one
JSON document: seconds and commands about items of a poll.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pymongo.monitoring

import kube
from bench.connectors import outside
from clients import mongo
from crds import connection, pendingtask
from kb import client as kb
from sources import metrics
from sources.core import assignments, indexer, items, missing_items, poller, port, sweep

UID = "standing"
BATCH = 10_000
POLLS = 3
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Asked(pymongo.monitoring.CommandListener):
    """Counts the commands about items."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        """See `CommandListener`."""
        if assignments.ITEMS in event.command.values():
            self.count[event.command_name] += 1

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None:
        """See `CommandListener`."""

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None:
        """See `CommandListener`."""


class Source:
    """`new` things that were not found yet."""

    def __init__(self) -> None:
        self.new = 0
        self._found = 0

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        while self._found < self.new:
            self._found += 1
            name = f"new-{self._found}"
            one = port.Item(
                name, "v1", pendingtask.Type.EMAIL, f"email::{name}", name, "Text.", place=f"INBOX/1/{name}"
            )
            yield port.Batch({"at": self._found}, str(self._found), (one,))

    async def ids(self) -> AsyncGenerator[port.Page]:
        """No sweep is due."""
        raise port.Unreachable("no list")
        yield port.Page(())


async def fill(rows: Any, count: int) -> None:
    """Items that have tasks."""
    scope = {"clientId": "acme", "projectId": "", "groupId": ""}
    for start in range(0, count, BATCH):
        some = [
            {
                "_id": items.key(UID, f"m{number}", "v1"), "connection": UID, "scope": scope, "sourceId": f"m{number}",
                "type": "EmailProcessing", "urn": f"email::m{number}", "title": f"Mail {number}", "said": "0" * 32,
                "observedAt": NOW, "found": NOW, "state": "Indexed", "tries": 0, "reason": "", "nonce": "1",
                "access": "", "places": [f"INBOX/1/{number}"], "seen": 1, "task": f"standing-{number}",
            }
            for number in range(start, min(start + BATCH, count))
        ]  # fmt: skip
        await rows.insert_many(some, ordered=False)
        sys.stderr.write(f"{start + len(some)} of {count} items\n")


async def measure(count: int, folder: Path, uri: str) -> dict[str, Any]:
    """Polls that find nothing, then some that find one thing each."""
    asked, now = Asked(), [NOW]
    store = mongo.client(uri, 600.0, listeners=[asked])
    database, measured = store["standing"], metrics.Metrics(prometheus_client.CollectorRegistry())
    assigned, stored, source = assignments.Assignments(database), items.Items(database), Source()
    await assigned.prepare()
    await stored.prepare()
    await fill(database[assignments.ITEMS], count)
    wire = outside.Outside({})
    async with wire.serving(), httpx.AsyncClient(trust_env=False) as http:
        loaded = kube.configuration(str(wire.kubeconfig(folder)))
        async with kube.session(loaded) as session:
            api = kube.Kube(loaded, session, fence=lambda: None, timeout=600)
            knowledge = kb.Client(wire.url, http, attempts=1)

            def wall() -> datetime:
                return now[0]

            sweeps = sweep.Sweeper(
                knowledge, assigned, missing_items.MissingItems(database), measured, every=1e9, wall=wall,
                monotonic=time.monotonic, chance=random.Random(1),
            )  # fmt: skip
            polls = poller.Poller(
                api, knowledge, assigned, stored, indexer.Indexer(api, stored, measured, wall=wall), sweeps, {},
                measured, owner="bench", width=1, renew=20.0, wall=wall, monotonic=time.monotonic,
                chance=random.Random(1), stored_here={connection.Type.EMAIL: lambda claim: source},
            )  # fmt: skip

            async def poll() -> tuple[float, dict[str, int]]:
                now[0] += timedelta(seconds=11)
                claim = await assigned.claim("bench", now[0])
                assert claim is not None
                asked.count.clear()
                begun = time.monotonic()
                await polls.serve(claim)
                return time.monotonic() - begun, dict(asked.count)

            meta = {"name": "standing", "namespace": "bench", "uid": UID, "generation": 1}
            spec = {"type": "Email", "clientId": "acme", "url": "imap://h", "pollInterval": "10s"}
            await assigned.want(connection.Connection.model_validate({"metadata": meta, "spec": spec}))
            found: dict[str, Any] = {"items": count}
            await poll()
            await poll()
            for name, one_new in (("nothing", False), ("one_new", True)):
                rounds = []
                for _ in range(POLLS):
                    source.new += one_new
                    rounds.append(await poll())
                found[name] = {"seconds": [round(one, 3) for one, _ in rounds], "commands": rounds[-1][1]}
            found["said"] = dict((await assigned.states())[UID][2].items or {})
    store.close()
    return found


def main(arguments: Sequence[str]) -> int:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m bench.connectors.standing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--items", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-standing-") as at, outside.mongodb(Path(at)) as uri:
        found = asyncio.run(measure(given.items, Path(at), uri))
    print(json.dumps(found))  # the answer
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
