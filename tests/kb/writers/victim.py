"""One of two writers, which sends itself a signal just before a call of a store: `victim.py ARGUMENTS`.

Arguments are one JSON object: MongoDB's and Weaviate's place, names in them, the folder of the graph, the simulator's
URL, the text that it ingests, the signal, and before which call it comes: a number, or the name of one. It writes how
many calls there were, if it comes to an end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import prometheus_client

from crds.priority import Priority
from kb import metrics, mongo
from kb.extract import answers
from kb.graph import sqlite as graph_sqlite
from kb.ingest import document, mongo_locks, pipeline
from kb.ingest import mongo as ledger
from kb.queue import mongo as queue
from kb.vectors import embedding, weaviate
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, world

FILE = Path(__file__)
LIFE = 600.0
"""Seconds after which a process that does not report is taken for gone. A victim's own turns stay valid all the time,
so that not its clock but only what the stores compare stops it; a `Successor` does not wait so long."""


class Watched:
    """Whatever it stands for; `before` gets the name of each call."""

    def __init__(self, inner: Any, before: Callable[[str], None]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            self._before(name)
            return await found(*args, **more)

        return call


@dataclass
class Writer:
    """A writing process as far as documents go, and its stores."""

    pipe: pipeline.Pipeline
    graph: graph_sqlite.Store
    vectors: weaviate.Store


class Seconds:
    """Seconds of the machine."""

    def __call__(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Successor(Seconds):
    """Those of a writer that waits only for turns of frozen and killed writers: with each pause their life passes."""

    def __init__(self) -> None:
        self._passed = 0.0

    def __call__(self) -> float:
        return super().__call__() + self._passed

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        # The pauses between its own reports are longer.
        if seconds < 1:
            self._passed += LIFE


def nothing(name: str) -> None:
    """For a writer that outlives all its calls."""


@asynccontextmanager
async def writer(
    asked: dict[str, Any], name: str, seconds: Seconds, before: Callable[[str], None] = nothing
) -> AsyncIterator[Writer]:
    """One over the services and the folder that are named; it ends with the block."""
    clock, meters = clocks.Clock(), metrics.Metrics(prometheus_client.CollectorRegistry())
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        router = router_client.Client(asked["ollama"], http)
        vectors = weaviate.Store(asked["weaviate"], asked["grpc"], asked["name"], index=asked["name"])
        stack.push_async_callback(vectors.close)
        graph = graph_sqlite.Store(Path(asked["folder"]) / "graph.sqlite")
        stack.push_async_callback(graph.close)
        await graph.prepare()
        database = mongo.Database(asked["mongodb"], asked["name"])
        stack.push_async_callback(database.close)
        kept = ledger.Ledger(database, clock, max_answers=100)
        jobs = queue.Queue(database, name, clock, limit=100, per_client=100)
        owners = mongo_locks.Turns(database, name, clock, seconds, life=LIFE, margin=LIFE / 2, sleep=seconds.sleep)
        models: Any = Watched(router, before)
        book: Any = Watched(kept, before)
        held: Any = Watched(graph, before)
        stored: Any = Watched(vectors, before)
        waiting: Any = Watched(jobs, before)
        stores = document.Stores(book, book, held, stored, memory.Content(), waiting, turns=owners)
        asking = answers.Answers(models, "qwen2.5:7b", book, meters)
        embedder = embedding.Embedder(models, "qwen3-embedding:8b", meters)
        beating = asyncio.create_task(owners.run())
        stack.callback(beating.cancel)
        # One passage after the other, so that the calls come in one order.
        limits = document.Limits(parallel=1)
        yield Writer(pipeline.Pipeline(stores, asking, embedder, meters, clock, limits), graph, vectors)


async def main(asked: dict[str, Any]) -> int:
    """Ingest, and meet the signal on the way; the number of calls."""
    calls = 0

    def before(name: str) -> None:
        nonlocal calls
        calls += 1
        if asked["at"] in (calls, name):
            os.kill(os.getpid(), signal.Signals[asked["signal"]])

    async with writer(asked, f"victim {asked['at']}", Seconds(), before) as one:
        await one.pipe.ingest(world.request(asked["text"]), Priority.P3)
    return calls


if __name__ == "__main__":
    sys.stdout.write(f"calls: {asyncio.run(main(json.loads(sys.argv[1])))}\n")
