"""How fast: ingest with replayed extraction, embedding alone, and the time of an answer while nothing else goes on.

Beside wall-clock seconds stand CPU seconds of this process and of the simulators, which a busy machine changes little.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.kb import corpus, retrieval, world
from crds.priority import Priority
from kb import wire
from kb.ingest import pipeline
from kb.retrieve import rank, search

_EMBEDDED = 2000
_WARM = 10


async def ingest(passages: corpus.Corpus, options: Any) -> dict[str, Any]:
    """Chunks per second end to end, and texts per second of the embedding alone."""
    async with _world(options) as made:
        await _replay(made, passages)
        texts = [request.content or "" for request in passages.requests.values()][:_EMBEDDED]
        started = time.perf_counter()
        await made.embedder.embed(texts, Priority.P3)
        embedding = len(texts) / (time.perf_counter() - started)
        before = _cpu()
        chunks, seconds = await retrieval.ingest(made, passages, writers=options.writers)
        return {
            "cores": os.cpu_count(),
            "passages": len(passages.requests),
            "chunks": chunks,
            "seconds": round(seconds, 1),
            "chunksPerSecond": round(chunks / seconds, 1),
            "embeddedTextsPerSecond": round(embedding, 1),
            "cpuMillisecondsPerChunk": round(1000 * (_cpu() - before) / chunks, 2),
            "counts": asdict(await made.graph.counts(corpus.OWNER)),
            "graphMebibytes": round((made.folder / "graph.sqlite").stat().st_size / 2**20, 1),
            **_memory(),
        }


async def latency(passages: corpus.Corpus, questions: Sequence[corpus.Question], options: Any) -> dict[str, Any]:
    """Milliseconds of a retrieve, the query's embedding included, and of its stages."""
    async with _world(options) as made:
        await _replay(made, passages)
        chunks, _ = await retrieval.ingest(made, passages, writers=options.writers)
        results: dict[str, Any] = {}
        for name, breadth in (("fusion", search.Breadth(hops=0)), ("graph", search.Breadth())):
            finder = made.finder(rank.Weights(), breadth)
            for question in questions[:_WARM]:
                await finder.retrieve(_asked(question), Priority.P0)
            results[name] = await _time(finder, questions)
        return {
            "cores": os.cpu_count(),
            "chunks": chunks,
            "counts": asdict(await made.graph.counts(corpus.OWNER)),
            **results,
            **_memory(),
        }


async def _time(finder: search.Search, questions: Sequence[corpus.Question]) -> dict[str, float]:
    seconds, first = [], []
    before = _cpu()
    for question in questions:
        started = time.perf_counter()
        heard = False
        async for _ in finder.stream(_asked(question), Priority.P0):
            if not heard:
                first.append(time.perf_counter() - started)
                heard = True
        seconds.append(time.perf_counter() - started)
    ordered, firsts = sorted(seconds), sorted(first)
    return {
        "p50Milliseconds": round(1000 * statistics.median(ordered), 1),
        "p95Milliseconds": round(1000 * ordered[int(0.95 * (len(ordered) - 1))], 1),
        "firstLineP95Milliseconds": round(1000 * firsts[int(0.95 * (len(firsts) - 1))], 1),
        "cpuMilliseconds": round(1000 * (_cpu() - before) / len(questions), 1),
    }


def _asked(question: corpus.Question) -> wire.RetrieveRequest:
    return wire.RetrieveRequest(scope=corpus.OWNER, query=question.text, max_results=10)


def _world(options: Any) -> Any:
    limits = pipeline.Limits(chunk_chars=options.chunk_chars, chunk_overlap=options.overlap)
    return world.opened(
        options.weaviate, options.grpc, ollama=options.ollama, processes=options.processes, limits=limits
    )


async def _replay(made: world.World, passages: corpus.Corpus) -> None:
    size, overlap = made.limits.chunk_chars, made.limits.chunk_overlap
    await passages.replay(made.ledger, world.MODEL, world.TODAY, size=size, overlap=overlap)


def _cpu() -> float:
    """CPU seconds of this process; the simulators are others."""
    return time.process_time()


def _memory() -> dict[str, float]:
    """Peak memory of this process and what it occupies now, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {"peakMebibytes": round(peak, 1), "residentMebibytes": round(pages * resource.getpagesize() / 2**20, 1)}
