"""Images of pages as `kb.files.rendering` draws them, PNGs with one byte for a pixel: cut, and made smaller. Pure.

The image of the service has no library that opens images; what comes from outside stays as it is.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from kb.files import png
from kb.visual import evidence

_MOST_PIXELS = 50_000_000
_COLUMNS = 256
Pixels = npt.NDArray[np.uint8]


def cut(image: bytes, where: evidence.Rectangle) -> bytes:
    """A region of a page's image; b"" of other images."""
    pixels = _pixels(image)
    if pixels is None:
        return b""
    height, width = pixels.shape
    left, top = where.left * width // evidence.UNIT, where.top * height // evidence.UNIT
    right = max(where.right * width // evidence.UNIT, left + 1)
    bottom = max(where.bottom * height // evidence.UNIT, top + 1)
    return _encoded(pixels[top : min(bottom, height), left : min(right, width)])


def scaled(image: bytes, most: int) -> bytes:
    """A page's image with `most` pixels at most, each the mean of those that it stands for; others, and smaller ones,
    as they are. `most` 0: no limit."""
    pixels = _pixels(image) if most else None
    if pixels is None or pixels.size <= most:
        return image
    height, width = pixels.shape
    scale = math.sqrt(most / pixels.size)
    made = _means(pixels, max(1, math.floor(height * scale)))
    made = _means(made.T, max(1, math.floor(width * scale))).T
    return _encoded(np.rint(made).astype(np.uint8))


def _means(rows: npt.NDArray[Any], count: int) -> npt.NDArray[np.float32]:
    """Rows as `count` means over equal parts of them, some columns at a time: the sums take eight bytes for a pixel."""
    pieces = [_means_of(rows[:, at : at + _COLUMNS], count) for at in range(0, rows.shape[1], _COLUMNS)]
    return np.concatenate(pieces, axis=1)


def _means_of(rows: npt.NDArray[Any], count: int) -> npt.NDArray[np.float32]:
    total = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0, dtype=np.float64)])
    edges = np.linspace(0, len(rows), count + 1)
    low = np.minimum(edges.astype(int), len(rows) - 1)
    part = (edges - low)[:, None]
    at = total[low] * (1 - part) + total[low + 1] * part
    made: npt.NDArray[np.float32] = (np.diff(at, axis=0) * (count / len(rows))).astype(np.float32)
    return made


def _pixels(image: bytes) -> Pixels | None:
    """[height, width]; None of what was not drawn here."""
    head, data = b"", list[bytes]()
    at = len(png.SIGNATURE)
    while at + 12 <= len(image):
        size, kind = struct.unpack(">I4s", image[at : at + 8])
        if kind == b"IHDR":
            head = image[at + 8 : at + 8 + size]
        elif kind == b"IDAT":
            data.append(image[at + 8 : at + 8 + size])
        at += 12 + size
    if not image.startswith(png.SIGNATURE) or len(head) != 13:
        return None
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", head)
    if (depth, colour, interlaced) != (8, 0, 0) or not 0 < width * height <= _MOST_PIXELS:
        return None
    try:
        lines = zlib.decompressobj().decompress(b"".join(data), (width + 1) * height)
    except zlib.error:
        return None
    if len(lines) != (width + 1) * height:
        return None
    rows = np.frombuffer(lines, np.uint8).reshape(height, width + 1)
    # Of lines that are filtered each needs those before it.
    return None if rows[:, 0].any() else rows[:, 1:]


def _encoded(pixels: Pixels) -> bytes:
    height, width = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1).tobytes()
    return png.encoded(width, height, lines)
