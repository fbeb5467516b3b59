"""Retrieval without services: the real search and the real SQLite graph, over vectors and BM25 in this process.

It finds what Weaviate finds but for the approximation of its index, and needs no more than an embedding model. The
vector of a sentence is computed when a question first compares it, which most sentences of a large corpus never see. So
a corpus costs a fraction of an ingest: for choosing weights, and for the quality gate of `make test`.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import prometheus_client
from numpy.typing import NDArray

from bench.kb import corpus, world
from crds import scope
from crds.priority import Priority
from kb import metrics, selection
from kb.extract import draft
from kb.graph import sqlite as graph_sqlite
from kb.ingest import build
from kb.retrieve import rank, search
from kb.vectors import embedding, model
from router import client as router_client
from tests.kb import memory
from text import words

Unit = NDArray[np.float32]
"""A vector of length 1, or rows of such."""

# BM25 as Weaviate has it by default.
_K1, _B = 1.2, 0.75


class Index:
    """BM25 of one field, over an inverted index."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lengths: dict[str, int] = {}
        self._postings: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for key, text in texts.items():
            counted = Counter(words.terms(text))
            self._lengths[key] = counted.total()
            for term, often in counted.items():
                self._postings[term].append((key, often))
        self._mean = sum(self._lengths.values()) / max(len(self._lengths), 1) or 1.0

    def add(self, query: str, scores: defaultdict[str, float]) -> None:
        """Add what each text scores for the query."""
        for term, asked in Counter(words.asked(query)).items():
            having = self._postings.get(term, [])
            rarity = math.log(1 + (len(self._lengths) - len(having) + 0.5) / (len(having) + 0.5))
            for key, often in having:
                norm = often + _K1 * (1 - _B + _B * self._lengths[key] / self._mean)
                scores[key] += asked * rarity * often * (_K1 + 1) / norm


class Vectors(memory.Vectors):
    """The reading half of `kb.vectors.store.Store`, exact, for one owner whose data does not change."""

    def __init__(
        self, embedder: embedding.Embedder, chunks: Sequence[model.Chunk], sentences: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._embedder = embedder
        self._order = list(chunks)
        self._by_id = {chunk.id: chunk for chunk in chunks}
        self._texts = sentences
        self._rows: Unit = np.empty((0, 0), np.float32)
        self._lines: dict[str, Unit] = {}
        self._fields = [
            Index({chunk.id: chunk.heading for chunk in chunks}),
            Index({chunk.id: chunk.text for chunk in chunks}),
        ]

    def __len__(self) -> int:
        return len(self._order)

    async def embed(self) -> None:
        """Embed the chunks."""
        self._rows = await self._units([chunk.embedded_text() for chunk in self._order])

    async def dense(
        self, viewer: scope.Scope, vector: model.Vector, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        cosines = self._rows @ _unit(vector)
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [model.Hit(self._order[place].id, float(cosines[place])) for place in best]

    async def lexical(
        self, viewer: scope.Scope, query: str, *, limit: int, chosen: selection.Selection = selection.ALL
    ) -> list[model.Hit]:
        scores: defaultdict[str, float] = defaultdict(float)
        for index in self._fields:
            index.add(query, scores)
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]
        return [model.Hit(key, score) for key, score in best]

    async def chunks(
        self, viewer: scope.Scope, chunk_ids: Collection[str], *, history: bool = False
    ) -> dict[str, model.Chunk]:
        return {key: self._by_id[key] for key in chunk_ids if key in self._by_id}

    async def cosines(
        self, viewer: scope.Scope, vector: model.Vector, sentence_ids: Collection[str], *, history: bool = False
    ) -> dict[str, float]:
        wanted = [key for key in sentence_ids if key in self._texts]
        new = [key for key in wanted if key not in self._lines]
        if new:
            self._lines |= dict(zip(new, await self._units([self._texts[key] for key in new]), strict=True))
        asked = _unit(vector)
        return {key: float(self._lines[key] @ asked) for key in wanted}

    async def _units(self, texts: Sequence[str]) -> Unit:
        rows = np.array(await self._embedder.embed(texts, Priority.P3), np.float32)
        made: Unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return made


@dataclass(frozen=True)
class Empty:
    """A prepared graph without data, and what embeds."""

    graph: graph_sqlite.Store
    embedder: embedding.Embedder
    meters: metrics.Metrics


@dataclass(frozen=True)
class Corpus:
    """What can be searched: the graph of a file, and vectors."""

    graph: graph_sqlite.Store
    vectors: Vectors
    embedder: embedding.Embedder
    meters: metrics.Metrics

    def finder(self, weights: rank.Weights, breadth: search.Breadth) -> search.Search:
        """A search with these weights."""
        return search.Search(self.graph, self.vectors, self.embedder, self.meters, weights, breadth)


async def fill(empty: Empty, passages: corpus.Corpus, *, size: int = 4000, overlap: int = 200) -> Corpus:
    """Weave the passages with their replayed extractions into the graph, and embed the chunks."""
    chunks: list[model.Chunk] = []
    sentences: dict[str, str] = {}
    for request in passages.requests.values():
        made = draft.make(request, request.content or "", size=size, overlap=overlap)
        found = {piece.id: passages.extraction(request, piece.chunk.text) for piece in made.pieces}
        woven = build.build(request, made, found)
        await empty.graph.replace(request.scope, woven.patch)
        chunks += woven.chunks
        sentences |= {line.id: line.text for line in woven.sentences}
    vectors = Vectors(empty.embedder, chunks, sentences)
    await vectors.embed()
    return Corpus(empty.graph, vectors, empty.embedder, empty.meters)


@contextlib.asynccontextmanager
async def opened(place: world.Place) -> AsyncIterator[Empty]:
    """An empty graph in a folder of its own, and what `place` embeds with."""
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    async with contextlib.AsyncExitStack() as stack:
        beside = stack.enter_context(contextlib.ExitStack())
        folder = Path(beside.enter_context(tempfile.TemporaryDirectory(prefix="kb-bench-")))
        http = await stack.enter_async_context(httpx.AsyncClient(transport=router_client.transport()))
        urls = place.embedding(beside)
        embedder = embedding.Embedder(world.Backends(urls, http), world.EMBED, meters, parallel=2 * len(urls))
        graph = graph_sqlite.Store(folder / "graph.sqlite")
        stack.push_async_callback(graph.close)
        await graph.prepare()
        yield Empty(graph, embedder, meters)


def _unit(vector: model.Vector) -> Unit:
    row = np.array(vector, np.float32)
    made: Unit = row / (float(np.linalg.norm(row)) or 1.0)
    return made
