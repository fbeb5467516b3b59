"""Names in a text by capital letters and quotation marks alone: what a rule can see without any model. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kb.extract import sentence

_TOKEN = re.compile(r"[\w&][\w'\u2019.&/-]*|[^\w\s]")
_CAPITAL = re.compile(r"[A-Z\u00c0-\u00d6\u00d8-\u00de\u0100-\u017d]")
_QUOTED = re.compile('["\u201c]\\s*([^"\u201c\u201d\n]{2,80}?)\\s*["\u201d]')
_PARENTHESIS = re.compile(r"\s*\([^)]*\)\s*$")
_POSSESSIVE = re.compile(r"(?:'s|\u2019s|s'|s\u2019)$")
_NUMBERS = re.compile(r"[\d\s.,/-]+")
_EDGES = " .,'\u2019-&/"
# Small words that names go on over: "Bank of England", "Juan Carlos de Borbon".
_JOINING_WORDS = """
of the de la le van von and & in for to a an on at du del da di der den y with e el al bin ibn from by or des et
und do dos das
"""
_JOINING = frozenset(_JOINING_WORDS.split())
# Words that begin sentences and no names.
_OPENING_WORDS = """
the a an in on at of for from by with to as and or but if when while after before during since until although
though because he she it its his her their they we you i this that these those there then thus however also both
some many most all one two three four five six each who what where why how which whose is are was were will
would can could should may might has have had do does did not no yes so such other another born despite
following under over between among according along hi hello hey thanks just let sure great good maybe plus
really
"""
OPENING = frozenset(_OPENING_WORDS.split())
_MAX_PARTS = 8
_MOST = 200

_Word = tuple[str, int, int]


def find(title: str, text: str) -> list[str]:
    """Names in order of importance: the title, what is quoted, runs of capitalised words and what they are made of."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        clean = _POSSESSIVE.sub("", name.strip(_EDGES)).strip(_EDGES)
        if len(clean) > 2 and clean.casefold() not in OPENING and not _NUMBERS.fullmatch(clean):
            found.setdefault(clean)

    add(title)
    add(_PARENTHESIS.sub("", title))
    for match in _QUOTED.finditer(text):
        if len(match[1].split()) <= 10:
            add(match[1])
    for part in sentence.split(text):
        for run in _runs(part.text):
            for name in _readings(part.text, run):
                add(name)
    return list(found)[:_MOST]


def _runs(text: str) -> Iterator[list[_Word]]:
    """Runs of capitalised words and numbers, with the small words between them."""
    words = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    place = 0
    while place < len(words):
        numbered = words[place][0][0].isdigit() and place + 1 < len(words) and _CAPITAL.match(words[place + 1][0])
        if not (_CAPITAL.match(words[place][0]) or numbered):
            place += 1
            continue
        last, ahead = place, place + 1
        while ahead < len(words):
            before, word = words[ahead - 1][0], words[ahead][0]
            if before.endswith(".") and len(before) > 3 and ahead - 1 == last:
                break
            if _CAPITAL.match(word) or word[0].isdigit():
                last = ahead
            elif word not in _JOINING or ahead - last > 2:
                break
            ahead += 1
        yield words[place : last + 1]
        place = last + 1


def _readings(text: str, run: Sequence[_Word]) -> Iterator[str]:
    """A run as names: all of it, its beginnings and ends, and the parts that small words and possessives leave."""
    words = list(run)
    while len(words) > 1 and words[0][0].casefold() in OPENING and words[0][0].casefold() != "the":
        words = words[1:]
    while words and words[0][0] in _JOINING:
        words = words[1:]
    if not words:
        return
    parts: list[list[_Word]] = [[]]
    for word in words:
        if word[0] in _JOINING:
            parts.append([])
            continue
        parts[-1].append(word)
        if _POSSESSIVE.search(word[0]):
            parts.append([])
    for part in [words, *(part for part in parts if part and len(part) < len(words))]:
        yield from _ends(text, part)


def _ends(text: str, words: Sequence[_Word]) -> Iterator[str]:
    def between(some: Sequence[_Word]) -> str:
        return text[some[0][1] : some[-1][2]]

    yield between(words)
    if words[0][0].casefold() == "the" and len(words) > 1:
        yield between(words[1:])
    if len(words) > _MAX_PARTS:
        return
    for cut in range(1, len(words)):
        if len(words) - cut >= 2 and words[cut][0] not in _JOINING:
            yield between(words[cut:])
        if cut >= 2 and words[cut - 1][0] not in _JOINING:
            yield between(words[:cut])
