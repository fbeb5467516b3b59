"""Texts of many callers travel together, urgent ones at once, and every caller gets its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from crds.priority import Priority
from kb import errors, metrics
from kb.vectors import embedding
from router import client as router_client

Answer = Callable[[list[str], str], Awaitable[httpx.Response]]


def vectors(texts: list[str]) -> httpx.Response:
    return httpx.Response(200, json={"embeddings": [[float(len(text)), 1.0] for text in texts]})


def embedder(answer: Answer, meters: metrics.Metrics, *, parallel: int = 1) -> embedding.Embedder:
    """Over a router whose wire is `answer`, called with the texts and the priority of a request."""

    async def handle(request: httpx.Request) -> httpx.Response:
        return await answer(json.loads(request.content)["input"], request.headers["X-Ollama-Priority"])

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return embedding.Embedder(router_client.Client("http://router", http), "m", meters, parallel=parallel)


async def test_callers_that_wait_travel_together(meters: metrics.Metrics) -> None:
    sizes: list[int] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        sizes.append(len(texts))
        return vectors(texts)

    made = embedder(answer, meters)
    asked = [["x" * (caller + 1)] * 10 for caller in range(5)]
    found = await asyncio.gather(*(made.embed(texts, Priority.P3) for texts in asked))
    assert sizes == [10, 32, 8]
    assert found == [[[caller + 1.0, 1.0]] * 10 for caller in range(5)]
    assert meters.registry.get_sample_value("jervis_kb_embedded_texts_total") == 50


async def test_an_urgent_caller_waits_for_no_slot(meters: metrics.Metrics) -> None:
    gate = asyncio.Event()

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        if priority == "3":
            await gate.wait()
        return vectors(texts)

    made = embedder(answer, meters)
    bulk = asyncio.create_task(made.embed(["bulk"] * 100, Priority.P3))
    await asyncio.sleep(0)
    assert await made.embed(["question"], Priority.P1) == [[8.0, 1.0]]
    assert not bulk.done()
    gate.set()
    assert len(await bulk) == 100


async def test_a_failure_reaches_those_who_travelled_and_nobody_else(meters: metrics.Metrics) -> None:
    asked: list[int] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(len(texts))
        return httpx.Response(503, json={"error": "busy"}) if len(asked) == 1 else vectors(texts)

    made = embedder(answer, meters)
    first, second = await asyncio.gather(
        made.embed(["a"], Priority.P3), made.embed(["bb"], Priority.P3), return_exceptions=True
    )
    assert isinstance(first, router_client.Unavailable)
    assert second == [[2.0, 1.0]]


async def test_what_nobody_waits_for_is_not_sent(meters: metrics.Metrics) -> None:
    gate = asyncio.Event()
    asked: list[list[str]] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(texts)
        await gate.wait()
        return vectors(texts)

    made = embedder(answer, meters)
    first = asyncio.create_task(made.embed(["a"], Priority.P3))
    gone = asyncio.create_task(made.embed(["b"], Priority.P3))
    last = asyncio.create_task(made.embed(["c"], Priority.P3))
    await asyncio.sleep(0)
    gone.cancel()
    gate.set()
    await asyncio.gather(first, last)
    assert asked == [["a"], ["c"]]


async def test_a_model_that_gives_no_vectors_is_named(meters: metrics.Metrics) -> None:
    async def answer(texts: list[str], priority: str) -> httpx.Response:
        return httpx.Response(200, json={"embeddings": [[] for _ in texts]})

    with pytest.raises(errors.Unconfigured, match="dimensions"):
        await embedder(answer, meters).embed(["a"], Priority.P3)
