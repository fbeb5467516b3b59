"""HTML of a mail as text that people and models read: quotes with ">", tables, lists and links. Pure.

    <blockquote>                    lines with "> "
    header block of Outlook         a rule of underscores before it, as Outlook writes it into plain text
    <td>, <th>                      " | " between the cells of a row
    <a href="URL">words</a>         words <URL>
    hidden elements, comments       `<i hidden>`, `<i style="color:#fff">` and `<!-- -->` in their place

What is hidden keeps the least markup that still says so: `kb.hidden` marks it as in the HTML itself, and no reader
takes it for words of the sender. One pass over the tokens of `justhtml`; the time grows with the length alone.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import justhtml

from text import html_hidden

MOST_CHARS = 1 << 20
"""Of HTML; what is longer is cut there."""
RULE = "_" * 32
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
"""Around the number of what was cut out; no text of others has these."""
_TOKEN = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_SILENT = frozenset({"script", "style", "title", "template", "noscript", "svg", "object", "iframe"})
_PARAGRAPHS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "pre", "blockquote"})
_LINES = frozenset({"div", "section", "article", "header", "footer", "main", "nav", "aside", "tr", "li", "dt", "dd"})
_LINES |= frozenset({"figure", "address", "center", "form", "fieldset", "caption", "tbody", "thead", "body"})
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "col", "area", "base", "wbr", "source"})
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_TAG = re.compile(r"<[^<>]*>")
_WEB = re.compile(r"\s*(?:https?|ftp)://\S", re.IGNORECASE)
_INDENTED = re.compile(r"border(?:-left)?\s*:\s*(?:none|0)", re.IGNORECASE)
_HEADED = re.compile(r"border-top\s*:\s*solid[^;]*;\s*padding\s*:\s*3", re.IGNORECASE)
"""How Word writes the line above the headers of the mail that is answered."""
_HEADED_IDS = frozenset({"divrplyfwdmsg", "x_divrplyfwdmsg"})
_DEEPEST = 20
"""Quotes in quotes that are told apart."""
_MOST_LINKS = 2000
_URL_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Link:
    """An address with the words that stand for it."""

    url: str
    words: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """`links` are those that are seen, in order."""

    text: str
    links: tuple[Link, ...]


def render(html: str) -> Rendered:
    """The text of a document or a fragment."""
    source, cut = _without_hidden(html[:MOST_CHARS].replace(_OPEN, "").replace(_CLOSE, ""))
    writer = _Writer()
    for event in justhtml.stream(source):
        match event:
            case "text", str(data):
                writer.data(data)
            case "start", (str(tag), dict(given)):
                writer.start(tag, {name: value or "" for name, value in given.items()})
            case "end", str(tag):
                writer.end(tag)
    text = _TOKEN.sub(lambda found: cut[int(found[1])] if int(found[1]) < len(cut) else "", writer.text())
    return Rendered(text, tuple(writer.links))


def words(html: str) -> int:
    """About how many letters of it are seen."""
    return len(_SPACE.sub(" ", _TAG.sub("", html[:MOST_CHARS])))


def _without_hidden(html: str) -> tuple[str, list[str]]:
    """The HTML with a token for each hidden part, and what stands for each token in the text."""
    pieces, cut, at = list[str](), list[str](), 0
    for kind, start, end in html_hidden.regions(html):
        said = " ".join(entities.unescape(_TAG.sub(" ", html[start:end])).split())
        if kind == "AltText" or start < at:
            continue
        escaped = entities.escape(said, quote=False)
        until = end
        if kind == "Comment":
            start -= len("<!--")
            until = html.find(">", end) + 1 or len(html)
            shown = f"<!-- {escaped.replace('--', '- -')} -->"
        else:
            shown = f"<i hidden>{escaped}</i>" if kind == "NotDisplayed" else f'<i style="color:#fff">{escaped}</i>'
        pieces.append(html[at:start])
        if said:
            pieces.append(f"{_OPEN}{len(cut)}{_CLOSE}")
            cut.append(f" {shown} ")
        at = until
    return "".join([*pieces, html[at:]]), cut


@dataclass
class _Writer:
    """Lines of text, as the tokens come."""

    links: list[Link] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _line: list[str] = field(default_factory=list)
    _quotes: list[bool] = field(default_factory=list)
    """Of each open blockquote, whether it quotes."""
    _depth: int = 0
    """How many of them do."""
    _lists: list[int] = field(default_factory=list)
    """Of each open list the number of its next item; 0: it has none."""
    _anchor: tuple[str, int] | None = None
    _silent: str = ""
    _pre: int = 0
    _cells: int = 0
    """Of the open row."""

    def data(self, data: str) -> None:
        """Words between tags."""
        if self._silent:
            return
        if self._pre:
            first, *others = data.replace("\r\n", "\n").split("\n")
            self._line.append(first)
            for one in others:
                self._end_line()
                self._line.append(one)
        else:
            self._line.append(_SPACE.sub(" ", data))

    def start(self, tag: str, given: Mapping[str, str]) -> None:
        """An element begins."""
        if self._silent or tag in _SILENT:
            self._silent = self._silent or tag
            return
        if tag in _PARAGRAPHS:
            self._paragraph()
        elif tag in _LINES or tag == "hr":
            self._break()
        match tag:
            case "br":
                self._end_line()
            case "blockquote":
                self._quotes.append(not _INDENTED.search(given.get("style", "")))
                self._depth += self._quotes[-1]
            case "div" if given.get("id", "").lower() in _HEADED_IDS or _HEADED.search(given.get("style", "")):
                self._line.append(RULE)
                self._end_line()
            case "pre":
                self._pre += 1
            case "ul" | "ol":
                self._lists.append(1 if tag == "ol" else 0)
            case "li":
                self._item()
            case "tr":
                self._cells = 0
            case "td" | "th":
                self._cell()
            case "a":
                self._end_link()
                url = given.get("href", "").strip()
                self._anchor = (url, len(self._line)) if _WEB.match(url) else None
            case "img" if given.get("alt", "").strip():
                said = entities.escape(" ".join(given["alt"].split()))
                self._line.append(f'<img alt="{said}">')

    def end(self, tag: str) -> None:
        """An element ends; one that was not opened ends nothing."""
        if self._silent:
            self._silent = "" if tag == self._silent else self._silent
            return
        if tag == "a":
            self._end_link()
        elif tag == "blockquote":
            self._break()
            if self._quotes:
                self._depth -= self._quotes.pop()
            self._paragraph()
        elif tag in _PARAGRAPHS:
            self._paragraph()
        elif tag in _LINES:
            self._break()
        if tag == "pre":
            self._pre = max(0, self._pre - 1)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()

    def text(self) -> str:
        """All of it."""
        self._end_link()
        self._break()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip("\n")

    def _item(self) -> None:
        number = self._lists[-1] if self._lists else 0
        self._line.append("  " * min(len(self._lists) - 1, _DEEPEST) + (f"{number}. " if number else "- "))
        if number:
            self._lists[-1] = number + 1

    def _cell(self) -> None:
        # Cells of tables that only lay out a page are empty, or hold blocks.
        if self._cells and "".join(self._line).strip():
            self._line.append(" | ")
        self._cells += 1

    def _end_link(self) -> None:
        if self._anchor is None:
            return
        (url, began), self._anchor = self._anchor, None
        said = " ".join("".join(self._line[began:]).split())
        if len(self.links) >= _MOST_LINKS or len(url) > _URL_CHARS:
            return
        self.links.append(Link(url, said))
        if url.rstrip("/") not in said:
            self._line.append(f" <{url}>" if said else f"<{url}>")

    def _paragraph(self) -> None:
        self._break()
        if self._lines and self._lines[-1].strip("> "):
            self._lines.append(self._prefix().rstrip())
        elif self._lines:
            self._lines[-1] = min(self._lines[-1], self._prefix().rstrip(), key=len)

    def _break(self) -> None:
        """The line ends, if there is something on it."""
        if "".join(self._line).strip():
            self._end_line()
        else:
            self._line.clear()
            self._moved()

    def _end_line(self) -> None:
        whole = "".join(self._line)
        line = whole.rstrip() if self._pre else " ".join(whole.split(" ")).strip()
        line = line.removesuffix(" |").rstrip()
        self._lines.append((self._prefix() + line).rstrip())
        self._line.clear()
        self._moved()

    def _moved(self) -> None:
        """What was written before belongs to an earlier line."""
        if self._anchor is not None:
            self._anchor = (self._anchor[0], 0)

    def _prefix(self) -> str:
        return "> " * min(self._depth, _DEEPEST)


def addresses(html: str) -> Iterator[str]:
    """The web addresses of its links, hidden ones too, as they are written."""
    for found in _HREF.finditer(html[:MOST_CHARS]):
        yield entities.unescape(found[1] or found[2] or found[3])


_HREF = re.compile(
    r"\bhref\s*=\s*(?:\"\s*(https?:[^\"<>]*)\"|'\s*(https?:[^'<>]*)'|(https?:[^\s\"'<>]+))", re.IGNORECASE
)
