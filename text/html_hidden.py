"""Regions of HTML that a person does not see: by what an element says of itself, and by its style sheets. Pure.

Style sheets that are linked and scripts are not read. One pass over the text; its time grows with the length alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Literal

from text import style_sheet

# What stands in quotes ends no tag. Without its last group it is none, and nothing in it is looked at again: the time
# grows with the length alone.
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,30})((?:[\s/](?:=\s*(?:\"[^\"]*\"|'[^']*')|[^<>])*+)?)(>?)|<!--")
_COMMENT_END = re.compile(r"--!?>")
_WORTH = re.compile(
    r"<!--|<template\b|<style\b|\bstyle\s*=|\bhidden\b|\balt\s*=|\bcolor\s*=|\bbgcolor\s*=", re.IGNORECASE
)
_ATTRIBUTE = re.compile(r"(?<![^\s/\"'])([a-zA-Z-]{1,40})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_ENDS = {tag: re.compile(rf"</{tag}", re.IGNORECASE) for tag in ("script", "style", "title")}
"""Elements whose text is none of the page's."""
_UNCLOSED = frozenset({"p", "li", "td", "th", "tr", "dt", "dd", "option"})
"""Elements that the next one of their kind ends."""
_CONDITIONAL = re.compile(r"\s*(?:\[if\b|<!\[endif\])", re.IGNORECASE)
_DEEPEST, _CLASSES = 500, 20

_UNSEEN_STYLE = re.compile(
    r"(?:^|;)(?:display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0+)?(?:;|$)|mso-hide:all"
    r"|font-size:(?:0(?:\.\d+)?(?:px|pt|em|rem|%)?|1(?:px|pt))(?:;|$|!)|text-indent:-\d{3,}"
    r"|(?:left|top|right|margin-left):-\d{4,}|clip:rect\(0)"
)
_NO_ROOM = re.compile(r"(?:^|;)(?:max-)?(?:height|width):0(?:px|pt|em|%)?(?:;|$|!)")
_COLOUR = re.compile(r"(?:^|;)color:([^;!]+)")
_BACKGROUND = re.compile(r"(?:^|;)background(-color)?:([^;!]+)")
_NAMED = {
    "white": "ffffff",
    "black": "000000",
    "red": "ff0000",
    "yellow": "ffff00",
    "snow": "fffafa",
    "ivory": "fffff0",
}
_RGB = re.compile(r"rgba?\((\d{1,3}),(\d{1,3}),(\d{1,3})")
_THROUGH = re.compile(r"transparent|(?:rgb|hsl)a?\((?:(?:[^,)]*,){3}|[^/)]*/)0*\.?0*%?\)|#[0-9a-f]{3}0|#[0-9a-f]{6}00")
_NO_STYLE = re.compile(r"\s+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?")
_NEAR = 12

Kind = Literal["NotDisplayed", "SameColour", "Comment", "AltText"]
"""How something of HTML is hidden; `kb.hidden` says what each is."""
_Colour = tuple[int, int, int] | None


@dataclass
class _Open:
    tag: str
    colour: _Colour
    background: _Colour
    hides: Kind | None = None
    start: int = 0
    keys: tuple[str, ...] = ()


def regions(text: str) -> Iterator[tuple[Kind, int, int]]:
    """(kind, beginning, end) of each region, in order, none within another."""
    if "<" not in text or not _WORTH.search(text):
        return
    opened: list[_Open] = [_Open("", None, (255, 255, 255))]
    styles = style_sheet.Sheet(text)
    above: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    hiding: _Open | None = None
    at = 0
    endless: set[str] = set()  # what was begun and never ends is not looked for again
    while (found := _TAG.search(text, at)) is not None:
        at = found.end()
        if found[0] == "<!--":
            if text.startswith((">", "->"), at):
                continue
            ended = None if "!--" in endless else _COMMENT_END.search(text, at)
            if ended is None:
                endless.add("!--")
                continue
            close = ended.start()
            if hiding is None and not _CONDITIONAL.match(text, at, close):
                yield "Comment", at, close
            at = close
            continue
        if not found[4]:
            continue
        tag = found[2].lower()
        # The next one of its kind ends it, as does its own end.
        if tag in _UNCLOSED and opened[-1].tag == tag and not found[1]:
            closed = opened.pop()
            above.subtract(closed.keys)
            counts[tag] -= 1
            if closed is hiding and closed.hides is not None:
                yield closed.hides, closed.start, found.start()
                hiding = None
        if found[1]:
            if not counts[tag]:
                continue
            while True:
                closed = opened.pop()
                above.subtract(closed.keys)
                counts[closed.tag] -= 1
                if closed is hiding and closed.hides is not None:
                    yield closed.hides, closed.start, found.start()
                    hiding = None
                if closed.tag == tag:
                    break
            continue
        given = _attributes(found[3])
        if tag in _ENDS:
            if tag not in endless:
                end = _ENDS[tag].search(text, at)
                if end is None:
                    endless.add(tag)
                else:
                    at = end.start()
            continue
        if tag == "img" and hiding is None and given.get("alt", "").strip():
            value = next(one for one in _ATTRIBUTE.finditer(found[3]) if one[1].lower() == "alt")
            start = found.start(3) + value.start(value.lastindex or 0)
            yield "AltText", start, start + len(given["alt"])
        if tag in _VOID or found[3].rstrip().endswith("/") or len(opened) > _DEEPEST:
            continue
        style = _NO_STYLE.sub("", unescape(given.get("style", "")).lower())
        keys: tuple[str, ...] = ()
        if styles:
            keys = _keys(tag, given)
            style = styles.style(keys, above, style)
        one = _element(tag, given, found[3], style, opened[-1])
        one.start, one.keys = found.end(), keys
        opened.append(one)
        above.update(keys)
        counts[tag] += 1
        if one.hides is not None and hiding is None:
            hiding = one
    if hiding is not None and hiding.hides is not None:
        yield hiding.hides, hiding.start, len(text)


def _attributes(text: str) -> dict[str, str]:
    """The first of a name holds."""
    given: dict[str, str] = {}
    for one in _ATTRIBUTE.finditer(text):
        given.setdefault(one[1].lower(), one[one.lastindex or 0])
    return given


def _keys(tag: str, given: dict[str, str]) -> tuple[str, ...]:
    """What a selector can call an element."""
    classes = [f".{one}" for one in unescape(given.get("class", "")).lower().split()[:_CLASSES]]
    return (tag, *classes, *([f"#{unescape(given['id']).lower()}"] if given.get("id") else []))


def _element(tag: str, given: dict[str, str], raw: str, style: str, parent: _Open) -> _Open:
    own, behind = _COLOUR.search(style), _BACKGROUND.search(style)
    colour = _colour(own[1]) if own else _colour(given["color"]) if given.get("color") else parent.colour
    background = parent.background
    if behind:
        background = _colour(behind[2])
    elif given.get("bgcolor"):
        background = _colour(given["bgcolor"])
    one = _Open(tag, colour, background)
    bare = _ATTRIBUTE.sub(" ", raw).lower().replace("/", " ").split()
    cut = "overflow:hidden" in style and _NO_ROOM.search(style)
    if cut or _UNSEEN_STYLE.search(style) or "hidden" in bare or "hidden" in given or tag == "template":
        one.hides = "NotDisplayed"
    elif (own and _THROUGH.fullmatch(own[1])) or (
        (own or behind or given.get("color") or given.get("bgcolor")) and _same(colour, background)
    ):
        one.hides = "SameColour"
    return one


def _colour(said: str) -> _Colour:
    """None where it is not known: a picture, a variable, a name that is not in the list."""
    said = _NAMED.get(said.strip().lower(), said.strip().lower().lstrip("#"))
    if rgb := _RGB.match(said):
        return int(rgb[1]), int(rgb[2]), int(rgb[3])
    if re.fullmatch(r"[0-9a-f]{3,4}", said):
        said = "".join(2 * digit for digit in said)
    if re.fullmatch(r"[0-9a-f]{6}(?:[0-9a-f]{2})?", said):
        return int(said[:2], 16), int(said[2:4], 16), int(said[4:6], 16)
    return None


def _same(colour: _Colour, background: _Colour) -> bool:
    if colour is None or background is None:
        return False
    return all(abs(one - other) <= _NEAR for one, other in zip(colour, background, strict=True))
