"""How fast documents come in: the whole ingest with replayed extraction, and beside it what the parts can do alone.

Beside wall-clock seconds stand CPU seconds of this process, which a busy machine changes little. The references are the
embedding alone, and Weaviate alone storing as many objects of the same size.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bench.kb import corpus, retrieval, usage, world
from crds.priority import Priority
from kb.vectors import model, weaviate

_EMBEDDED = 2000
_STORED = 1000


async def ingest(
    place: world.Place, passages: corpus.Corpus, *, writers: int, watched: Mapping[str, int]
) -> dict[str, Any]:
    """Chunks per second end to end, and the references."""
    async with world.opened(place) as made:
        texts = [request.content or "" for request in passages.requests.values()][:_EMBEDDED]
        started = time.perf_counter()
        vectors = await made.embedder.embed(texts, Priority.P3)
        embedding = len(texts) / (time.perf_counter() - started)
        storing = await _storing(place, texts[:_STORED], vectors[:_STORED])
        size, overlap = place.limits.chunk_chars, place.limits.chunk_overlap
        await passages.replay(made.ledger, world.MODEL, world.TODAY, size=size, overlap=overlap)
        before = usage.cpu()
        chunks, seconds = await retrieval.ingest(made, passages, writers=writers)
        used = usage.cpu() - before
        return {
            "cores": os.cpu_count(),
            "passages": len(passages.requests),
            "chunks": chunks,
            "seconds": round(seconds, 1),
            "chunksPerSecond": round(chunks / seconds, 1),
            "cpuMillisecondsPerChunk": round(1000 * used / chunks, 2),
            "reference": {
                "embeddedTextsPerSecond": round(embedding, 1),
                "storedObjectsPerSecond": round(storing, 1),
            },
            "counts": asdict(await made.graph.counts(corpus.OWNER)),
            "graphMebibytes": round((made.folder / "graph.sqlite").stat().st_size / 2**20, 1),
            "memory": usage.memory(watched),
        }


async def _storing(place: world.Place, texts: list[str], vectors: list[model.Vector]) -> float:
    """Objects a second that Weaviate takes from one caller, in a collection of its own."""
    store = weaviate.Store(place.weaviate, place.grpc, world.EMBED, index=uuid.uuid4().hex)
    rows = [(_chunk(text, number), vector) for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))]
    try:
        await store.put(corpus.OWNER, rows[:1], [])
        started = time.perf_counter()
        await store.put(corpus.OWNER, rows, [])
        return len(rows) / (time.perf_counter() - started)
    finally:
        await store.destroy()
        await store.close()


def _chunk(text: str, number: int) -> model.Chunk:
    name = str(uuid.UUID(int=number + 1))
    return model.Chunk(name, name, name, "wiki_page", "", "", text, 0, 0, len(text), "", ())
