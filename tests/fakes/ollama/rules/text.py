"""Plain text: sentences, words, and which sentence matters most."""

from __future__ import annotations

import re
from collections import Counter

from tests.fakes.ollama.rules import vocabulary

_WORD = re.compile(r"[A-Za-zÀ-ž][A-Za-zÀ-ž0-9'\u2019\-]+")
_ABBREVIATIONS = (
    "mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "e.g", "i.e", "etc", "approx", "inc", "ltd", "co", "jan",
    "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
)  # fmt: skip
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-ZÀ-Ž0-9@])")
_MONTH = re.compile(
    r"(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|"
    r"January|February|March|June|July|October|December)\b"
)
_HEADER = re.compile(r"[A-Z][A-Za-z\-]{0,20}(?: [A-Za-z]{1,12})?:\s")
_MARK = re.compile(r"(?:[-*•+]\s+|#{1,6}\s+|(?:>\s?)+|\d{1,2}[.)]\s+)")
_ALONE = re.compile(r"(?:[-*•+]\s|\d{1,2}[.)]\s|#{1,6}\s|>|[A-Z][A-Za-z\-]{0,20}(?: [A-Za-z]{1,12})?:\s|[AMD]\t)")


def spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence stands: text[start:end] is the sentence word for word, line breaks included.

    A blank line, a list item, a quoted line and a `Name: value` line end a sentence too.
    """
    found: list[tuple[int, int]] = []
    for start, end in _blocks(text):
        block, head = text[start:end], 0
        for match in _END.finditer(block):
            if not _goes_on(block[head : match.start()], block[match.end() : match.end() + 10]):
                found.append((start + head, start + len(block[: match.end()].rstrip())))
                head = match.end()
        found.append((start + head, end))
    return [(start, end) for start, end in found if re.search(r"\w", text[start:end])]


def sentences(text: str) -> list[str]:
    """The sentences in order, each on one line."""
    return [" ".join(text[start:end].split()) for start, end in spans(text)]


def words(text: str) -> list[str]:
    """Lower-case words that carry meaning."""
    return [word for word in (match.lower() for match in _WORD.findall(text)) if word not in vocabulary.STOP]


def key_sentences(text: str, count: int) -> list[str]:
    """The `count` sentences that share most words with the whole text, in their order. Deterministic."""
    listed = [sentence for sentence in sentences(text) if len(sentence) > 2]
    weights = Counter(words(text))
    scored = sorted(range(len(listed)), key=lambda i: (-_score(listed[i], weights, i), i))
    return [listed[i] for i in sorted(scored[:count])]


def shorten(text: str, limit: int) -> str:
    """One line of at most `limit` characters, cut at a word."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1].rsplit(" ", 1)[0] or line[: limit - 1]
    return cut.rstrip(" ,;:") + "…"


def _score(sentence: str, weights: Counter[str], position: int) -> float:
    meant = words(sentence)
    if not meant:
        return -1.0
    mean: float = sum(weights[word] for word in meant) / len(meant) ** 0.5
    return mean / (1.0 + 0.05 * position)


def _goes_on(head: str, following: str) -> bool:
    """Whether the full stop at the end of `head` is an abbreviation's, an initial's, or that of `1. 12. 2026`
    or `1. Dezember`."""
    last = re.search(r"([A-Za-z.]+|\d{1,2})\.$", head)
    if last is None:
        return False
    word = last.group(1)
    if word.isdigit():
        return following[0].isdigit() or _MONTH.match(following) is not None
    return word.lower() in _ABBREVIATIONS or re.fullmatch(r"[A-Z]", word) is not None


def _blocks(text: str) -> list[tuple[int, int]]:
    """Runs of lines that belong together, without the marks in front of them."""
    blocks: list[tuple[int, int]] = []
    start = end = offset = 0
    open_block = False
    for raw in text.splitlines(keepends=True):
        line = raw.strip()
        first = offset + (len(raw) - len(raw.lstrip()))
        if open_block and (not line or _ALONE.match(line)):
            blocks.append((start, end))
            open_block = False
        if line:
            if not open_block:
                mark = _MARK.match(line)
                start, open_block = first + (mark.end() if mark else 0), True
            end = first + len(line)
            if _HEADER.match(line):
                blocks.append((start, end))
                open_block = False
        offset += len(raw)
    if open_block:
        blocks.append((start, end))
    return blocks
