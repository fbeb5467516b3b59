"""Split a chunk into sentences, verbatim, in any script. Pure.

The sentence is the unit of evidence: it proves an edge to a person and ranks a hop (kb page, measured table). Lines are
sentences of their own where they look like headers, list items, diff lines or log lines; within a line sentencex says
where a sentence ends. A chunk's language is not known, so each script has one language's abbreviations, and what these
rules cannot know is put together again: a sentence that is too long says less, one that is cut proves nothing.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import regex
import sentencex

MAX_CHARS = 600
_LINE = regex.compile(r"[^\n]+")
# Whose rules are used where most letters are of a script; for all others those of English.
_LANGUAGES = {
    "cyrillic": ("ru", regex.compile(r"\p{Cyrillic}")),
    "greek": ("el", regex.compile(r"\p{Greek}")),
    "arabic": ("ar", regex.compile(r"\p{Arabic}")),
    "devanagari": ("hi", regex.compile(r"\p{Devanagari}")),
    "armenian": ("hy", regex.compile(r"\p{Armenian}")),
}
_LATIN = regex.compile(r"\p{Latin}")
# An abbreviation or an initial ("Např.", "z.B.", "J.") at the end: what follows belongs to it.
_UNFINISHED = regex.compile(r"(?:(?<!\w)\p{L}|\b\p{L}{1,4}\.\p{L}{1,3}|^\p{L}{1,4})\.\s*$")
# So does what begins with a small letter, and a number or a German month after the number of a day.
_GOES_ON = regex.compile(
    r"[\"'(\[„“«]*\p{Ll}|(?<=\b\d{1,2}\.\s)(?:\d|(?:Jan|Jän|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\p{Ll}*)"
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
    language = _language(chunk)
    for line in _LINE.finditer(chunk):
        cuts = [0, *_stops(line.group(), language), len(line.group())]
        for start, end in itertools.pairwise(cuts):
            _append(sentences, chunk, line.start() + start, line.start() + end)
    return sentences


def _language(chunk: str) -> str:
    sample = chunk[:1000]
    most, language = len(_LATIN.findall(sample)), "en"
    for candidate, letter in _LANGUAGES.values():
        count = len(letter.findall(sample))
        if count > most:
            most, language = count, candidate
    return language


def _stops(line: str, language: str) -> Iterator[int]:
    """Where a line is cut."""
    found = sentencex.get_sentence_boundaries(language, line)
    start = 0
    for one, following in itertools.pairwise(found):
        stop = one["end_index"]
        said = line[start:stop]
        if said.isspace() or (said.rstrip().endswith(".") and (_UNFINISHED.search(said) or _GOES_ON.match(line, stop))):
            continue
        if following["start_index"] == stop:
            start = stop
            yield stop


def _append(sentences: list[Sentence], chunk: str, start: int, end: int) -> None:
    while start < end and chunk[start].isspace():
        start += 1
    while end > start and chunk[end - 1].isspace():
        end -= 1
    while end - start > MAX_CHARS:
        space = chunk.rfind(" ", start + MAX_CHARS // 2, start + MAX_CHARS)
        cut = space if space > start else _between_characters(chunk, start + MAX_CHARS)
        sentences.append(Sentence(chunk[start:cut], start, cut))
        start = cut
        while start < end and chunk[start].isspace():
            start += 1
    if start < end:
        sentences.append(Sentence(chunk[start:end], start, end))


def _between_characters(chunk: str, at: int) -> int:
    """The last place at or before `at` where no mark is parted from its letter, looked for a little way only."""
    for cut in range(at, at - 16, -1):
        if unicodedata.category(chunk[cut])[0] != "M":
            return cut
    return at
