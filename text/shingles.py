"""Shingles of a text (w-shingling): by what of it a copy is found in another text, in any script. Pure.

A copy repeats one of three things:

    words       `WORDS` words in a row. Words are segments by Unicode's default word boundaries (UAX 29). In scripts
                without blanks between words, where those boundaries part characters, `CHARACTERS` of them count as much
    a number    `DIGITS` digits or more, of any script, also in groups ("7 713", "77-13"), and each word that has so
                many digits among its letters, as keys and checksums have
    an address  of mail or of the web, with or without its scheme, and the host in it

Compared are folded texts: compatibility forms (NFKD), case, accents and characters that cannot be seen make no
difference. Finding what two texts share takes a time that grows with the length of both together.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence

import regex

WORDS = 5
"""Words in a row that are no chance."""
CHARACTERS = 8
"""Characters in a row that count as `WORDS` words, in scripts without blanks: about five words of Chinese."""
DIGITS = 4
"""Digits of a number that is no chance."""
_MOST_DIGITS = 20
"""Digits of the longest number that is put together from groups."""
_BOUNDARY = regex.compile(r"(?w)\b", regex.V1)
_WORD = regex.compile(r"[\p{L}\p{N}]")
_BETWEEN = regex.compile(r"[^\p{L}\p{N}]+")
_PART = regex.compile(r"(?:\p{N}[^\p{L}\p{N}'\u2019]+(?=\p{N})|[\p{L}\p{N}'\u2019])+")
"""Of a segment of UAX 29, which joins words by signs that names of branches, files and hosts are made of (`a_b.c:d`),
one of these words; the groups of a number stay together."""
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_IGNORED = regex.compile(r"[\p{Mn}\p{Me}\p{Cf}\p{Default_Ignorable_Code_Point}]+")
_DIGIT = regex.compile(r"[\p{Nd}--[0-9]]", regex.V1)
_CLUSTER = regex.compile(r"[\x00-\x7f]+(?![\p{M}\u200d])|\X")
_CHAIN = regex.compile(r"[0-9]++(?:[^\p{L}\p{N}]{1,3}[0-9]++)*+")
_GROUP = re.compile("[0-9]+")
_CHUNK = re.compile(r"[^\s<>\"]+")
_MAIL = regex.compile(r"(?<![^()\[\]{}',;:@\\])[^()\[\]{}',;:@\\]++@[\p{L}\p{N}](?:[\p{L}\p{N}.-]*[\p{L}\p{N}])?")
_WEB = regex.compile(
    r"(?<![\p{L}\p{N}@._-])(?:[a-z][a-z0-9+.-]{0,30}://(?:[^\s/@]*@)?)?"
    r"(?P<rest>(?P<host>(?:[\p{L}\p{N}_](?:[\p{L}\p{N}_-]*[\p{L}\p{N}])?\.)++\p{L}(?:[\p{L}\p{N}-]*[\p{L}\p{N}]))"
    r"(?::[0-9]{1,5})?(?:[/?#].*)?)(?![\p{L}\p{N}@])"
)
_TRAILING = ".,;:!?)]}/'*_`"
_WORD_WEIGHT, _CHARACTER_WEIGHT = CHARACTERS, WORDS
_ENOUGH = WORDS * CHARACTERS
_STRETCH = re.compile(b"\x01{%d,}" % min(WORDS, CHARACTERS))

Span = tuple[int, int]


def fold(text: str) -> str:
    """The form in which texts are compared; digits are those of ASCII."""
    if text.isascii():
        return text.casefold()
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    seen: str = _IGNORED.sub("", plain)
    return "".join(map(_digit, seen)) if _DIGIT.search(seen) else seen


def _digit(letter: str) -> str:
    return str(unicodedata.digit(letter)) if letter.isdecimal() else letter


class Shingled:
    """A text that copies are looked for of. What is found in it is kept: a text is asked about again and again."""

    def __init__(self, text: str) -> None:
        self._text = text

    @functools.cached_property
    def _folded(self) -> str:
        return fold(self._text)

    @functools.cached_property
    def words(self) -> tuple[str, ...]:
        """The folded words, in order."""
        return tuple(word for word, _ in _words(self._folded))

    @functools.cached_property
    def weights(self) -> bytes | None:
        """Of each word; None where each counts as a word of a script with blanks."""
        return _weights(self.words) if _UNSPACED.search(self._folded) else None

    @functools.cached_property
    def chains(self) -> tuple[tuple[str, ...], ...]:
        """The groups of digits, and which of them may be one number."""
        return tuple(tuple(_GROUP.findall(match[0])) for match in _CHAIN.finditer(self._folded))

    @functools.cached_property
    def codes(self) -> frozenset[str]:
        """The words with digits among their letters."""
        return frozenset(word for word, _ in _segments(self._folded) if _is_code(word))

    @functools.cached_property
    def addresses(self) -> frozenset[str]:
        """In each of their forms."""
        return frozenset(form for form, _ in _addresses(self._folded))


class Probe:
    """The text of which is asked what another one has of it. Spans are those of the text as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text
        folded, self._places = _mapped(text)
        found = list(_words(folded))
        words = [word for word, _ in found]
        self._windows: dict[tuple[str, ...], list[Span]] = {}
        for start, end in _windows(words, _weights(words) if _UNSPACED.search(folded) else None):
            span = (found[start][1][0], found[end - 1][1][1])
            self._windows.setdefault(tuple(words[start:end]), []).append(span)
        self._vocabulary = frozenset(words)
        self._numbers: dict[str, list[Span]] = {}
        for match in _CHAIN.finditer(folded):
            groups = [(group[0], match.start() + group.start()) for group in _GROUP.finditer(match[0])]
            for number, first, last in _numbers([group for group, _ in groups]):
                span = (groups[first][1], groups[last][1] + len(groups[last][0]))
                self._numbers.setdefault(number, []).append(span)
        self._beginnings = frozenset(
            number[:length] for number in self._numbers for length in range(1, len(number) + 1)
        )
        self._codes: dict[str, list[Span]] = {}
        for word, span in _segments(folded):
            if _is_code(word):
                self._codes.setdefault(word, []).append(span)
        self._addresses: dict[str, list[Span]] = {}
        for form, span in _addresses(folded):
            self._addresses.setdefault(form, []).append(span)

    def without(self, own: Shingled) -> None:
        """What this text has counts as copied no more."""
        for window in self._of_words(own):
            del self._windows[window]
        for number in self._of_numbers(own):
            del self._numbers[number]
        for code in self._codes.keys() & own.codes:
            del self._codes[code]
        for address in self._addresses.keys() & own.addresses:
            del self._addresses[address]

    def copied(self, other: Shingled) -> tuple[Span, ...]:
        """Where it repeats the other text, in order; what touches is one span."""
        spans = [span for window in self._of_words(other) for span in self._windows[window]]
        spans += [span for number in self._of_numbers(other) for span in self._numbers[number]]
        spans += [span for code in self._codes.keys() & other.codes for span in self._codes[code]]
        spans += [span for form in self._addresses.keys() & other.addresses for span in self._addresses[form]]
        return tuple(self._written(span) for span in _joined(spans))

    def _written(self, span: Span) -> Span:
        if self._places is None:
            return span
        return self._places[span[0]], self._places[span[1]]

    def _of_words(self, other: Shingled) -> set[tuple[str, ...]]:
        if not self._windows:
            return set()
        words, weights = other.words, other.weights
        known = bytes(map(self._vocabulary.__contains__, words))
        shared: set[tuple[str, ...]] = set()
        for stretch in _STRETCH.finditer(known):
            start, end = stretch.span()
            part = words[start:end]
            for first, last in _windows(part, None if weights is None else weights[start:end]):
                window = part[first:last]
                if window in self._windows:
                    shared.add(window)
        return shared

    def _of_numbers(self, other: Shingled) -> set[str]:
        if not self._numbers:
            return set()
        return {
            number
            for chain in other.chains
            for number, _, _ in _numbers(chain, self._beginnings)
            if number in self._numbers
        }


def _words(folded: str) -> Iterator[tuple[str, Span]]:
    """The letters and digits of each word, and where it stands."""
    for segment, (at, end) in _segments(folded, joined=False):
        if segment.isalnum():
            yield segment, (at, end)
        else:
            for part in _PART.finditer(segment):
                if word := _BETWEEN.sub("", part[0]):
                    yield word, (at + part.start(), at + part.end())


def _segments(folded: str, *, joined: bool = True) -> Iterator[tuple[str, Span]]:
    """The segments that have a letter or a digit, and where each stands; `joined`: these alone, without what is between
    them."""
    at = 0
    for segment in _BOUNDARY.split(folded):
        end = at + len(segment)
        if segment.isalnum():
            yield segment, (at, end)
        elif _WORD.search(segment):
            yield _BETWEEN.sub("", segment) if joined else segment, (at, end)
        at = end


def _is_code(word: str) -> bool:
    return not word.isdigit() and sum(map(str.isdigit, word)) >= DIGITS


def _weights(words: Sequence[str]) -> bytes:
    return bytes(_CHARACTER_WEIGHT if len(word) == 1 and _UNSPACED.match(word) else _WORD_WEIGHT for word in words)


def _windows(words: Sequence[str], weights: bytes | None) -> Iterator[Span]:
    """From each word on the fewest in a row that are enough, as the first and the one behind the last."""
    if weights is None:
        yield from zip(range(len(words) - WORDS + 1), range(WORDS, len(words) + 1), strict=True)
        return
    end = weight = 0
    for start, own in enumerate(weights):
        while weight < _ENOUGH and end < len(weights):
            weight += weights[end]
            end += 1
        if weight < _ENOUGH:
            return
        yield start, end
        weight -= own


def _numbers(groups: Sequence[str], beginnings: Collection[str] | None = None) -> Iterator[tuple[str, int, int]]:
    """The numbers that successive groups of digits make, each with its first and its last group; only those that begin
    as one of `beginnings`, if it is given."""
    for first in range(len(groups)):
        number = ""
        for last in range(first, len(groups)):
            number += groups[last]
            if (last > first and len(number) > _MOST_DIGITS) or (beginnings is not None and number not in beginnings):
                break
            if len(number) >= DIGITS:
                yield number, first, last


def _addresses(folded: str) -> Iterator[tuple[str, Span]]:
    for chunk in _CHUNK.finditer(folded):
        text, at = chunk[0], chunk.start()
        for match in _MAIL.finditer(text) if "@" in text else ():
            yield match[0], (at + match.start(), at + match.end())
        for match in _WEB.finditer(text) if "." in text[1:-1] else ():
            rest = match["rest"].rstrip(_TRAILING)
            start = at + match.start("rest")
            yield rest.removeprefix("www."), (start, start + len(rest))
            yield match["host"].removeprefix("www."), (start, start + len(match["host"]))


def _joined(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _mapped(text: str) -> tuple[str, list[int] | None]:
    """The folded text, and where each of its characters begins in the text as it is written, and its end; None: at the
    same place."""
    folded = fold(text)
    if text.isascii():
        return folded, None
    pieces: list[str] = []
    places: list[int] = []
    for match in _CLUSTER.finditer(text):
        piece = fold(match[0])
        pieces.append(piece)
        if match[0].isascii() and len(piece) == len(match[0]):
            places += range(match.start(), match.end())
        else:
            places += itertools.repeat(match.start(), len(piece))
    return "".join(pieces), [*places, len(text)]
