"""How long an answer takes, the query's embedding included: each method, one question after the other and many at once.

Nobody's memory answers for the model: each time a question is asked it ends with other blanks, which the model does not
read and which a memory of texts has not seen.

The references are what no method can do without, measured in the same run: the embedding of a question, and Weaviate's
own hybrid query over the same chunks. The user context is what each conversation begins with: sixty entries of six
categories among all the rest, and no embedding.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.kb import corpus, known, retrieval, usage, world
from crds.priority import Priority
from kb import api
from kb.memory import user
from kb.retrieve import rank, search
from kb.vectors import model

_WARM = 20
_RESULTS = 10
# Questions of each caller, where many ask at once.
_EACH = 25
_BLANKS = {ord("0"): " ", ord("1"): "\t"}
_TIMES = itertools.count(time.time_ns() % 2**31)
BREADTHS = {
    "fusion": search.Breadth(hops=0),
    "oneHop": search.Breadth(hops=1),
    "twoHops": search.Breadth(hops=2),
}

Ask = Callable[[str], Awaitable[object]]


async def run(
    place: world.Place,
    passages: corpus.Corpus,
    questions: Sequence[corpus.Question],
    *,
    writers: int,
    at_once: Sequence[int],
    watched: Mapping[str, int],
) -> dict[str, Any]:
    """Fill what is not there yet, then ask."""
    async with world.opened(place) as made:
        new, seconds = await retrieval.fill(made, passages, writers=writers)
        await retrieval.fill(made, corpus.Corpus(known.requests(), {}), writers=writers)
        texts = [question.text for question in questions]
        vectors = dict(zip(texts, await made.embedder.embed(texts, Priority.P0), strict=True))
        results: dict[str, Any] = {}
        for name, ask in {**_references(made, vectors), **_methods(made), **_prefetch(made)}.items():
            for text in texts[:_WARM]:
                await ask(text)
            results[name] = {f"{many} at once": await _time(ask, texts, many) for many in at_once}
        return {
            "cores": os.cpu_count(),
            "new": {"chunks": new, "seconds": round(seconds, 1)},
            "counts": asdict(await made.graph.counts(corpus.OWNER)),
            "milliseconds": results,
            "firstLine": await _first_lines(made, texts),
            "graphMebibytes": round((made.folder / "graph.sqlite").stat().st_size / 2**20, 1),
            "memory": usage.memory(watched),
        }


def _references(made: world.ObservedState, vectors: Mapping[str, model.Vector]) -> dict[str, Ask]:
    async def embedding(text: str) -> object:
        return await made.embedder.embed([_again(text)], Priority.P0)

    async def dense(text: str) -> object:
        return await made.vectors.dense(corpus.OWNER, vectors[text], limit=50)

    async def lexical(text: str) -> object:
        return await made.vectors.lexical(corpus.OWNER, text, limit=50)

    return {"embedding": embedding, "dense": dense, "bm25": lexical}


def _methods(made: world.ObservedState) -> dict[str, Ask]:
    def asking(breadth: search.Breadth) -> Ask:
        finder = made.finder(rank.Weights(), breadth)
        return lambda text: finder.retrieve(_asked(text), Priority.P0)

    return {name: asking(breadth) for name, breadth in BREADTHS.items()}


def _prefetch(made: world.ObservedState) -> dict[str, Ask]:
    users = user.Users(made.graph, made.vectors, made.meters)

    async def context(_: str) -> object:
        found = await users.context(known.OWNER)
        assert len(found.categories) == len(api.Category), "and every category is in the answer"
        return found

    return {"userContext": context}


async def _time(ask: Ask, texts: Sequence[str], many: int) -> dict[str, float]:
    """Milliseconds per question, `many` callers at once; questions a second, and CPU of this process."""
    waiting = iter(list(itertools.islice(itertools.cycle(texts), max(len(texts), _EACH * many))))
    taken: list[float] = []

    async def work() -> None:
        for text in waiting:
            started = time.perf_counter()
            await ask(text)
            taken.append(time.perf_counter() - started)

    before, begun = usage.cpu(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(many):
            group.create_task(work())
    seconds = time.perf_counter() - begun
    return {
        **_shares(taken),
        "perSecond": round(len(taken) / seconds, 1),
        "cpu": round(1000 * (usage.cpu() - before) / len(taken), 2),
        "questions": len(taken),
    }


async def _first_lines(made: world.ObservedState, texts: Sequence[str]) -> dict[str, float]:
    """Milliseconds until a caller who listens to the stream hears the first line."""
    finder = made.finder(rank.Weights(), search.Breadth())
    taken: list[float] = []
    for text in texts:
        started = time.perf_counter()
        events = finder.stream(_asked(text), Priority.P0)
        await anext(events)
        taken.append(time.perf_counter() - started)
        async for _ in events:
            pass
    return _shares(taken)


def _shares(taken: Sequence[float]) -> dict[str, float]:
    ordered = sorted(1000 * one for one in taken)
    found = {"p50": statistics.median(ordered)}
    found |= {f"p{share}": ordered[min(int(share / 100 * len(ordered)), len(ordered) - 1)] for share in (95, 99)}
    return {name: round(value, 1) for name, value in found.items()}


def _asked(text: str) -> api.RetrieveRequest:
    return api.RetrieveRequest(scope=corpus.OWNER, query=_again(text), max_results=_RESULTS)


def _again(text: str) -> str:
    """The question as nobody has asked it before, to the letter: a number of this run in blanks of two kinds."""
    return text + f"{next(_TIMES):032b}".translate(_BLANKS)
