"""HTML taken apart in one pass: tags, attributes, text. Pure.

The standard library's parser looks at the rest of the page again for every construct that is never closed, so that a
page of a few hundred kilobytes of `<` keeps a core busy for minutes. Here every search either moves forward or is the
last of its kind: the time grows with the length of the page, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape

_OPENS = re.compile(r"<(?=[A-Za-z/!?])")
_TAG = re.compile(r"(/?)([A-Za-z][^\s/>]{0,63})")
# Quoted values may hold `>`. Nothing here is given back once taken (`*+`, `?>`), so that a failure costs one look. Not
# a possessive group: before Python 3.11.5 (Debian 12 has 3.11.2) one that fails halfway does not go back to where it
# began (python/cpython#106052).
_REST = re.compile(r"""(?:(?>[^"'>]+|"[^"]*"|'[^']*'))*>""")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>"']*+)))?+""")
_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
# Longer ones hold data that no person reads.
_TAG_CHARS = 65_536


@dataclass(frozen=True)
class Token:
    """A tag with its lower-case name, or a piece of text (`tag` is "" then)."""

    tag: str
    text: str = ""
    closing: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


def tokens(page: str) -> Iterator[Token]:
    """What a page says, in order; comments and declarations are left out, what is never closed ends the page."""
    at = 0
    while at < len(page):
        opens = _OPENS.search(page, at)
        if opens is None:
            yield Token("", unescape(page[at:]))
            return
        start = opens.start()
        if start > at:
            yield Token("", unescape(page[at:start]))
        name = _TAG.match(page, start + 1)
        if name is not None:
            end = _end(page, name.end())
            if end is None:
                return
            at = end
            tag, closing = name[2].lower(), bool(name[1])
            said = page[name.end() : end - 1]
            yield Token(tag, closing=closing, attributes={} if closing else _attributes(said))
            if not closing and tag in _RAW:
                found = _RAW[tag].search(page, at)
                if found is None:
                    return
                at = found.start()
            elif not closing and said.endswith("/"):
                yield Token(tag, closing=True)
            continue
        closes = "-->" if page.startswith("<!--", start) else ">"
        end = page.find(closes, start + 2)
        if end < 0:
            return
        at = end + len(closes)


def _end(page: str, at: int) -> int | None:
    """Behind the `>` of a tag; a quote that is never closed ends with the next one."""
    found = _REST.match(page, at)
    if found is not None:
        return found.end()
    end = page.find(">", at)
    return None if end < 0 else end + 1


def _attributes(said: str) -> dict[str, str]:
    given: dict[str, str] = {}
    if len(said) > _TAG_CHARS:
        return given
    for name, double, single, bare in _ATTRIBUTE.findall(said):
        given.setdefault(name.lower(), unescape(double or single or bare))
    return given
