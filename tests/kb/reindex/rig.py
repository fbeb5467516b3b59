"""A knowledge base between two embedding models: real pipeline and graph, the record in a real MongoDB, two indexes
in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kb import api, metrics, mongo
from kb.erasure import places
from kb.ingest import document_locks
from kb.reindex import copying, indexes, phase
from kb.vectors import embedding
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, world

BEFORE, MODEL = "qwen3-embedding:8b", "nomic-embed-text:latest"


@dataclass
class Rig:
    """One process; `reading` is its monotonic clock."""

    kb: world.ObservedState
    old: memory.Vectors
    new: memory.Vectors
    both: indexes.Indexes
    book: phase.Book
    view: phase.View
    place: places.Places
    meters: metrics.Metrics
    reading: list[float]

    def reindexer(self, *, drop: bool = True, writing: copying.Writing | None = None) -> copying.Reindexer:
        """That of a process that has just started."""
        hold = writing or self.kb.pipeline.writing
        return copying.Reindexer(self.book, self.view, self.both, self.kb.graph, hold, self.meters, drop=drop)

    async def record(self) -> api.Reindex:
        """What the book says of it."""
        found = await self.book.find()
        assert found is not None
        return found

    async def until(self, wanted: phase.Phase, reindexer: copying.Reindexer | None = None) -> None:
        """Step until that phase is in force."""
        works = reindexer or self.reindexer()
        for _ in range(50):
            # The questions that were asked before are answered.
            self.reading[0] += 60
            await self.view.look()
            await self.place.confirm(())
            if await self.view.look() is wanted:
                return
            await works.step(document_locks.Turn())
        raise AssertionError(f"it stays {self.view.phase}, not {wanted}: {await self.book.find()}")


@asynccontextmanager
async def rig(
    path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    database: mongo.Database,
    meters: metrics.Metrics,
    *,
    old: memory.Vectors | None = None,
    new: memory.Vectors | None = None,
    name: str = "here",
    record: str = "",
    models: tuple[str, str] = (BEFORE, MODEL),
    known_for: float | None = None,
) -> AsyncIterator[Rig]:
    """A process called `name`, over the record called `record`."""
    reading = [0.0]
    old, new = old or memory.Vectors(), new or memory.Vectors()
    place = places.Places(database, name, "Process", name, clock, lambda: reading[0])
    book = phase.Book(database, record, clock)
    view = phase.View(book, *models, place, lambda: reading[0], known_for=known_for)
    made = [
        indexes.Index(
            store,
            embedding.Embedder(router, model, meters),
            embedding.Embedder(router, model, meters, prefixed=False),
            f"{model}: ",
        )
        for store, model in zip((old, new), models, strict=True)
    ]
    both = indexes.Indexes(made[0], made[1], view)
    await view.look()
    async with world.opened(
        path,
        router,
        clock,
        meters,
        both,
        memory.Content(),
        documents=indexes.Documents(both),
        questions=indexes.Questions(both),
        chunk_chars=900,
    ) as kb:
        yield Rig(kb, old, new, both, book, view, place, meters, reading)


def holds(store: memory.Vectors) -> object:
    """All that an index holds, but for the vectors."""
    chunks = {key: (owner, chunk) for key, (owner, chunk, _) in store._chunks.items()}
    past = {key: (owner, chunk) for key, (owner, chunk, _) in store._past.items()}
    lines = {
        key: (owner, line.chunk_id, line.document_id, line.text)
        for kept in (store._sentences, store._past_sentences)
        for key, (owner, line, _) in kept.items()
    }
    return chunks, past, lines, dict(store._ends)
