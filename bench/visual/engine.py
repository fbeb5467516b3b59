"""Recall, latency and bytes of the index of pages, with synthetic pages.

A page has `TOKENS` vectors: `_WORDS` words out of a vocabulary that all pages share, each on several patches with noise
of its own, and patches of empty paper. A question has words of one page, with noise, and some of others. What is exact
is MaxSim over all vectors of all pages, as they were before they were pooled or packed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import time
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import prometheus_client

from bench.kb import usage
from crds import scope
from crds.values import ContentRef
from kb import errors, identity, metrics, mongo
from kb.visual import book, making, maxsim, model, search
from kb.visual.weaviate import schema, store

TOKENS, DIMENSION = 700, 128
_WORDS, _VOCABULARY, _EMPTY = 90, 4000, 0.35
_NOISE, _ASKED = 0.06, 12
_BATCH = 4
_ATTEMPTS = 5
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
OWNER = scope.Scope(client_id="bench")
# Name -> (pool factor, encoding).
SIDES: dict[str, tuple[int, Literal["", "muvera"]]] = {
    "pooled": (3, ""),
    "pooled-muvera": (3, "muvera"),
    "muvera": (1, "muvera"),
    "plain": (1, ""),
}


class World:
    """Pages and questions, the same for the same seed; pages are made when they are asked for."""

    def __init__(self, pages: int, seed: int = 1) -> None:
        self.pages = pages
        self._seed = seed
        self._words = maxsim.unit(np.random.default_rng(seed).normal(size=(_VOCABULARY, DIMENSION)))
        self._paper = maxsim.unit(np.random.default_rng(seed + 1).normal(size=(8, DIMENSION)))

    def page(self, number: int) -> model.Array:
        """[TOKENS, DIMENSION]."""
        random = np.random.default_rng([self._seed, number])
        words = self.words(number)
        shown = np.where(
            random.random((TOKENS, 1)) < _EMPTY,
            self._paper[random.integers(0, len(self._paper), TOKENS)],
            # Patches of one word stand beside each other.
            self._words[np.sort(random.choice(words, TOKENS))],
        )
        return maxsim.unit(shown + _NOISE * random.normal(size=shown.shape))

    def words(self, number: int) -> Any:
        """Which words a page has; frequent ones are on many pages."""
        random = np.random.default_rng([self._seed, number, 1])
        return np.unique((_VOCABULARY * random.random(_WORDS) ** 2).astype(int))

    def question(self, number: int) -> model.Array:
        """[_ASKED, DIMENSION], most of them words of one page."""
        random = np.random.default_rng([self._seed, number, 2])
        words = random.choice(self.words(int(random.integers(self.pages))), _ASKED - 3, replace=False)
        asked = self._words[np.concatenate([words, random.integers(0, _VOCABULARY, 3)])]
        return maxsim.unit(asked + _NOISE * random.normal(size=asked.shape))


def exact(world: World, questions: list[model.Array], best: int = 10) -> list[list[int]]:
    """The best pages of each question by MaxSim over all vectors."""
    scores = np.zeros((len(questions), world.pages), np.float32)
    together = np.concatenate(questions)
    for number in range(world.pages):
        likeness = (together @ world.page(number).T).max(axis=1)
        scores[:, number] = likeness.reshape(len(questions), _ASKED).sum(axis=1)
    return [[int(at) for at in row] for row in np.argsort(-scores, axis=1, kind="stable")[:, :best]]


def _batches(world: World) -> Iterator[list[int]]:
    for start in range(0, world.pages, _BATCH):
        yield list(range(start, min(start + _BATCH, world.pages)))


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """All sides, one after the other, each in a collection of its own that goes at the end."""
    world = World(options.pages)
    questions = [world.question(number) for number in range(options.questions)]
    begun = time.perf_counter()
    wanted = await asyncio.to_thread(exact, world, questions)
    found: dict[str, Any] = {
        "pages": options.pages,
        "vectorsOfAPage": TOKENS,
        "dimension": DIMENSION,
        "questions": options.questions,
        "exactSeconds": round(time.perf_counter() - begun, 1),
        # The graph is read at random, which takes a quarter less with `always`.
        "hugePages": _huge_pages(),
        "sides": {},
    }
    for name in options.sides:
        found["sides"][name] = await _side(options, world, questions, wanted, name)
        sys.stderr.write(f"{name}: {found['sides'][name]}\n")
    sides = found["sides"]
    if "pooled" in sides and "plain" in sides:
        share = sides["pooled"]["vectorBytes"] / sides["plain"]["vectorBytes"]
        found["pooledOfUnpooledVectors"] = round(share, 3)
        for field in ("indexBytes", "diskBytes"):
            if sides["plain"].get(field):
                found[f"pooledOfUnpooled{field[0].upper()}{field[1:]}"] = round(
                    sides["pooled"][field] / sides["plain"][field], 3
                )
    return found


async def _side(
    options: argparse.Namespace, world: World, questions: list[model.Array], wanted: list[list[int]], side: str
) -> dict[str, Any]:
    factor, encoding = SIDES[side]
    name = f"bench-{f'{options.keep}-{side}' if options.keep else uuid.uuid4().hex[:8]}"
    layout = schema.Layout(encoding, options.ef)
    index = store.Store(options.weaviate, options.grpc, name, index=name, layout=layout)
    database = mongo.Database(options.mongodb, name.replace("-", "_")) if options.mongodb else None
    records = book.Book(database, _now) if database is not None else None
    source = model.Source(OWNER, identity.document(OWNER, name), name, name, "application/pdf", "r", name)
    ids = {source.page_id(number): number for number in range(world.pages)}
    memory = usage.memory({"weaviate": options.watch})["weaviate"] if options.watch else {}
    disk = _size(options.data)
    try:
        seconds, stored = await _fill(world, source, factor, index, records)
        made: dict[str, Any] = {
            "pagesPerSecond": round(world.pages / seconds, 1),
            "load": round(os.getloadavg()[0], 1),
            "vectorBytes": stored,
            "encodedBytes": world.pages * 10 * 2**4 * 16 * 4 if encoding else 0,
        }
        if options.data:
            made["diskBytes"] = _size(options.data) - disk
        if options.watch:
            now = usage.memory({"weaviate": options.watch})["weaviate"]
            made["weaviateMebibytes"] = {"before": memory["residentMebibytes"], "after": now["residentMebibytes"]}
            made["indexBytes"] = int((now["residentMebibytes"] - memory["residentMebibytes"]) * (1 << 20))
        asked = list(zip(questions, wanted, strict=True))
        made["asked"] = [
            await _asked(name, ids, asked, index, records, candidates, budget)
            for candidates, budget in itertools.product(options.candidates, options.budget)
        ]
        return made
    finally:
        if not options.keep:
            await index.destroy()
            if database is not None:
                await database["kb_pages"].drop()
                await database["kb_page_works"].drop()
        await index.close()
        if database is not None:
            await database.close()


async def _fill(
    world: World, source: model.Source, factor: int, index: store.Store, records: book.Book | None
) -> tuple[float, int]:
    """Put the pages that are not there yet; the seconds and the bytes of their vectors in the index."""
    begun, stored = time.perf_counter(), 0
    # Of a kept collection a part may be there.
    there = await index.held(OWNER.client_id, [source.page_id(number) for number in range(world.pages)])
    for numbers in _batches(world):
        pages = [_page(source, number, world.page(number)) for number in numbers]
        if there.issuperset(one.id for one in pages):
            stored += sum(4 * max(TOKENS // factor, 1) * DIMENSION for _ in pages)
            continue
        indexed = [making.indexed(one, making.Limits(factor=factor), one.model) for one in pages]
        stored += sum(one.vectors.nbytes for one in indexed)
        if records is not None:
            await records.put(pages)
        await _put(index, indexed)
        if numbers[0] % (20 * _BATCH) == 0:
            rate = numbers[-1] / (time.perf_counter() - begun)
            sys.stderr.write(f"{numbers[-1] + 1} pages, {rate:.1f} a second, load {os.getloadavg()[0]:.1f}\n")
    return time.perf_counter() - begun, stored


async def _put(index: store.Store, pages: list[model.Indexed]) -> None:
    """A busy machine takes longer than a call may; what was written is written again."""
    for attempt in range(_ATTEMPTS):
        try:
            await index.put(pages)
        except errors.Away as error:
            if attempt == _ATTEMPTS - 1:
                raise
            sys.stderr.write(f"{error.message}\n")
        else:
            return


async def _asked(
    name: str,
    ids: dict[str, int],
    asked: list[tuple[model.Array, list[int]]],
    index: store.Store,
    records: book.Book | None,
    candidates: int,
    budget: int,
) -> dict[str, Any]:
    """Recall and latency of all questions, with so many candidates of the index and MiB of vectors that order them."""
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    # Neither documents nor images: what is measured is the way from vectors to an order of pages.
    nothing: Any = None
    # Of the model only its name is asked for: vectors of another one are not compared.
    named: Any = types.SimpleNamespace(name=name)
    bounds = search.Bounds(candidates=candidates, budget=budget << 20)
    finder = search.Search(records or nothing, index, nothing, nothing, nothing, named, meters, bounds)
    plain: list[float] = []
    whole: list[float] = []
    right, right_ordered, reached = 0, 0, 0
    for at, (question, best) in enumerate([*asked[:5], *asked]):
        started = time.perf_counter()
        hits = await index.by_vectors(OWNER, question, limit=candidates)
        between = time.perf_counter()
        scores = (await finder.exact(OWNER, question, hits))[0] if records is not None else {}
        if records is not None and not scores:
            raise RuntimeError("no page that the index found has vectors beside it")
        ended = time.perf_counter()
        if at < 5:
            continue  # the first ones warm it up
        ordered = sorted(hits, key=lambda hit: -scores.get(hit.page_id, hit.score))
        right += len({ids[hit.page_id] for hit in hits[:10]} & set(best))
        right_ordered += len({ids[hit.page_id] for hit in ordered[:10]} & set(best))
        reached += len({ids[hit.page_id] for hit in hits} & set(best))
        plain.append(between - started)
        whole.append(ended - started)
    return {
        "candidates": candidates,
        "budgetMebibytes": budget,
        "recallAt10": round(right_ordered / (10 * len(asked)), 4),
        "recallAt10OfTheIndexAlone": round(right / (10 * len(asked)), 4),
        "amongCandidates": round(reached / (10 * len(asked)), 4),
        "milliseconds": {"p50": _at(whole, 0.5), "p95": _at(whole, 0.95)},
        "millisecondsOfTheIndexAlone": {"p50": _at(plain, 0.5), "p95": _at(plain, 0.95)},
        "load": round(os.getloadavg()[0], 1),
    }


def _page(source: model.Source, number: int, vectors: model.Array) -> model.Page:
    image = ContentRef(key="none", sha256="0" * 64, bytes=1)
    return model.Page(source.page_id(number), source, number, image, 612, 792, (), True, source.title, vectors)


def _at(seconds: list[float], share: float) -> float:
    return round(1000 * sorted(seconds)[min(int(share * len(seconds)), len(seconds) - 1)], 1)


def _huge_pages() -> str:
    return _HUGE_PAGES.read_text(encoding="utf-8").strip() if _HUGE_PAGES.exists() else ""


def _size(folder: Path | None) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) if folder else 0


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)
