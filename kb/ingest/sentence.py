"""Split a chunk into sentences, verbatim. Pure.

The sentence is the unit of evidence: it proves an edge to a person and ranks a hop (kb page, measured table). Lines are
sentences of their own where they look like headers, list items, diff lines or log lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 600
_STOP = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9À-Þ])|\n+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|No|Inc|Ltd|Co|resp|approx)|\b[A-Z])\.$"
)


@dataclass(frozen=True)
class Sentence:
    """`text == chunk[start:end]`."""

    text: str
    start: int
    end: int


def split(chunk: str) -> list[Sentence]:
    """The sentences in order. None is longer than `MAX_CHARS`; longer runs are cut between words where possible."""
    sentences: list[Sentence] = []
    start = 0
    for stop in _STOP.finditer(chunk):
        if "\n" not in stop.group() and _ABBREVIATION.search(chunk, start, stop.start()):
            continue
        _append(sentences, chunk, start, stop.start())
        start = stop.end()
    _append(sentences, chunk, start, len(chunk))
    return sentences


def _append(sentences: list[Sentence], chunk: str, start: int, end: int) -> None:
    while start < end and chunk[start].isspace():
        start += 1
    while end > start and chunk[end - 1].isspace():
        end -= 1
    while end - start > MAX_CHARS:
        space = chunk.rfind(" ", start + MAX_CHARS // 2, start + MAX_CHARS)
        cut = space if space > start else start + MAX_CHARS
        sentences.append(Sentence(chunk[start:cut], start, cut))
        start = cut
        while start < end and chunk[start].isspace():
            start += 1
    if start < end:
        sentences.append(Sentence(chunk[start:end], start, end))
