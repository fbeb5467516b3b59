"""How well passages are found: recall and rank of the gold passages, for each method, in one run.

Every passage goes through the real ingest into the real stores; extractions are replayed. `dense` and `bm25` are what
the vector store finds alone, `fusion` both together, `graph` the whole retrieval. All ask the same questions of the
same data, so that what the graph is worth is the difference of two lines.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.kb import corpus, world
from crds.priority import Priority
from kb import selection, wire
from kb.retrieve import rank, search

# Chunks asked for; passages are counted after their chunks have been put together.
_DEPTH = 40
# Passages whose extraction is replayed before they are ingested.
_PART = 2000

Method = Callable[[str], Awaitable[list[str]]]


async def ingest(made: world.ObservedState, passages: corpus.Corpus, *, writers: int) -> tuple[int, float]:
    """Ingest all, `writers` at once; the number of chunks and the seconds."""
    waiting = list(passages.requests.values())[::-1]
    chunks = 0

    async def work() -> None:
        nonlocal chunks
        while waiting:
            reply = await made.pipeline.ingest(waiting.pop(), Priority.P3)
            chunks += len(reply.chunk_ids)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(work())
    return chunks, time.perf_counter() - started


async def fill(made: world.ObservedState, passages: corpus.Corpus, *, writers: int) -> tuple[int, float]:
    """Ingest what is not there yet, with replayed extraction; the number of new chunks and the seconds they took.

    A part at a time: a run that broke off goes on where it was, and what the replay costs is not in the seconds.
    """
    there = made.finished()
    waiting = [one for one, request in passages.requests.items() if request.source_urn not in there]
    size, overlap = made.limits.chunk_chars, made.limits.chunk_overlap
    chunks, seconds = 0, 0.0
    for start in range(0, len(waiting), _PART):
        part = passages.part(waiting[start : start + _PART])
        await part.replay(made.ledger, world.MODEL, world.TODAY, size=size, overlap=overlap)
        more, took = await ingest(made, part, writers=writers)
        chunks, seconds = chunks + more, seconds + took
        if len(waiting) > _PART:
            sys.stderr.write(f"{start + len(part.requests)} of {len(waiting)} passages, {more / took:.1f} chunks/s\n")
    return chunks, seconds


def methods(made: world.ObservedState, weights: rank.Weights) -> Mapping[str, Method]:
    """Name -> a question's passages, best first."""
    finder = made.finder(weights, search.Breadth())

    async def direct(question: str, alpha: float) -> list[str]:
        vector = await finder.embed(question, Priority.P0)
        found = await finder.direct(corpus.OWNER, question, vector, selection.ALL, limit=50, alpha=alpha)
        order = sorted(found.fused, key=lambda key: (-found.fused[key], key))
        chunks = await made.vectors.chunks(corpus.OWNER, order)
        return [chunks[key].source_urn for key in order]

    async def graph(question: str) -> list[str]:
        asked = wire.RetrieveRequest(scope=corpus.OWNER, query=question, max_results=_DEPTH)
        return [item.provenance.source_urn for item in (await finder.retrieve(asked, Priority.P0)).items]

    return {
        "dense": lambda question: direct(question, 1.0),
        "bm25": lambda question: direct(question, 0.0),
        "fusion": lambda question: direct(question, weights.alpha),
        "graph": graph,
    }


async def score(method: Method, questions: Sequence[corpus.Question]) -> dict[str, float]:
    """The figures of one method, in percent; MRR is of the first gold passage among the first twenty."""
    figures: dict[str, list[float]] = {"R@2": [], "R@5": [], "all-gold@5": [], "MRR": []}
    for question in questions:
        urns = await method(question.text)
        passages = list(dict.fromkeys(urn.removeprefix(corpus.PREFIX) for urn in urns))
        for cut in (2, 5):
            found = len(question.gold & set(passages[:cut]))
            figures[f"R@{cut}"].append(float(found > 0) if question.any_of else found / len(question.gold))
        figures["all-gold@5"].append(float(figures["R@5"][-1] == 1.0))
        places = [place for place, passage in enumerate(passages[:20], 1) if passage in question.gold]
        figures["MRR"].append(1 / places[0] if places else 0.0)
    return {name: round(100 * statistics.fmean(values), 1) for name, values in figures.items()}


async def run(
    place: world.Place,
    passages: corpus.Corpus,
    questions: Sequence[corpus.Question],
    *,
    writers: int,
    weights: rank.Weights,
) -> dict[str, Any]:
    """Ingest what is not there yet, ask with each method, clean up."""
    async with world.opened(place) as made:
        chunks, seconds = await fill(made, passages, writers=writers)
        sys.stderr.write(f"{chunks} chunks in {seconds:.0f} s\n")
        results: dict[str, dict[str, float]] = {}
        for name, method in methods(made, weights).items():
            results[name] = await score(method, questions)
            sys.stderr.write(f"{name}: {results[name]}\n")
        return {
            "passages": len(passages.requests),
            "questions": len(questions),
            "chunks": chunks,
            "ingestSeconds": round(seconds, 1),
            "counts": asdict(await made.graph.counts(corpus.OWNER)),
            "methods": results,
        }
