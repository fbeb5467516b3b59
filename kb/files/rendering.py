"""Pages of a PDF as images: the program of a process of its own, which `kb.files.pages` starts and bounds.

    python -m kb.files.rendering ASKED < PDF

    ASKED: {"pages": [[3, false]], "most": 10, "pixels": 2200000, "cpu": 20, "memory": 536870912}

A PDF is hostile and PDFium is written in C++: what it breaks is this process, which has no secrets in its environment
and can open neither files nor connections. For each page one frame goes to stdout: its number and the length of its
PNG (two big-endian 32-bit numbers), then the PNG. A length of 0 is a page with nothing to see: it is blank, or it has
text that was read already (the second value of its pair) and nothing else. `BROKEN` in its place is one that cannot be
drawn. After `most` others the rest is left out. The images are grey: a third of the bytes, and what a scan says needs
no colour.

With `"layout": true` the number of pages comes first (page 0, and in the place of a length), pages of text alone are
drawn as well, and behind each page comes a second frame: `_layout` as JSON, deflated.
"""

from __future__ import annotations

import codecs
import json
import math
import resource
import struct
import sys
import zlib
from typing import Any, BinaryIO

from kb.files import png

FRAME = struct.Struct(">II")
BROKEN = 0xFFFFFFFF
REFUSED = 3
"""The exit code for a PDF that cannot be opened."""
_DPI = 150 / 72
# PDFium's FPDF_PAGEOBJ_TEXT; a page that has others shows more than its text.
_TEXT, _PATH, _IMAGE, _SHADING = 1, 2, 3, 4
_OBJECTS = 2000
# Fewer lines are those of a table or a frame; more draw something.
_LINES = 60
_CHARS, _WORDS = 60_000, 8_000
_UNIT = 10_000
"""What the sides of a page measure in a layout."""


def main(arguments: list[str], body: BinaryIO, out: BinaryIO) -> int:
    """Draw what is asked for; the exit code."""
    asked = json.loads(arguments[0])
    confine(asked["cpu"], asked["memory"])
    raw = body.read()
    # Only here: what is loaded from now on is confined.
    import pypdfium2

    close()
    try:
        document = pypdfium2.PdfDocument(raw)
    except pypdfium2.PdfiumError:
        return REFUSED
    count, left, layout = len(document), asked["most"], asked.get("layout", False)
    if layout:
        out.write(FRAME.pack(0, count))
    for number, has_text in asked["pages"]:
        if not left or (layout and number > count):
            break
        image: bytes | None = None
        if number <= count:
            try:
                image = _drawn(document[number - 1], asked["pixels"], has_text=has_text)
            except (pypdfium2.PdfiumError, ValueError, ZeroDivisionError, OverflowError):
                image = None
        left -= image != b""
        out.write(FRAME.pack(number, BROKEN if image is None else len(image)) + (image or b""))
        if layout:
            said = zlib.compress(json.dumps(_layout(document[number - 1])).encode()) if image else b""
            out.write(FRAME.pack(number, len(said)) + said)
        out.flush()
    return 0


def confine(cpu: int, memory: int) -> None:
    """Bound this process to seconds of processor time and bytes of memory; it writes no files."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def close() -> None:
    """What is open stays so; no file and no connection can be opened any more, whatever a file brings a library to."""
    for name in ("utf-16-le", "utf-16", "cp437", "latin-1", "ascii"):
        codecs.lookup(name)  # a codec is a file, too
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def _drawn(page: Any, pixels: int, *, has_text: bool) -> bytes:
    """The page as PNG; empty when there is nothing to see."""
    if has_text and _only_text(page):
        return b""
    width, height = page.get_size()
    scale = min(_DPI, math.sqrt(pixels / (width * height)), pixels / 4 / max(width, height))
    bitmap = page.render(scale=scale, grayscale=True, limit_image_cache=True)
    rows = bytes(bitmap.buffer)
    if len(set(rows)) < 2:
        return b""
    wide, high, stride = bitmap.width, bitmap.height, bitmap.stride
    lines = b"".join(b"\0" + rows[at : at + wide] for at in range(0, high * stride, stride))
    return png.encoded(wide, high, lines)


def _layout(page: Any) -> dict[str, Any]:
    """Where the words of a page stand: {"size": [width, height], "words": [[left, top, right, bottom, text]],
    "figures": true}. The size is in points, places are in 10,000ths of the page's sides as it is seen, from the upper
    left corner. `figures`: it shows more than text, tables and frames."""
    width, height = page.get_size()
    words: list[list[Any]] = []
    try:
        words = _words(page)
        kinds = [one.type for _, one in zip(range(_OBJECTS), page.get_objects(max_depth=2), strict=False)]
    except Exception:  # noqa: BLE001 -- hostile input to a library in C++; the page was drawn, and its image is kept
        kinds = [_IMAGE]
    figures = _IMAGE in kinds or _SHADING in kinds or kinds.count(_PATH) > _LINES
    return {"size": [round(width, 1), round(height, 1)], "words": words, "figures": figures}


def _words(page: Any) -> list[list[Any]]:
    from ctypes import byref, c_double, c_int

    from pypdfium2 import raw

    text = page.get_textpage()
    words: list[list[Any]] = []
    word, box = "", [0, 0, 0, 0]
    left, right, bottom, top = (c_double() for _ in range(4))
    x, y = c_int(), c_int()
    for at in range(min(text.count_chars(), _CHARS) + 1):
        code = raw.FPDFText_GetUnicode(text, at) if at < text.count_chars() else 32
        char = chr(code) if 32 < code < 0x110000 and not 0xD800 <= code < 0xE000 else " "
        corners: list[tuple[int, int]] = []
        if not char.isspace() and raw.FPDFText_GetCharBox(text, at, left, right, bottom, top):
            for across, up in ((left, top), (right, bottom)):
                raw.FPDF_PageToDevice(page, 0, 0, _UNIT, _UNIT, 0, across, up, byref(x), byref(y))
                corners.append((x.value, y.value))
        if not corners:
            if word and len(words) < _WORDS:
                words.append([*(min(max(side, 0), _UNIT) for side in box), word])
            word = ""
            continue
        (x0, x1), (y0, y1) = (sorted(side) for side in zip(*corners, strict=True))
        box = [min(box[0], x0), min(box[1], y0), max(box[2], x1), max(box[3], y1)] if word else [x0, y0, x1, y1]
        word += char
    return words


def _only_text(page: Any) -> bool:
    return all(one.type == _TEXT and count < _OBJECTS for count, one in enumerate(page.get_objects(max_depth=1)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer))
