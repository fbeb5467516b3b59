"""How well passages are found: recall and rank of the gold passages, for each method, in one run.

Every passage goes through the real ingest into the real stores; extractions are replayed. `dense` and `bm25` are what
the vector store finds alone, `fusion` both together. The others add one thing each to the one before: `sentences` the
best sentence of a chunk, `names` what the question names, `graph` the hops, which is the whole retrieval. All ask the
same questions of the same data, so that what each is worth is the difference of two lines.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from bench.kb import corpus, inmemory, world
from crds.priority import Priority
from kb import api, selection
from kb.graph import store as graph
from kb.retrieve import rank, search
from kb.vectors import store as vectors

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


class Searched(Protocol):
    """What can be asked: the real stores, or those of `bench.kb.inmemory`."""

    @property
    def vectors(self) -> vectors.Store:
        """Of all passages."""
        ...

    @property
    def graph(self) -> graph.Store:
        """Of all passages."""
        ...

    def finder(self, weights: rank.Weights, breadth: search.Breadth) -> search.Search:
        """A search with these weights."""
        ...


def methods(made: Searched, weights: rank.Weights) -> Mapping[str, Method]:
    """Name -> a question's passages, best first."""
    finder = made.finder(weights, search.Breadth())
    without_hops = replace(weights, hop=0.0)

    async def direct(question: str, alpha: float) -> list[str]:
        vector = await finder.embed(question, Priority.P0)
        found = await finder.direct(corpus.OWNER, question, vector, selection.ALL, limit=50, alpha=alpha)
        order = sorted(found.fused, key=lambda key: (-found.fused[key], key))
        chunks = await made.vectors.chunks(corpus.OWNER, order)
        return [chunks[key].source_urn for key in order]

    def whole(finder: search.Search) -> Method:
        async def ask(question: str) -> list[str]:
            asked = api.RetrieveRequest(scope=corpus.OWNER, query=question, max_results=_DEPTH)
            return [item.provenance.source_urn for item in (await finder.retrieve(asked, Priority.P0)).items]

        return ask

    return {
        "dense": lambda question: direct(question, 1.0),
        "bm25": lambda question: direct(question, 0.0),
        "fusion": lambda question: direct(question, weights.alpha),
        "sentences": whole(made.finder(replace(without_hops, named=0.0), search.Breadth(hops=1))),
        "names": whole(made.finder(without_hops, search.Breadth(hops=1))),
        "graph": whole(finder),
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


@dataclass(frozen=True)
class Asked:
    """A question with an answer in the corpus or without, and what `kb.retrieve.sufficiency` said of its evidence."""

    answerable: bool
    half: str
    coverage: float


def sufficiency(asked: Sequence[Asked]) -> dict[str, Any]:
    """How well the coverage tells questions without an answer, with the threshold that is best on half "choose".

    `separation`: how often a question with an answer is covered better than one without (50: not told apart).
    `precision`: of the questions called insufficient, those without an answer; `recall`: of those without an answer,
    the ones called so; `falseAlarms`: of those with an answer. All in percent.
    """

    def figures(half: str, threshold: float) -> dict[str, float]:
        of = [one for one in asked if one.half == half]
        known, unknown = ([one for one in of if one.answerable is there] for there in (True, False))
        right = sum(one.coverage < threshold for one in unknown)
        wrong = sum(one.coverage < threshold for one in known)
        pairs = [
            (one.coverage > other.coverage) + (one.coverage == other.coverage) / 2 for one in known for other in unknown
        ]
        return {
            "questions": len(known),
            "unanswerable": len(unknown),
            "separation": round(100 * statistics.fmean(pairs), 1) if pairs else 0.0,
            "precision": round(100 * right / max(right + wrong, 1), 1),
            "recall": round(100 * right / max(len(unknown), 1), 1),
            "falseAlarms": round(100 * wrong / max(len(known), 1), 1),
        }

    def harmonic(threshold: float) -> float:
        found = figures("choose", threshold)
        both = found["precision"] + found["recall"]
        return 2 * found["precision"] * found["recall"] / both if both else 0.0

    thresholds = sorted({one.coverage for one in asked})
    best = max(thresholds, key=lambda threshold: (harmonic(threshold), -threshold))
    return {"threshold": best, **{half: figures(half, best) for half in corpus.HALVES}}


async def _covered(finder: search.Search, questions: Sequence[corpus.Question]) -> list[Asked]:
    found: list[Asked] = []
    for question in questions:
        asked = api.RetrieveRequest(scope=corpus.OWNER, query=question.text, max_results=10)
        reply = await finder.retrieve(asked, Priority.P0)
        found.append(Asked(bool(question.gold), question.half, reply.coverage))
    return found


async def run(
    place: world.Place,
    passages: corpus.Corpus,
    questions: Sequence[corpus.Question],
    unknown: Sequence[corpus.Question],
    *,
    writers: int,
    weights: rank.Weights,
) -> dict[str, Any]:
    """Ingest what is not there yet, ask with each method, clean up. `unknown`: questions that nothing answers."""
    async with world.opened(place) as made:
        chunks, seconds = await fill(made, passages, writers=writers)
        sys.stderr.write(f"{chunks} chunks in {seconds:.0f} s\n")
        seconds = round(seconds, 1)
        return await _asked(made, passages, questions, unknown, weights, chunks=chunks, ingestSeconds=seconds)


async def run_in_memory(
    place: world.Place,
    passages: corpus.Corpus,
    questions: Sequence[corpus.Question],
    unknown: Sequence[corpus.Question],
    *,
    weights: rank.Weights,
) -> dict[str, Any]:
    """The same over `bench.kb.inmemory`: without Weaviate and without the ingest's pipeline."""
    size, overlap = place.limits.chunk_chars, place.limits.chunk_overlap
    async with inmemory.opened(place) as empty:
        made = await inmemory.fill(empty, passages, size=size, overlap=overlap)
        return await _asked(made, passages, questions, unknown, weights, chunks=len(made.vectors))


async def _asked(
    made: Searched,
    passages: corpus.Corpus,
    questions: Sequence[corpus.Question],
    unknown: Sequence[corpus.Question],
    weights: rank.Weights,
    **said: Any,
) -> dict[str, Any]:
    results: dict[str, dict[str, float]] = {}
    for name, method in methods(made, weights).items():
        results[name] = await score(method, questions)
        sys.stderr.write(f"{name}: {results[name]}\n")
    finder = made.finder(weights, search.Breadth())
    covered = await _covered(finder, [*questions, *unknown]) if unknown else []
    return {
        "passages": len(passages.requests),
        "questions": len(questions),
        "weights": asdict(weights),
        **said,
        "counts": asdict(await made.graph.counts(corpus.OWNER)),
        "methods": results,
        **({"sufficiency": sufficiency(covered)} if covered else {}),
    }
