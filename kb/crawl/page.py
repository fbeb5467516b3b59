"""Text, title and links of an HTML page.

A page comes from a stranger and is read in a thread, which nothing can stop from outside: so its time is bounded here.
"""

from __future__ import annotations

import codecs
import encodings.aliases
import itertools
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin

import justhtml

from crds import errors
from kb import hidden

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "li", "ul", "ol", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6"}
    | {"br", "hr", "header", "footer", "main", "nav", "aside", "pre", "blockquote", "dl", "dt", "dd", "figure"}
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.I)
# Python keeps each name for which it has once looked for a codec: so it is asked only for those that it has.
_CODECS = frozenset(encodings.aliases.aliases) | {one.name for one in pkgutil.iter_modules(encodings.__path__)}
# Of names of hosts: no page is written in them, and their time grows with the square of the length.
_NOT_OF_PAGES = frozenset({"punycode", "idna"})
_SPACE = re.compile(r"\s+")
_MOST_LINKS = 2000
_LONGEST_LINK = 1024  # as a `sourceUrn` may be
_EVENTS = 16  # between two looks at the clock

_Events = Iterator[tuple[str, object]]


class Costly(errors.Permanent):
    """The page takes longer to read than is allowed; it is left out."""


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
        self.anchors: list[tuple[str, int]] = []  # the links of the text, with how much of it stood before each
        self.robots = ""
        self._silent = 0
        self._silenced = ("", 0)  # the outermost silent element, and how much text stood before it
        self._verbatim = 0
        self._in_title = False

    def take(self, events: _Events) -> None:
        """The events of the tokenizer alone: a tree's time grows with the square of a page that nests without end."""
        for event in events:
            match event:
                case "text", str(data):
                    self._data(data)
                case "start", (str(tag), dict(given)):
                    self._open(tag, {name: value or "" for name, value in given.items()})
                case "end", str(tag):
                    self._close(tag)
        # The events do not carry the slash of `<svg/>`: one that never ends hides nothing.
        if self._silent and self._silenced[0] != "svg":
            self._forget()

    def _forget(self) -> None:
        """What stands in the outermost silent element is no text of the page, nor are its links."""
        del self.text[self._silenced[1] :]
        self.anchors = [one for one in self.anchors if one[1] < self._silenced[1]]

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
        elif tag == "a" and given.get("href"):
            self._link(given["href"], follow="nofollow" not in given.get("rel", "").lower())
        if tag == "pre":
            self._verbatim += 1
        if tag in _BLOCKS:
            self.text.append("\n\n" if tag.startswith("h") or tag == "p" else "\n")

    def _link(self, written: str, *, follow: bool) -> None:
        follow = follow and len(self.links) < _MOST_LINKS
        shown = len(self.anchors) < _MOST_LINKS
        link = _join(self.base, written) if follow or shown else None
        if link and shown:
            self.anchors.append((link, len(self.text)))
        if link and follow:
            self.links.setdefault(link)

    def _close(self, tag: str) -> None:
        if tag in _SILENT:
            if self._silent == 1:
                self._forget()
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


def anchored(
    html: str, *, seconds: float = 5.0, clock: Callable[[], float] = time.thread_time
) -> tuple[str, list[tuple[str, int]]]:
    """The text of an HTML document that has no address of its own, and each link in it with its place in the text.

    Raises `Costly` after `seconds` of processor time.
    """
    reader = _Reader("")
    reader.take(_bounded(justhtml.stream(html), seconds, clock))
    ends = [0, *itertools.accumulate(len(piece) for piece in reader.text)]
    return "".join(reader.text), [(link, ends[count]) for link, count in reader.anchors]


def read(
    body: bytes, url: str, charset: str | None, *, seconds: float = 5.0, clock: Callable[[], float] = time.thread_time
) -> Page:
    """A page that came from `url`; `charset` as its header said. Raises `Costly` after `seconds` of processor time."""
    reader = _Reader(url)
    # What the page does not show is text of it like any other, and says so.
    shown, seal = hidden.sealed(decode(body, charset))
    reader.take(_bounded(justhtml.stream(shown), seconds, clock))
    lines = (" ".join(line.split()) for line in "".join(reader.text).splitlines())
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return Page(
        title=" ".join("".join(reader.title).split())[:1000],
        text=hidden.unsealed(text, seal),
        links=tuple(reader.links),
        follow="nofollow" not in reader.robots and "none" not in reader.robots,
        index="noindex" not in reader.robots and "none" not in reader.robots,
    )


def _bounded(events: _Events, seconds: float, clock: Callable[[], float]) -> _Events:
    """The tokenizer looks from each comment to the end of the page, so some pages take the square of their length."""
    end = clock() + seconds
    for number, event in enumerate(events):
        if number % _EVENTS == 0 and clock() > end:
            raise Costly(f"it takes longer than {seconds:g} seconds to read")
        yield event


def decode(body: bytes, charset: str | None) -> str:
    """The text of a document by the charset that it is said to have, by its own word, or as UTF-8."""
    found = _CHARSET.search(body[:2048])
    for said in (charset, found[1].decode() if found else None, "utf-8"):
        name = encodings.normalize_encoding(said or "").lower().replace(".", "_")
        if name in _CODECS:
            try:
                if codecs.lookup(name).name in _NOT_OF_PAGES:
                    continue
                return body.decode(name)
            except (LookupError, ValueError):  # `undefined` raises a UnicodeError that is none of decoding
                continue
    return body.decode("utf-8", "replace")


def _join(base: str, link: str) -> str | None:
    """None for what is no address, or too long: a page has many links, and `urljoin` keeps what it has met last."""
    link = link.strip().partition("#")[0]
    if len(link) > _LONGEST_LINK:
        return None
    try:
        joined = urldefrag(urljoin(base, link)).url
    except ValueError:
        return None
    return joined if len(joined) <= _LONGEST_LINK else None
