"""Cut a document into chunks along its paragraphs. Pure.

Blueprint section 9: one chunker, paragraph-aware, 4000 characters with 200 of overlap by default. A chunk is always a
verbatim slice of the document, so that a citation can be shown in its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kb import paging

# Where to cut, best first: between paragraphs, between lines, after a sentence (of Indian and East Asian scripts too),
# between words.
_BREAKS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?;\u0964])\s+|(?<=[\u3002\uff01\uff1f\uff1b])\s*"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True)
class Chunk:
    """`text == document[start:end]`; offsets count characters. `pages`: where in `text` the pages of a file begin."""

    text: str
    start: int
    end: int
    pages: paging.Starts = ()

    def paged(self, starts: paging.Starts) -> Chunk:
        """The same, in a document whose pages begin there."""
        return replace(self, pages=paging.within(starts, self.start, self.end))


def split(document: str, *, size: int = 4000, overlap: int = 200) -> list[Chunk]:
    """Chunks of at most `size` characters that cover every character that is not white space.

    Neighbours share at most `overlap` characters, starting at a word. White space at the ends of a chunk is left out.
    """
    if not 0 <= overlap < size // 2:
        raise ValueError(f"overlap must be at least 0 and under half of size, not {overlap} of {size}")
    chunks: list[Chunk] = []
    start = _skip(document, 0)
    while start < len(document):
        end = _cut(document, start, size)
        text = document[start:end].rstrip()
        chunks.append(Chunk(text, start, start + len(text)))
        if not document[end:].strip():
            break
        following = _skip(document, end)
        start = max(_word(document, following - overlap, following), start + 1) if overlap else following
    return chunks


def _cut(document: str, start: int, size: int) -> int:
    """The best place to end a chunk that begins at `start`: the last break in its second half."""
    limit = start + size
    if limit >= len(document):
        return len(document)
    for pattern in _BREAKS:
        ends = [match.start() for match in pattern.finditer(document, start + size // 2, limit)]
        if ends:
            return ends[-1]
    return limit


def _word(document: str, at: int, latest: int) -> int:
    """The first beginning of a word at or after `at`, or `latest`."""
    for position in range(max(at, 0), latest):
        if not document[position].isspace() and (position == 0 or document[position - 1].isspace()):
            return position
    return latest


def _skip(document: str, at: int) -> int:
    while at < len(document) and document[at].isspace():
        at += 1
    return at
