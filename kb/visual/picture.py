"""Images of pages as `kb.files.rendering` draws them, PNGs with one byte for a pixel: cut, and made smaller. Pure.

The image of the service has no library that opens images; what comes from outside stays as it is.
"""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
import numpy.typing as npt

from kb.visual import evidence

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_PIXELS = 50_000_000
Pixels = npt.NDArray[np.uint8]


def cut(png: bytes, where: evidence.Rectangle) -> bytes:
    """A region of a page's image; b"" of other images."""
    pixels = _pixels(png)
    if pixels is None:
        return b""
    height, width = pixels.shape
    left, top = where.left * width // evidence.UNIT, where.top * height // evidence.UNIT
    right = max(where.right * width // evidence.UNIT, left + 1)
    bottom = max(where.bottom * height // evidence.UNIT, top + 1)
    return _encoded(pixels[top : min(bottom, height), left : min(right, width)])


def scaled(png: bytes, most: int) -> bytes:
    """A page's image with `most` pixels at most, each the mean of those that it stands for; others, and smaller ones,
    as they are. `most` 0: no limit."""
    pixels = _pixels(png) if most else None
    if pixels is None or pixels.size <= most:
        return png
    height, width = pixels.shape
    scale = math.sqrt(most / pixels.size)
    made = _means(pixels.astype(np.float32), max(1, math.floor(height * scale)))
    made = _means(made.T, max(1, math.floor(width * scale))).T
    return _encoded(np.rint(made).astype(np.uint8))


def _means(rows: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.float32]:
    """Rows as `count` means over equal parts of them."""
    total = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0, dtype=np.float64)])
    edges = np.linspace(0, len(rows), count + 1)
    low = np.minimum(edges.astype(int), len(rows) - 1)
    part = (edges - low)[:, None]
    at = total[low] * (1 - part) + total[low + 1] * part
    made: npt.NDArray[np.float32] = (np.diff(at, axis=0) * (count / len(rows))).astype(np.float32)
    return made


def _pixels(png: bytes) -> Pixels | None:
    """[height, width]; None of what was not drawn here."""
    head, data = b"", list[bytes]()
    at = len(_SIGNATURE)
    while at + 12 <= len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IHDR":
            head = png[at + 8 : at + 8 + size]
        elif kind == b"IDAT":
            data.append(png[at + 8 : at + 8 + size])
        at += 12 + size
    if not png.startswith(_SIGNATURE) or len(head) != 13:
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
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines, 6)) + _chunk(b"IEND", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
