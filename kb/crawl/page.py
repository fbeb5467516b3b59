"""Text, title and links of an HTML page. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin

import justhtml

from kb import hidden

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "li", "ul", "ol", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6"}
    | {"br", "hr", "header", "footer", "main", "nav", "aside", "pre", "blockquote", "dl", "dt", "dd", "figure"}
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.I)
# Of names of hosts: no page is written in them, and their time grows with the square of the length.
_NOT_OF_PAGES = frozenset({"punycode", "idna"})
_SPACE = re.compile(r"\s+")
_MOST_LINKS = 2000


@dataclass(frozen=True)
class Page:
    """`links` are absolute and without fragments, in order, each once."""

    title: str
    text: str
    links: tuple[str, ...]
    follow: bool
    index: bool


class _Reader:
    def __init__(self, base: str) -> None:
        self.base = base
        self.title: list[str] = []
        self.text: list[str] = []
        self.links: dict[str, None] = {}
        self.robots = ""
        self._silent = 0
        self._silenced = ("", 0)  # the outermost silent element, and how much text stood before it
        self._verbatim = 0
        self._in_title = False

    def take(self, html: str) -> None:
        """The events of the tokenizer alone: a tree's time grows with the square of a page that nests without end."""
        for event in justhtml.stream(html):
            match event:
                case "text", str(data):
                    self._data(data)
                case "start", (str(tag), dict(given)):
                    self._open(tag, {name: value or "" for name, value in given.items()})
                case "end", str(tag):
                    self._close(tag)
        # The events do not carry the slash of `<svg/>`: one that never ends hides nothing.
        if self._silent and self._silenced[0] != "svg":
            del self.text[self._silenced[1] :]

    def _open(self, tag: str, given: Mapping[str, str]) -> None:
        if tag in _SILENT:
            if not self._silent:
                self._silenced = (tag, len(self.text))
            self._silent += 1
        elif tag == "title":
            self._in_title = True
        elif tag == "base" and given.get("href"):
            self.base = _join(self.base, given["href"]) or self.base
        elif tag == "meta" and given.get("name", "").lower() == "robots":
            self.robots = given.get("content", "").lower()
        elif tag == "a" and given.get("href") and "nofollow" not in given.get("rel", "").lower():
            link = _join(self.base, given["href"])
            if link and len(self.links) < _MOST_LINKS:
                self.links.setdefault(link)
        if tag == "pre":
            self._verbatim += 1
        if tag in _BLOCKS:
            self.text.append("\n\n" if tag.startswith("h") or tag == "p" else "\n")

    def _close(self, tag: str) -> None:
        if tag in _SILENT:
            if self._silent == 1:
                del self.text[self._silenced[1] :]
            self._silent = max(self._silent - 1, 0)
        elif tag == "title":
            self._in_title = False
        elif tag in _BLOCKS:
            self.text.append("\n")
        if tag == "pre":
            self._verbatim = max(self._verbatim - 1, 0)

    def _data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        else:
            self.text.append(data if self._verbatim else _SPACE.sub(" ", data))


def read(body: bytes, url: str, charset: str | None) -> Page:
    """A page that came from `url`; `charset` as its header said."""
    reader = _Reader(url)
    # What the page does not show is text of it like any other, and says so.
    reader.take(hidden.marked(_decode(body, charset)))
    lines = (" ".join(line.split()) for line in "".join(reader.text).splitlines())
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return Page(
        title=" ".join("".join(reader.title).split())[:1000],
        text=text,
        links=tuple(reader.links),
        follow="nofollow" not in reader.robots and "none" not in reader.robots,
        index="noindex" not in reader.robots and "none" not in reader.robots,
    )


def _decode(body: bytes, charset: str | None) -> str:
    found = _CHARSET.search(body[:2048])
    for name in (charset, found[1].decode() if found else None, "utf-8"):
        if name:
            try:
                if codecs.lookup(name).name in _NOT_OF_PAGES:
                    continue
                return body.decode(name)
            except (LookupError, UnicodeDecodeError):
                continue
    return body.decode("utf-8", "replace")


def _join(base: str, link: str) -> str | None:
    try:
        return urldefrag(urljoin(base, link.strip())).url
    except ValueError:
        return None
