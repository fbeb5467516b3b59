"""R@5 of fusion and of graph-weighted retrieval on public passages, through the real ingest and the real stores.

    python -m bench.kb.retrieval DATA --set musique_openie --weaviate http://HOST:8080 --grpc 50051 > result.json

DATA holds `<set>.corpus.jsonl.gz`, `<set>.questions.public.jsonl.gz` and, for some, `<set>.triples.jsonl.gz`.
Extractions are replayed; embeddings come from a simulated Ollama that runs all-MiniLM-L6-v2, or from `--ollama URL`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import structlog

from bench.kb import replay
from crds import scope
from crds.priority import Priority
from kb import metrics, wire
from kb.content import mongo
from kb.graph import sqlite as graph_sqlite
from kb.ingest import answers, draft, pipeline
from kb.ingest import sqlite as ledger
from kb.retrieve import rank, search
from kb.vectors import embedding, weaviate
from router import client as router_client
from tests.fakes.ollama import process

OWNER = scope.Scope(client_id="bench")
MODEL, EMBED = "qwen2.5:7b", "qwen3-embedding:8b"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [replay.parse(line) for line in lines]


def _request(passage: dict[str, Any]) -> wire.IngestRequest:
    return wire.IngestRequest(
        scope=OWNER,
        source_urn=f"bench:{passage['id']}",
        kind="wiki_page",
        title=passage["title"],
        content=passage["text"],
    )


async def _clock_free_ingest(pipe: pipeline.Pipeline, requests: Sequence[wire.IngestRequest], width: int) -> int:
    """Ingest all, `width` at once; returns the number of chunks."""
    waiting = list(requests)[::-1]
    chunks = 0

    async def worker() -> None:
        nonlocal chunks
        while waiting:
            reply = await pipe.ingest(waiting.pop(), Priority.P3)
            chunks += len(reply.chunk_ids)

    await asyncio.gather(*(worker() for _ in range(width)))
    return chunks


async def _ask(finder: search.Search, questions: Sequence[dict[str, Any]]) -> tuple[float, list[float]]:
    """Mean recall at 5 of the gold passages, and the seconds that each question took."""
    recalls, seconds = [], []
    for question in questions:
        asked = wire.RetrieveRequest(scope=OWNER, query=question["question"], max_results=20)
        started = time.perf_counter()
        reply = await finder.retrieve(asked, Priority.P0)
        seconds.append(time.perf_counter() - started)
        passages = dict.fromkeys(item.provenance.source_urn.removeprefix("bench:") for item in reply.items)
        top, gold = set(list(passages)[:5]), set(question["gold"])
        found = len(top & gold)
        recalls.append(float(found > 0) if question.get("any_of") else found / len(gold))
    return statistics.fmean(recalls), seconds


@contextlib.asynccontextmanager
async def _router(ollama: str | None) -> AsyncIterator[router_client.Client]:
    async with contextlib.AsyncExitStack() as stack:
        if ollama is None:
            fake = stack.enter_context(process.running(num_parallel=4))
            ollama = fake.url
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        yield router_client.Client(ollama, http)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Ingest, ask with each weighting, and clean up."""
    data, name = Path(options.data), options.set
    corpus = await asyncio.to_thread(_read, data / f"{name}.corpus.jsonl.gz")
    questions = await asyncio.to_thread(_read, data / f"{name}.questions.public.jsonl.gz")
    triples_file = data / f"{name}.triples.jsonl.gz"
    triples = {}
    if await asyncio.to_thread(triples_file.exists):
        triples = {row["passage"]: row for row in await asyncio.to_thread(_read, triples_file)}
    questions = [question for question in questions if question["gold"]][: options.questions]
    corpus = corpus[: options.passages] if options.passages else corpus
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    limits = pipeline.Limits(chunk_chars=options.chunk_chars, chunk_overlap=options.overlap)
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kb-bench-")))
        router = await stack.enter_async_context(_router(options.ollama))
        book = ledger.Ledger(folder / "ingest.sqlite", lambda: _NOW, max_answers=10_000_000)
        graph = graph_sqlite.Store(folder / "graph.sqlite")
        vectors = weaviate.Store(options.weaviate, options.grpc, EMBED, index=uuid.uuid4().hex)
        unused = mongo.Store("mongodb://127.0.0.1:1", "unused")
        for store in (book, graph, vectors, unused):
            stack.push_async_callback(store.close)
        await book.prepare()
        await graph.prepare()
        stack.push_async_callback(vectors.destroy)
        embedder = embedding.Embedder(router, EMBED, meters)
        pipe = pipeline.Pipeline(
            pipeline.Stores(book, graph, vectors, unused),
            answers.Answers(router, MODEL, book, meters),
            embedder,
            meters,
            lambda: _NOW + timedelta(hours=1),
            limits,
        )
        requests = [_request(passage) for passage in corpus]
        for passage, request in zip(corpus, requests, strict=True):
            made = draft.make(request, passage["text"], size=options.chunk_chars, overlap=options.overlap)
            row = triples.get(passage["id"])
            found = {
                ordinal: replay.from_triples(row["entities"], row["triples"])
                if row
                else replay.from_names(passage["title"], piece.chunk.text)
                for ordinal, piece in enumerate(made.pieces)
            }
            await replay.keep(
                book, MODEL, request, found, _NOW.date(), size=options.chunk_chars, overlap=options.overlap
            )
        started = time.perf_counter()
        chunks = await _clock_free_ingest(pipe, requests, options.writers)
        elapsed = time.perf_counter() - started
        counts = await graph.counts(OWNER)
        results: dict[str, Any] = {}
        for label, weights, breadth in _variants(options):
            finder = search.Search(graph, vectors, embedder, meters, weights, breadth)
            recall, seconds = await _ask(finder, questions)
            ordered = sorted(seconds)
            results[label] = {
                "recallAt5": round(100 * recall, 1),
                "p50Milliseconds": round(1000 * statistics.median(ordered), 1),
                "p95Milliseconds": round(1000 * ordered[int(0.95 * (len(ordered) - 1))], 1),
            }
            sys.stderr.write(f"{label}: {results[label]}\n")
        return {
            "set": name,
            "passages": len(corpus),
            "questions": len(questions),
            "graph": asdict(counts),
            "ingestChunksPerSecond": round(chunks / elapsed, 1),
            "results": results,
        }


def _variants(options: argparse.Namespace) -> list[tuple[str, rank.Weights, search.Breadth]]:
    default = rank.Weights(alpha=options.alpha)
    found = [
        ("fusion", default, search.Breadth(hops=0)),
        ("graph", default, search.Breadth()),
    ]
    for given in options.variant:
        weights = {key: float(value) for key, _, value in (pair.partition("=") for pair in given.split(","))}
        hops = int(weights.pop("hops", 2))
        found.append((given, rank.Weights(**{"alpha": options.alpha} | weights), search.Breadth(hops=hops)))
    return found


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", help="folder of the data sets")
    parser.add_argument("--set", default="musique_openie")
    parser.add_argument("--weaviate", required=True)
    parser.add_argument("--grpc", type=int, default=50051)
    parser.add_argument("--ollama", help="URL of an Ollama or router; without it a simulator is started")
    parser.add_argument("--passages", type=int, default=0, help="only the first N (0: all)")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--chunk-chars", type=int, default=4000)
    parser.add_argument("--overlap", type=int, default=200)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=0.65)
    parser.add_argument("--variant", action="append", default=[], help="weights to try, as name=value,name=value")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    json.dump(asyncio.run(run(parser.parse_args())), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
