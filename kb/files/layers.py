"""Text of a PDF or an Office document with what hides it: the program of a process of its own, which
`kb.files.unseen` starts and bounds.

    python -m kb.files.layers ASKED < FILE

    ASKED: {"type": "PDF", "cpu": 20, "memory": 536870912, "pieces": 200000}

Where nothing is hidden, nothing goes to stdout. Else one JSON array of [kind, text] per piece, in the order of the
file: kinds are those of `kb.hidden.marks`, "" for what is seen.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from kb.files import rendering

REFUSED, TOO_MANY = 3, 4
"""Exit codes: the file cannot be opened; it has more pieces than are looked at."""
_TEXT, _PATH, _FORM = 1, 2, 5
"""PDFium's FPDF_PAGEOBJ_*."""
_INVISIBLE = (3, 7)
"""Render modes that draw nothing (ISO 32000-1, table 106)."""
_DEPTH = 8
_COVERS = 500
_NEAR = 12
_LEAST_POINTS = 1.0
_Rgb = tuple[int, int, int]
_WHITE = (255, 255, 255)
_Cover = tuple[tuple[float, float, float, float], _Rgb | None]
"""Where a drawing stands, and its colour: None for what has no one."""
Piece = tuple[str, str]


def main(arguments: list[str], body: BinaryIO, out: BinaryIO) -> int:
    """Write the pieces; the exit code."""
    asked = json.loads(arguments[0])
    rendering.confine(asked["cpu"], asked["memory"])
    raw = body.read()
    code, made, hides = 0, list[Piece](), False
    try:
        for kind, said in _pieces(raw, asked["type"]):
            made.append((kind, said))
            hides = hides or bool(kind)
            if len(made) >= asked["pieces"]:
                code = TOO_MANY
                break
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001 - the edge of the process: whatever a hostile file breaks, it is refused
        code = REFUSED
    if hides:
        out.write(json.dumps(made).encode())
        out.flush()
    return code


def _pieces(raw: bytes, kind: str) -> Iterator[Piece]:
    if kind == "PDF":
        return pdf(raw)
    from kb.files import office

    rendering.close()
    return office.pieces(io.BytesIO(raw), kind)


def pdf(raw: bytes) -> Iterator[Piece]:
    """The text objects of each page, in their order."""
    import pypdfium2
    import pypdfium2.raw as native

    rendering.close()
    document = pypdfium2.PdfDocument(raw)
    for number in range(len(document)):
        page = document[number]
        size, words = page.get_size(), page.get_textpage()
        covers: dict[int, list[_Cover]] = {}
        for one in page.get_objects(max_depth=_DEPTH, textpage=words):
            # Those of a form have its coordinates.
            under = covers.setdefault(id(one.container) if one.level else 0, [])
            if one.type == _TEXT:
                if said := one.extract().strip():
                    yield _hides(native, one, under, size), said
            elif one.type != _FORM and len(under) < _COVERS:
                under.append((one.get_bounds(), _filled(native, one)))
        words.close()
        page.close()


def _hides(native: Any, one: Any, covers: list[_Cover], size: tuple[float, float]) -> str:
    left, bottom, right, top = one.get_bounds()
    across, up = (left + right) / 2, (bottom + top) / 2
    under = next(
        (colour for box, colour in reversed(covers) if box[0] <= across <= box[2] and box[1] <= up <= box[3]), _WHITE
    )
    if native.FPDFTextObj_GetTextRenderMode(one.raw) in _INVISIBLE:
        return "TextLayer" if under is None else "NotDisplayed"
    if not one.level and (right <= 0 or top <= 0 or left >= size[0] or bottom >= size[1]):
        return "NotDisplayed"
    matrix = one.get_matrix()
    if one.get_font_size() * math.hypot(matrix.c, matrix.d) < _LEAST_POINTS:
        return "NotDisplayed"
    colour, opacity = _colour(native, one)
    same = under is not None and all(abs(mine - its) <= _NEAR for mine, its in zip(colour, under, strict=True))
    return "SameColour" if same or not opacity else ""


def _filled(native: Any, one: Any) -> _Rgb | None:
    """What it is filled with; None for what has no one colour."""
    if one.type != _PATH:
        return None
    colour, opacity = _colour(native, one)
    return colour if opacity > 128 else None


def _colour(native: Any, one: Any) -> tuple[_Rgb, int]:
    red, green, blue, opacity = (ctypes.c_uint() for _ in range(4))
    native.FPDFPageObj_GetFillColor(one.raw, *map(ctypes.byref, (red, green, blue, opacity)))
    return (red.value, green.value, blue.value), opacity.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer))
