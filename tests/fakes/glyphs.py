"""A page embedder without weights: the words of an image are found, and each is a random projection of its shape.

It stands in for a visual model in tests and benchmarks: it looks at nothing but pixels, so that a scan is found as well
as a page with text, and a question's words, drawn by PDFium, meet the patches that show them. It knows one typeface and
no meaning: what it finds says nothing about the quality of a real model.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kb.visual import maxsim, model
from tests.kb.files import making

DIMENSION = 128
ROWS, COLUMNS = 44, 34
_HEIGHT, _WIDTH = 16, 72
_INK = 150
# Of what asks and what joins, each page has as much.
_GRAMMAR = frozenset(
    ("what", "which", "when", "where", "who", "does", "is", "are", "the", "of", "in", "and", "for", "cost")
)
_Bitmap = npt.NDArray[np.float32]


class Glyphs:
    """Implements `kb.visual.embedder.Port`. `calls` counts the images and questions that were embedded."""

    def __init__(self, name: str = "glyphs-128") -> None:
        self._name = name
        self.pages = 0
        self.questions = 0
        self.away: Exception | None = None

    @property
    def name(self) -> str:
        return self._name

    async def embed_pages(self, images: Sequence[bytes]) -> list[model.Embedded]:
        if self.away is not None:
            raise self.away
        self.pages += len(images)
        return [page(one) for one in images]

    async def embed_query(self, text: str) -> model.Query:
        if self.away is not None:
            raise self.away
        self.questions += 1
        said = text.replace("?", " ").replace(",", " ").split()
        words = [word for word in said if len(word) > 1 and word.lower() not in _GRAMMAR] or said
        return model.Query(np.stack([_word(word) for word in words]), tuple(words))


def page(png: bytes) -> model.Embedded:
    """ROWS x COLUMNS patches, each with the shapes of the words whose middle it has; an empty one is like nothing."""
    ink = _pixels(png) < _INK
    height, width = ink.shape
    ink = _without_rules(ink)
    made = np.random.default_rng(7).normal(size=(ROWS * COLUMNS, DIMENSION)).astype(np.float32) * 1e-3
    for top, bottom, left, right in _words(ink, 0, height, 0, width):
        row = min((top + bottom) * ROWS // (2 * height), ROWS - 1)
        column = min((left + right) * COLUMNS // (2 * width), COLUMNS - 1)
        made[row * COLUMNS + column] += _shape(ink[top:bottom, left:right])
    return model.Embedded(maxsim.unit(made), model.Grid(ROWS, COLUMNS))


@functools.cache
def _word(word: str) -> model.Array:
    import pypdfium2

    safe = word.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    raw = making.pages(f"BT /F1 20 Tf 20 20 Td ({safe}) Tj ET", width=60 + 16 * len(word), height=60)
    bitmap = pypdfium2.PdfDocument(raw)[0].render(scale=150 / 72, grayscale=True)
    ink = np.frombuffer(bitmap.buffer, np.uint8).reshape(bitmap.height, bitmap.stride)[:, : bitmap.width] < _INK
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(rows):
        return np.zeros(DIMENSION, np.float32)
    return _shape(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


def _shape(ink: npt.NDArray[np.bool_]) -> model.Array:
    """A word's bitmap in one size, and how long it is for its height, projected at random."""
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    small = _resized(_resized(ink.astype(np.float32), _HEIGHT).T, _WIDTH).T
    small = small - small.mean()
    long = ink.shape[1] / ink.shape[0]
    bins = np.exp(-((np.linspace(0, 12, 24) - long) ** 2) / 0.5).astype(np.float32)
    flat = np.concatenate([small.ravel() / (np.linalg.norm(small) or 1), 0.7 * bins / (np.linalg.norm(bins) or 1)])
    return maxsim.unit(flat @ _projection(len(flat)))


@functools.cache
def _projection(size: int) -> model.Array:
    return np.random.default_rng(11).normal(size=(size, DIMENSION)).astype(np.float32)


def _resized(bitmap: _Bitmap, rows: int) -> _Bitmap:
    """Means over equal parts of the rows."""
    total = np.concatenate([np.zeros((1, bitmap.shape[1]), np.float32), np.cumsum(bitmap, axis=0)])
    edges = np.linspace(0, bitmap.shape[0], rows + 1)
    low = np.minimum(edges.astype(int), bitmap.shape[0] - 1)
    part = (edges - low)[:, None]
    at = total[low] * (1 - part) + total[low + 1] * part
    made: _Bitmap = np.diff(at, axis=0) * (rows / bitmap.shape[0])
    return made


def _words(
    ink: npt.NDArray[np.bool_], top: int, bottom: int, left: int, right: int, rows_next: bool = False
) -> Iterator[tuple[int, int, int, int]]:
    """Words as (top, bottom, left, right): gutters first, then lines, then the spaces of a line."""
    if bottom <= top or right <= left:
        return
    part = ink[top:bottom, left:right]
    if not rows_next:
        for begin, end in _runs(_any(part, 0), 24):
            yield from _words(ink, top, bottom, left + begin, left + end, True)
        return
    lines = list(_runs(_any(part, 1), 2))
    for begin, end in lines:
        line = part[begin:end]
        if len(lines) > 1 and len(list(_runs(_any(line, 0), 24))) > 1:
            yield from _words(ink, top + begin, top + end, left, right)
            continue
        for start, stop in _runs(_any(line, 0), max(3, round(0.2 * (end - begin)))):
            word = np.flatnonzero(line[:, start:stop].any(axis=1))
            if 5 <= word[-1] - word[0] + 1 <= 60 and stop - start > 3:
                yield top + begin + int(word[0]), top + begin + int(word[-1]) + 1, left + start, left + stop


def _any(ink: npt.NDArray[np.bool_], axis: int) -> npt.NDArray[np.bool_]:
    return np.asarray(ink.any(axis=axis))


def _runs(filled: npt.NDArray[np.bool_], gap: int) -> Iterator[tuple[int, int]]:
    """Where it is filled, runs with gaps smaller than `gap` as one."""
    places = np.flatnonzero(filled)
    if not len(places):
        return
    breaks = np.flatnonzero(np.diff(places) > gap)
    starts, ends = [0, *(breaks + 1)], [*breaks, len(places) - 1]
    for start, end in zip(starts, ends, strict=True):
        yield int(places[start]), int(places[end]) + 1


def _without_rules(ink: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Without the lines of tables: rows and columns of pixels that are mostly ink."""
    made = ink.copy()
    made[ink.mean(axis=1) > 0.4, :] = False
    made[:, ink.mean(axis=0) > 0.25] = False
    return made


def _pixels(png: bytes) -> npt.NDArray[np.uint8]:
    """Grey values; of a PNG as `kb.files.rendering` draws it, of any other image by Pillow."""
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    if png.startswith(b"\x89PNG") and png[24:29] == b"\x08\x00\x00\x00\x00" and png[37:41] == b"IDAT":
        size = int.from_bytes(png[33:37], "big")
        lines = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8).reshape(height, width + 1)
        if not lines[:, 0].any():
            return lines[:, 1:]
    import io

    from PIL import Image

    opened: Any = Image.open(io.BytesIO(png)).convert("L")
    return np.asarray(opened)
