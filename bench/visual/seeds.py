"""The questions of `bench.visual.questions` with many seeds, in memory: is the right page among the first five?

The pages are drawn by the real renderer and embedded by `tests.fakes.glyphs`; words are ranked by BM25, images by exact
MaxSim, and both are fused by the functions of `kb.visual.search`. So it differs from the search through Weaviate by the
index's approximation alone, and costs a fraction of it. `raw` is BM25 over the pages' own text with words as they are
written, without any of `kb`: what a plain full-text search finds. A seed gives other files and other questions.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.kb import inmemory
from bench.visual import questions
from crds.values import ContentRef
from kb import identity
from kb.files import pages as drawing
from kb.retrieve import sufficiency
from kb.visual import making, maxsim, model, search
from tests.fakes import glyphs

_TOP, _SHOWN = 5, 10
_TARGET = 0.75
_RAW = re.compile(r"\w+")
_BOUNDS = search.Bounds()
Key = tuple[str, int]
"""Source URN and number of a page."""


@dataclass(frozen=True)
class Ranked:
    """A question with what each way finds, the best first: `words` with the share of the question's words."""

    kind: str
    wanted: Key
    raw: Sequence[Key]
    words: Sequence[tuple[Key, float]]
    images: Sequence[Key]
    auto: Sequence[Key]
    """Images that `Auto` looks at."""


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Shares for each seed, and their mean and range."""
    found: dict[int, dict[str, Any]] = {}
    for seed in options.seeds:
        asked = await ranked(seed)
        found[seed] = {way: shares(asked, order) for way, order in WAYS.items()}
        sys.stderr.write(f"seed {seed}: {found[seed]}\n")
    summary = {}
    for way in WAYS:
        values = [one[way]["all"] for one in found.values()]
        kinds = {kind: round(statistics.fmean(one[way][kind] for one in found.values()), 3) for kind in questions.KINDS}
        mean = round(statistics.fmean(values), 3)
        summary[way] = {"mean": mean, "least": min(values), "most": max(values), **kinds}
    problems = [] if summary["Auto"]["mean"] >= _TARGET else [f"{summary['Auto']['mean']} of {_TARGET}"]
    return {
        "embedder": glyphs.Glyphs().name,
        "seeds": found,
        "summary": summary,
        "problems": problems,
        "problemCount": len(problems),
    }


async def ranked(seed: int) -> list[Ranked]:
    """What each way finds for the questions of a seed."""
    sent, asked = questions.made(seed)
    pages = {key: one for urn, raw in sent.items() for key, one in (await _pages(urn, raw)).items()}
    texts = {key: one.text for key, one in pages.items()}
    names = {f"{urn} {number}": (urn, number) for urn, number in pages}
    folded = inmemory.Index({name: texts[key] for name, key in names.items()})
    plain = Plain(texts)
    return [await _ranked(one, pages, texts, names, folded, plain) for one in asked]


async def _ranked(
    one: questions.Asked,
    pages: Mapping[Key, model.Indexed],
    texts: Mapping[Key, str],
    names: Mapping[str, Key],
    folded: inmemory.Index,
    plain: Plain,
) -> Ranked:
    scores: defaultdict[str, float] = defaultdict(float)
    folded.add(one.query, scores)
    first = sorted(scores, key=lambda name: (-scores[name], name))[:_SHOWN]
    words = [(names[name], sufficiency.coverage(one.query, [texts[names[name]]])) for name in first]
    words.sort(key=lambda pair: -pair[1])
    vectors = (await glyphs.Glyphs().embed_query(one.query)).vectors
    alike = {key: maxsim.score(vectors, page.vectors) for key, page in pages.items()}
    images = sorted(alike, key=lambda key: (-alike[key], key))
    told = any(share >= _BOUNDS.enough for _, share in words)
    auto = [key for key in images if pages[key].seen_only or not told]
    wanted = one.source_urn, one.page
    return Ranked(one.kind, wanted, plain.order(one.query), words, images[:_SHOWN], auto[:_SHOWN])


async def _pages(urn: str, raw: bytes) -> dict[Key, model.Indexed]:
    """All pages of a file, with all of their vectors."""
    source = model.Source(
        questions.OWNER, identity.document(questions.OWNER, urn), urn, urn, "application/pdf", "r", "w"
    )
    image = ContentRef(key="none", sha256="0" * 64, bytes=1)
    part = await drawing.Renderer(drawing.Limits()).lay(raw, 1, questions.MOST_PAGES)
    if part.problems or part.next <= part.count:
        raise RuntimeError(f"{urn}: not all pages were drawn: {part.problems}")
    found = {}
    for one in part.pages:
        embedded = await asyncio.to_thread(glyphs.page, one.image)
        place = source.page_id(one.number), source, one.number, image
        page = model.Page(*place, one.width, one.height, one.words, one.figures, "glyphs", embedded.vectors)
        found[urn, one.number] = making.indexed(page, making.Limits(factor=1), "glyphs")
    return found


class Plain:
    """BM25 (k1 1.2, b 0.75) over words in small letters."""

    def __init__(self, texts: Mapping[Key, str]) -> None:
        self._counts = {key: Counter(_RAW.findall(text.casefold())) for key, text in texts.items()}
        self._mean = statistics.fmean(one.total() for one in self._counts.values()) or 1.0
        self._having = Counter(word for one in self._counts.values() for word in one)

    def order(self, query: str) -> list[Key]:
        """The best pages that have a word of the query."""
        scores: defaultdict[Key, float] = defaultdict(float)
        for word in _RAW.findall(query.casefold()):
            rarity = math.log(1 + (len(self._counts) - self._having[word] + 0.5) / (self._having[word] + 0.5))
            for key, counts in self._counts.items():
                if often := counts[word]:
                    norm = often + 1.2 * (0.25 + 0.75 * counts.total() / self._mean)
                    scores[key] += rarity * often * 2.2 / norm
        return sorted(scores, key=lambda key: (-scores[key], key))[:_TOP]


def fuse(words: Sequence[tuple[Key, float]], images: Sequence[Key]) -> list[Key]:
    """As the search fuses both."""
    scores: defaultdict[Key, float] = defaultdict(float)
    for place, (key, share) in enumerate(words):
        scores[key] += search.by_words(place, share, _BOUNDS.enough)
    for place, key in enumerate(images):
        scores[key] += search.by_image(place)
    return sorted(scores, key=lambda key: (-scores[key], key))


WAYS: Mapping[str, Callable[[Ranked], Sequence[Key]]] = {
    "raw": lambda one: one.raw,
    "Words": lambda one: fuse(one.words, []),
    "Images": lambda one: fuse([], one.images),
    "Auto": lambda one: fuse(one.words, one.auto),
}


def shares(asked: Sequence[Ranked], order: Callable[[Ranked], Sequence[Key]]) -> dict[str, float]:
    """Of the questions whose page is among the first five, by kind and of all."""
    right = Counter(one.kind for one in asked if one.wanted in order(one)[:_TOP])
    each = Counter(one.kind for one in asked)
    return {kind: round(right[kind] / each[kind], 3) for kind in each} | {"all": round(right.total() / len(asked), 3)}
