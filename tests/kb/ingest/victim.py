"""A process that ingests one document and is killed at a chosen call: `python -m tests.kb.ingest.victim ARGUMENTS`.

Arguments are one JSON object: the folder of the SQLite files, the simulator's URL, Weaviate's place and index, the
text, and the number of the call before which SIGKILL comes (0: never). It prints how many calls there were.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import prometheus_client

from crds.priority import Priority
from kb import metrics
from kb.ingest import answers, pipeline
from kb.vectors import embedding, weaviate
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, world


class Deadly:
    """Whatever it stands for, until the call with the deadly number."""

    def __init__(self, inner: Any, burn: Callable[[], None]) -> None:
        self._inner = inner
        self._burn = burn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            self._burn()
            return await found(*args, **more)

        return call


async def main(asked: dict[str, Any]) -> int:
    """Ingest; the number of calls to stores and models."""
    calls = itertools.count(1)
    last = 0

    def burn() -> None:
        nonlocal last
        last = next(calls)
        if last == asked["deadly"]:
            os.kill(os.getpid(), signal.SIGKILL)

    clock, meters = clocks.Clock(), metrics.Metrics(prometheus_client.CollectorRegistry())
    vectors = weaviate.Store(asked["weaviate"], asked["grpc"], asked["index"], index=asked["index"])
    try:
        async with httpx.AsyncClient(trust_env=False) as http:
            router = router_client.Client(asked["ollama"], http)
            stores = (vectors, memory.Content())
            async with world.opened(Path(asked["folder"]), router, clock, meters, *stores) as kb:
                models: Any = Deadly(router, burn)
                ledger: Any = Deadly(kb.ledger, burn)
                held: list[Any] = [Deadly(store, burn) for store in (kb.graph, vectors, kb.content, kb.queue)]
                pipe = pipeline.Pipeline(
                    pipeline.Stores(ledger, *held),
                    answers.Answers(models, "qwen2.5:7b", ledger, meters),
                    embedding.Embedder(models, "qwen3-embedding:8b", meters),
                    meters,
                    clock,
                    pipeline.Limits(chunk_chars=900, parallel=1),
                )
                await pipe.ingest(world.request(asked["text"]), Priority.P3)
    finally:
        await vectors.close()
    return last


if __name__ == "__main__":
    sys.stdout.write(str(asyncio.run(main(json.loads(sys.argv[1])))))
