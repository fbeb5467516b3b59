"""Until the first line of an answer: many questions at once to one process, hard rules read from a real MongoDB.

So many askers each ask again when their answer is complete; the model takes two seconds for each of its answers. All of
it is done twice in one run, as Python collects garbage by default and after `gc.freeze`, as `kb.service.serving` does
it.

Beside it stand how late the event loop was, and of that the CPU time of its own thread: a loop that is late without
having computed was not given a processor. `stalls` are callbacks that have computed for 20 ms and more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import statistics
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import pymongo
from aiohttp import test_utils

from bench.agent_search import model, wrong
from crds import scope
from kb import metrics, mongo
from kb.agent import running, store
from kb.erasure import closed
from kb.retrieve import search
from kb.rules import mongo as rules_mongo
from kb.service.http import agentic, app, content, health
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, world

_SECONDS = 2.0
_BEAT, _STALL = 0.01, 0.02
_OWNER = scope.Scope(client_id="acme", project_id="shop")


async def measure(uri: str, *, at_once: int, rounds: int) -> dict[str, Any]:
    """Milliseconds until the first line, of `at_once` askers with `rounds` questions each."""
    database = mongo.Database(uri, f"bench_agent_{uuid.uuid4().hex[:12]}")
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    numbers = itertools.count()
    shut = closed.Closed()

    def now() -> datetime:
        return datetime.now(UTC)

    def fresh_id() -> str:
        return f"{next(numbers):032x}"

    with tempfile.TemporaryDirectory() as folder:
        async with httpx.AsyncClient(transport=model.Model(1, seconds=_SECONDS)) as wire:
            router = router_client.Client("http://model.example.com", wire)
            parts = (clocks.Clock(), meters, memory.Vectors(), memory.Content())
            async with world.opened(Path(folder), router, *parts) as made:
                life = timedelta(minutes=10)
                questions = running.Questions(
                    wrong.agent(made.finder(search.Breadth()), made, router, meters),
                    rules_mongo.Rules(database, now),
                    store.Streams(database, now, shut, life=life),
                    store.Conversations(database, now, shut, fresh_id, life=life),
                    meters,
                    now,
                    fresh_id,
                    asyncio.sleep,
                    made.graph.committed,
                    bounds=running.Bounds(at_once=4 * at_once),
                )
                faces = app.Faces(
                    None,
                    None,
                    content.Content(memory.Content(), limit=1000),
                    health.Health({}, meters),
                    agentic.Agentic(questions).routes(),
                )
                server = test_utils.TestServer(app.build(faces, meters, max_body=50_000, version="1"))
                await server.start_server()
                found: dict[str, Any] = {}
                try:
                    for way in ("collected", "frozen"):
                        if way == "frozen":
                            gc.collect()
                            gc.freeze()
                        found[way] = await _measured(str(server.make_url("")), at_once, rounds)
                finally:
                    gc.unfreeze()
                    await questions.close()
                    await server.close()
    await database.close()
    with pymongo.MongoClient[dict[str, object]](uri) as mongodb:
        mongodb.drop_database(database.name)
    return {"atOnce": at_once, **found}


async def _measured(base: str, at_once: int, rounds: int) -> dict[str, Any]:
    begun = time.process_time()
    with _watched() as seen:
        beating = asyncio.create_task(seen.beat())
        taken, plain = await _asked(base, at_once, rounds)
        beating.cancel()
    return {
        "questions": len(taken),
        "cpuMillisecondsAQuestion": round(1000 * (time.process_time() - begun) / (at_once * (rounds + 1)), 1),
        "milliseconds": _quantiles(taken),
        "ofARequestBesideThatDoesNothing": _quantiles(plain),
        "loopLateMilliseconds": _quantiles(seen.late),
        "ofThatItsOwnCpuMilliseconds": _quantiles(seen.own),
        "garbage": {"longestMilliseconds": round(max(seen.pauses, default=0.0), 1), "collections": len(seen.pauses)},
        "stalls": dict(seen.stalls.most_common(10)),
        "load": round(os.getloadavg()[0], 1),
    }


class _Seen:
    """How late the loop was and what it computed in between, in milliseconds; pauses for garbage; long callbacks."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.own: list[float] = []
        self.pauses: list[float] = []
        self.stalls: Counter[str] = Counter()
        self._begun = 0.0

    async def beat(self) -> None:
        while True:
            wall, own = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_BEAT)
            self.late.append(max(1000 * (time.perf_counter() - wall - _BEAT), 0.0))
            self.own.append(1000 * (time.thread_time() - own))

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """A callback of `gc`."""
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self.pauses.append(1000 * (time.thread_time() - self._begun))


@contextlib.contextmanager
def _watched() -> Iterator[_Seen]:
    """Every callback of the loop is timed, by the CPU time of its thread."""
    seen = _Seen()
    inner = asyncio.Handle._run

    def run(handle: Any) -> None:
        begun = time.thread_time()
        inner(handle)
        if time.thread_time() - begun >= _STALL:
            callback = handle._callback
            seen.stalls[str(getattr(callback, "__self__", callback))[:200]] += 1

    asyncio.Handle._run = run  # type: ignore[method-assign,assignment]  # as it is called
    gc.callbacks.append(seen.collected)
    try:
        yield seen
    finally:
        gc.callbacks.remove(seen.collected)
        asyncio.Handle._run = inner  # type: ignore[method-assign]


def _quantiles(taken: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(taken, n=100)
    return {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1), "p99": round(cuts[98], 1)}


async def _asked(base: str, at_once: int, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the first line of each question, and of requests beside them that do nothing."""
    limits = httpx.Limits(max_connections=at_once + 1, max_keepalive_connections=at_once + 1)
    body = {"scope": _OWNER.model_dump(by_alias=True), "query": "What is the operating voltage of the pump?"}
    taken: list[float] = []
    plain: list[float] = []
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60, limits=limits) as http:

        async def one() -> None:
            begun = time.perf_counter()
            async with http.stream("POST", "/api/v1/agentic_search", json=body) as answer:
                answer.raise_for_status()
                lines = answer.aiter_lines()
                await anext(lines)
                taken.append(1000 * (time.perf_counter() - begun))
                async for _ in lines:
                    pass

        async def asker(number: int) -> None:
            # Spread over the time of an answer; the first question opens the connection and does not count.
            await asyncio.sleep(3 * _SECONDS * number / at_once)
            for _ in range(rounds + 1):
                await one()

        async def beside() -> None:
            while True:
                begun = time.perf_counter()
                (await http.get("/healthz")).raise_for_status()
                plain.append(1000 * (time.perf_counter() - begun))
                await asyncio.sleep(0.05)

        reference = asyncio.create_task(beside())
        await asyncio.gather(*(asker(number) for number in range(at_once)))
        reference.cancel()
    # Of each asker the first one; they came before all others.
    taken = taken[at_once:]
    return taken, plain
