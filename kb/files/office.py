"""Text of Office documents (ECMA-376) with what hides it, in the order of the file. Runs in the process of
`kb.files.layers`, which bounds its memory and time.

    DOCX  runs that are `vanish`, of size 1 or less, or white on nothing, by themselves or their styles; comments
    XLSX  hidden sheets, rows and columns, cells with the format `;;;` or in white on nothing; comments
    PPTX  hidden slides and shapes, shapes beside the slide, text of size 1 or less; notes and comments
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import BinaryIO
from xml.etree import ElementTree

_Piece = tuple[str, str]
_Node = ElementTree.Element
_UNSEEN, _COLOUR, _COMMENT, _NOTE = "NotDisplayed", "SameColour", "Comment", "Note"
_NUMBER = re.compile(r"\d+")
_COLUMN = re.compile(r"[A-Z]+")
_WHITE = frozenset({"FFFFFF", "FFFFFFFF"})


def pieces(body: BinaryIO, kind: str) -> Iterator[_Piece]:
    """`kind` is DOCX, XLSX or PPTX."""
    with zipfile.ZipFile(body) as archive:
        yield from {"DOCX": _word, "XLSX": _book, "PPTX": _slides}[kind](archive)


def _parts(archive: zipfile.ZipFile, pattern: str) -> list[str]:
    """Names of parts, by the numbers in them."""
    found = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
    return sorted(found, key=lambda name: ([int(one) for one in _NUMBER.findall(name)], name))


def _tree(archive: zipfile.ZipFile, name: str) -> _Node | None:
    try:
        with archive.open(name) as part:
            # Entities that grow meet the bounds of the process; expat opens nothing.
            root = ElementTree.parse(part).getroot()  # noqa: S314
    except KeyError:
        return None
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
        for key in [key for key in one.attrib if "}" in key]:
            one.attrib.setdefault(key.rpartition("}")[2], one.attrib[key])
    return root


def _words(node: _Node | None, *tags: str) -> str:
    return "" if node is None else " ".join(one.text or "" for one in node.iter() if one.tag in (tags or ("t",)))


def _on(node: _Node | None, tag: str) -> bool | None:
    """A property that is there and not switched off; None where it is not there."""
    found = None if node is None else node.find(tag)
    return None if found is None else found.get("val", "1").lower() not in ("0", "false", "off", "none")


def _value(node: _Node | None, tag: str, name: str = "val") -> str:
    found = None if node is None else node.find(tag)
    return "" if found is None else found.get(name, "")


class _Look:
    """Of a run: whether it is shown, its size in half points, its colour, and whether anything is under it."""

    vanish: bool
    size: int
    colour: str
    backed: bool

    def __init__(self, said: _Node | None, usual: _Look | None = None) -> None:
        vanish = _on(said, "vanish")
        self.vanish = usual.vanish if vanish is None and usual else bool(vanish)
        size = _value(said, "sz")
        self.size = int(size) if size.isdecimal() else usual.size if usual else 20
        self.colour = _value(said, "color").upper() or (usual.colour if usual else "")
        shade = _value(said, "shd", "fill").upper()
        light = (*_WHITE, "", "AUTO")
        self.backed = bool(_on(said, "highlight")) or (shade not in light if shade else bool(usual and usual.backed))

    @property
    def kind(self) -> str:
        if self.vanish or self.size <= 2:
            return _UNSEEN
        return _COLOUR if self.colour in _WHITE and not self.backed else ""


def _word(archive: zipfile.ZipFile) -> Iterator[_Piece]:
    styles: dict[str, _Look] = {}
    for style in _all(_tree(archive, "word/styles.xml"), "style"):
        # One that is based on a later one takes nothing of it.
        styles[style.get("styleId", "")] = _Look(style.find("rPr"), styles.get(_value(style, "basedOn")))
    for name in ("word/document.xml", *_parts(archive, r"word/(?:header|footer|footnotes|endnotes)\d*\.xml")):
        yield from _runs(_tree(archive, name), styles, backed=False)
    for name in _parts(archive, r"word/comments\w*\.xml"):
        for one in _all(_tree(archive, name), "comment"):
            yield _COMMENT, _words(one)


def _runs(node: _Node | None, styles: dict[str, _Look], *, backed: bool, style: str = "") -> Iterator[_Piece]:
    for one in () if node is None else node:
        if one.tag in ("tc", "p"):
            said = one.find("tcPr" if one.tag == "tc" else "pPr")
            fill = _value(said, "shd", "fill").upper()
            under = (fill not in (*_WHITE, "AUTO")) if fill else backed
            named = _value(said, "pStyle") if one.tag == "p" else style
            yield from _runs(one, styles, backed=under, style=named)
        elif one.tag == "r":
            said = one.find("rPr")
            look = _Look(said, styles.get(_value(said, "rStyle")) or styles.get(style))
            look.backed = look.backed or backed
            if words := _words(one, "t", "delText"):
                yield look.kind, words
            # A drawing in it may have text of its own, which is among the words already.
        elif one.tag not in ("pPr", "rPr", "tcPr", "sectPr"):
            yield from _runs(one, styles, backed=backed, style=style)


def _all(node: _Node | None, tag: str) -> list[_Node]:
    return [] if node is None else [one for one in node.iter() if one.tag == tag]


def _book(archive: zipfile.ZipFile) -> Iterator[_Piece]:
    shared = [_words(one) for one in _all(_tree(archive, "xl/sharedStrings.xml"), "si")]
    formats = _formats(_tree(archive, "xl/styles.xml"))
    named = _relations(archive, "xl/_rels/workbook.xml.rels", "xl/")
    for sheet in _all(_tree(archive, "xl/workbook.xml"), "sheet"):
        away = sheet.get("state", "visible") != "visible"
        root = _tree(archive, named.get(sheet.get("id", ""), ""))
        hidden = [
            (int(one.get("min", "0")), int(one.get("max", "0")))
            for one in _all(root, "col")
            if one.get("hidden") in ("1", "true")
        ]
        for row in _all(root, "row"):
            gone = away or row.get("hidden") in ("1", "true")
            for cell in row:
                said = _cell(cell, shared)
                column = _column(cell.get("r", ""))
                unseen = gone or any(low <= column <= high for low, high in hidden)
                style = cell.get("s", "0")
                kind = _UNSEEN if unseen else formats.get(int(style) if style.isdecimal() else 0, "")
                if said:
                    yield kind, said
    for name in _parts(archive, r"xl/(?:comments/?comment|comments|threadedComments/threadedComment)\d*\.xml"):
        root = _tree(archive, name)
        for one in (*_all(root, "comment"), *_all(root, "threadedComment")):
            yield _COMMENT, _words(one, "t", "text").strip()


def _cell(cell: _Node, shared: list[str]) -> str:
    value = cell.findtext("v") or ""
    if cell.get("t") == "s":
        return shared[int(value)] if value.isdecimal() and int(value) < len(shared) else ""
    return _words(cell.find("is")) if cell.get("t") == "inlineStr" else value


def _column(place: str) -> int:
    found = _COLUMN.match(place)
    number = 0
    for letter in found[0][:4] if found else "":
        number = 26 * number + ord(letter) - 64
    return number


def _formats(root: _Node | None) -> dict[int, str]:
    """What hides a cell of a style, by the style's number."""
    if root is None:
        return {}
    fonts, fills, cells = (root.find(name) for name in ("fonts", "fills", "cellXfs"))
    # A theme's first colour is the window's, which is white.
    white = [
        _value(font, "color", "rgb").upper() in _WHITE or _value(font, "color", "theme") == "0"
        for font in (() if fonts is None else fonts)
    ]
    filled = [
        _value(fill, "patternFill", "patternType") not in ("", "none") for fill in (() if fills is None else fills)
    ]
    nothing = {one.get("numFmtId") for one in _all(root, "numFmt") if one.get("formatCode", "").strip() == ";;;"}
    made: dict[int, str] = {}
    for number, one in enumerate(() if cells is None else cells):
        font, fill = (int(one.get(name, "0")) for name in ("fontId", "fillId"))
        if one.get("numFmtId") in nothing:
            made[number] = _UNSEEN
        elif font < len(white) and white[font] and not (fill < len(filled) and filled[fill]):
            made[number] = _COLOUR
    return made


def _relations(archive: zipfile.ZipFile, name: str, folder: str) -> dict[str, str]:
    """The names of parts by the ids that another part calls them by."""
    made = {}
    for one in _all(_tree(archive, name), "Relationship"):
        target = one.get("Target", "")
        made[one.get("Id", "")] = target[1:] if target.startswith("/") else folder + target
    return made


def _slides(archive: zipfile.ZipFile) -> Iterator[_Piece]:
    whole = _tree(archive, "ppt/presentation.xml")
    named = _relations(archive, "ppt/_rels/presentation.xml.rels", "ppt/")
    size = None if whole is None else whole.find("sldSz")
    wide, high = (int(size.get(name, "0")) if size is not None else 0 for name in ("cx", "cy"))
    for slide in _all(whole, "sldId"):
        root = _tree(archive, _own(slide, named))
        away = root is not None and root.get("show") in ("0", "false")
        for shape in (*_all(root, "sp"), *_all(root, "graphicFrame")):
            unseen = any(one.get("hidden") in ("1", "true") for one in _all(shape, "cNvPr"))
            gone = away or unseen or _beside(shape, wide, high)
            for run in _all(shape, "r"):
                points = _value(run, "rPr", "sz")
                tiny = points.isdecimal() and int(points) <= 100
                if said := _words(run):
                    yield _UNSEEN if gone or tiny else "", said
    for name in _parts(archive, r"ppt/notesSlides/notesSlide\d+\.xml"):
        for run in _all(_tree(archive, name), "r"):
            yield _NOTE, _words(run)
    for name in _parts(archive, r"ppt/comments/\w+\.xml"):
        root = _tree(archive, name)
        for one in (*_all(root, "cm"),):
            yield _COMMENT, _words(one, "text", "t").strip()


def _own(slide: _Node, named: dict[str, str]) -> str:
    # `id` without a prefix is a number; that of the relationship is the other one.
    return next((named[value] for value in slide.attrib.values() if value in named), "")


def _beside(shape: _Node, wide: int, high: int) -> bool:
    """Whether a shape lies beside its slide."""
    place = next(iter(_all(shape, "xfrm")), None)
    at = None if place is None else place.find("off")
    size = None if place is None else place.find("ext")
    if at is None or size is None or not wide or not high:
        return False
    try:
        left, top = int(at.get("x", "0")), int(at.get("y", "0"))
        width, height = int(size.get("cx", "0")), int(size.get("cy", "0"))
    except ValueError:
        return False
    return left + width <= 0 or top + height <= 0 or left >= wide or top >= high
