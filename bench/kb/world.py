"""The real parts of a knowledge base for a benchmark: pipeline, SQLite graph, Weaviate, real MiniLM embeddings."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import httpx
import prometheus_client

from crds.priority import Priority
from kb import metrics, mongo
from kb.content import mongo as content_mongo
from kb.extract import answers
from kb.graph import sqlite as graph_sqlite
from kb.ingest import document, pipeline
from kb.ingest import sqlite as ledger
from kb.retrieve import rank, search
from kb.vectors import embedding, weaviate
from router import client as router_client
from tests.fakes.ollama import process

MODEL, EMBED = "qwen2.5:7b", "qwen3-embedding:8b"
# The answers that are replayed are kept a moment before they are asked for.
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TODAY: date = (NOW + timedelta(hours=1)).date()


class Backends(router_client.Client):
    """Several servers taken in turn, as a router with as many backends of one model would."""

    def __init__(self, urls: Sequence[str], http: httpx.AsyncClient) -> None:
        super().__init__(urls[0], http)
        self._turns = itertools.cycle([router_client.Client(url, http) for url in urls])

    async def embed(self, model: str, texts: Sequence[str], priority: Priority) -> list[list[float]]:
        return await next(self._turns).embed(model, texts, priority)


@dataclass(frozen=True)
class ObservedState:
    """Everything, within reach; `folder` holds the SQLite files."""

    folder: Path
    limits: document.Limits
    ledger: ledger.Ledger
    graph: graph_sqlite.Store
    vectors: weaviate.Store
    embedder: embedding.Embedder
    pipeline: pipeline.Pipeline
    meters: metrics.Metrics

    def finished(self) -> set[str]:
        """Source URNs of the documents that are there whole."""
        with contextlib.closing(sqlite3.connect(self.folder / "ingest.sqlite")) as connection:
            return {row[0] for row in connection.execute("SELECT source_urn FROM intents WHERE state = 'Finished'")}

    def finder(self, weights: rank.Weights, breadth: search.Breadth) -> search.Search:
        """A search with these weights."""
        return search.Search(self.graph, self.vectors, self.embedder, self.meters, weights, breadth)


@dataclass(frozen=True)
class Place:
    """Where a world stands. Embeddings come from `ollama`, else from vectors remembered in the file `vectors`, else
    from as many simulated Ollamas as `processes` says, each with one thread. In a folder to `keep` it stays.
    """

    weaviate: str
    grpc: int
    limits: document.Limits
    ollama: str | None = None
    vectors: Path | None = None
    processes: int = 4
    keep: Path | None = None

    def embedding(self, stack: contextlib.ExitStack) -> list[str]:
        """URLs of what embeds, for as long as the stack is open."""
        if self.ollama:
            return [self.ollama]
        if self.vectors:
            return [stack.enter_context(_remembering(self.vectors))]
        return [stack.enter_context(process.running(num_parallel=4)).url for _ in range(self.processes)]


@contextlib.contextmanager
def _remembering(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.kb.remembered", str(path)]
    # Its standard input is a pipe of ours: however this process ends, the server ends too.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()


@contextlib.asynccontextmanager
async def opened(place: Place) -> AsyncIterator[ObservedState]:
    """A world: of its own, or the one that stands in the folder to keep."""
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    async with contextlib.AsyncExitStack() as stack:
        beside = stack.enter_context(contextlib.ExitStack())
        folder = place.keep or Path(beside.enter_context(tempfile.TemporaryDirectory(prefix="kb-bench-")))
        folder.mkdir(parents=True, exist_ok=True)
        urls = place.embedding(beside)
        http = await stack.enter_async_context(httpx.AsyncClient(transport=router_client.transport()))
        router = Backends(urls, http)
        book = ledger.Ledger(folder / "ingest.sqlite", lambda: NOW, max_answers=10_000_000)
        graph = graph_sqlite.Store(folder / "graph.sqlite")
        index = str(folder.resolve()) if place.keep else uuid.uuid4().hex
        vectors = weaviate.Store(place.weaviate, place.grpc, EMBED, index=index)
        # Passages carry their text with them; nothing is stored as content.
        absent = mongo.Database("mongodb://127.0.0.1:1", "unused")
        unused = content_mongo.Store(absent)
        for store in (book, graph, vectors, absent):
            stack.push_async_callback(store.close)
        await book.prepare()
        await graph.prepare()
        if not place.keep:
            stack.push_async_callback(vectors.destroy)
        embedder = embedding.Embedder(router, EMBED, meters, parallel=2 * len(urls))
        asked = answers.Answers(router, MODEL, book, meters)
        stores = document.Stores(book, book, graph, vectors, unused)
        pipe = pipeline.Pipeline(stores, asked, embedder, meters, lambda: NOW + timedelta(hours=1), place.limits)
        yield ObservedState(folder, place.limits, book, graph, vectors, embedder, pipe, meters)
