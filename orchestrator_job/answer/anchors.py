"""What of a statement does not depend on its language: numbers and dates, identifiers, names. Pure.

A statement is compared by it with a text of another language, whose words say nothing. A number may be written out
there: small ones of four languages are known, and in others a small number that is missing is no contradiction.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

# Thai, Lao, Myanmar, Khmer; kana; Chinese characters. Marks of vowels are no letters, and go.
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
"""Letters of scripts that put no blanks between words."""
_BESIDE = re.compile(rf"(?:{UNSPACED.pattern}|[\uac00-\ud7af]+)+")
_TOKEN = re.compile(r"""[^\s,;()\[\]{}<>"'„“”«»‚‘’、。，；：！？「」『』（）]+""")  # noqa: RUF001
_AROUND = ".:!?*_~-–—`"  # noqa: RUF001
_MEASURE = re.compile(r"[\d.,:/-]*\d[^\W\d_]{1,4}|[^\W\d_]{1,4}\d+[.,]\d+")
"""A number with its unit or its ordinal ending, such as 10GB or 6th."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)\S*")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:[  ]\d{3})+(?!\d)")
_HALF_DAY = re.compile(r"(?<!\d)(1[0-2]|0?[1-9])(:[0-5]\d)?\s?([ap])\.?m\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_STEM = 4
_SMALL = 12
_WRITTEN = {
    "en": "one first/two second twice/three third/four fourth/five fifth/six sixth/seven seventh/eight eighth/"
    "nine ninth/ten tenth/eleven eleventh/twelve twelfth",
    "de": "ein eine einen einem einer eins erste ersten/zwei zweite zweiten/drei dritte dritten/vier vierte vierten/"
    "fünf/sechs/sieben/acht/neun/zehn/elf/zwölf",
    "cs": "jeden jedna jedno jednu jedné první/dva dvě dvou druhý druhá/tři tří třetí/čtyři čtyř/pět pěti/šest šesti/"
    "sedm sedmi/osm osmi/devět devíti/deset deseti/jedenáct/dvanáct",
    "sk": "jeden jedna jedno jednu prvý prvá/dva dve dvoch druhý druhá/tri troch tretí/štyri štyroch/päť piatich/šesť/"
    "sedem/osem/deväť/desať/jedenásť/dvanásť",
}
_WRITTEN_NUMBERS = {
    language: {word: str(number) for number, words in enumerate(text.split("/"), 1) for word in words.split()}
    for language, text in _WRITTEN.items()
}
_NOUNS_IN_CAPITALS = ("de", "lb")
_CAPITALS = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december"
)
_NO_NAMES = frozenset(_CAPITALS.split())
"""Words that English writes with a capital."""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Of one statement."""

    numbers: frozenset[str]
    identifiers: frozenset[str]
    names: frozenset[str]

    @classmethod
    def of(cls, statement: str, language: str | None) -> Anchors:
        """`language` is that of the statement, ISO 639-1: in some of them capitals are no sign of a name."""
        plain = _without_foreign_letters(statement)
        identifiers, rest = _split(plain)
        words = _WORD.findall(rest)
        # The first word of a sentence has a capital anyway.
        first = _WORD.search(statement)
        names = words[1:] if first is not None and words[:1] == [first.group()] else words
        names = [word for word in names if word[:1].isupper() and len(word) > 1 and word.lower() not in _NO_NAMES]
        return cls(
            numbers=frozenset(_NUMBER.findall(_joined(_whole_day(rest)))),
            identifiers=frozenset(identifiers),
            names=frozenset(map(_bare, names)) if language not in _NOUNS_IN_CAPITALS else frozenset(),
        )

    def tell(self) -> bool:
        """Whether a text that has all of them is about the same: a single number stands in many."""
        return bool(self.identifiers or self.names) or len(self.numbers) > 1

    def numbered(self, text: Text) -> bool:
        """Whether all numbers and identifiers stand there."""
        return all(map(text.has, self.identifiers)) and all(map(text.counts, self.numbers))

    def named(self, text: Text) -> bool:
        """Whether all names stand there, in any form of the word."""
        return all(name[:_STEM] in text.stems for name in self.names)


class Text:
    """A text that statements are compared with. `language` is ISO 639-1, None: not known."""

    def __init__(self, text: str, language: str | None) -> None:
        self._text = text
        self._written = _WRITTEN_NUMBERS.get(language or "")

    @functools.cached_property
    def stems(self) -> frozenset[str]:
        """Beginnings of its words."""
        return frozenset(_bare(word)[:_STEM] for word in _WORD.findall(unicodedata.normalize("NFKC", self._text)))

    def has(self, identifier: str) -> bool:
        """Whether the identifier stands there by itself."""
        return re.search(rf"(?<!\w){re.escape(identifier)}(?!\w)", self._folded) is not None

    def counts(self, number: str) -> bool:
        """Whether the number stands there, in figures or written out, or may do so."""
        whole = re.sub(r"\D", "", number).lstrip("0") or "0"
        parts = [part.lstrip("0") or "0" for part in re.split(r"\D", number)]
        if whole in self._numbers or all(part in self._numbers or part == "0" for part in parts):
            return True
        return len(parts) == 1 and self._written is None and len(whole) < 3 and int(whole) <= _SMALL

    @functools.cached_property
    def _plain(self) -> str:
        return _without_foreign_letters(self._text)

    @functools.cached_property
    def _folded(self) -> str:
        return self._plain.casefold()

    @functools.cached_property
    def _numbers(self) -> frozenset[str]:
        # The 7 of vega-7 is none of its numbers.
        rest = _split(self._plain)[1]
        found = _forms(number for text in (rest, _joined(rest), _whole_day(rest)) for number in _NUMBER.findall(text))
        written = self._written or {}
        return frozenset(found | {written[word] for word in _WORD.findall(self._folded) if word in written})


def _split(text: str) -> tuple[set[str], str]:
    """Its identifiers, and the text without them."""
    found: set[str] = set()

    def take(token: re.Match[str]) -> str:
        bare = token.group().strip(_AROUND).casefold()
        lettered = any(letter.isalpha() for letter in bare)
        numbered = any(letter.isdigit() for letter in bare) and not _MEASURE.fullmatch(bare)
        if not lettered or not (numbered or any(mark in bare for mark in ("@", "_", "::"))):
            return token.group()
        found.add(bare)
        return " "

    return found, _TOKEN.sub(take, _TIME.sub(r"\1 \2 ", text))


def _without_foreign_letters(text: str) -> str:
    """NFKC, and a blank for letters that stand beside an identifier without one."""
    return _BESIDE.sub(" ", unicodedata.normalize("NFKC", text))


def _joined(text: str) -> str:
    """10 000 without the blank."""
    return _GROUPED.sub(lambda found: re.sub(r"\D", "", found.group()), text)


def _whole_day(text: str) -> str:
    """3 pm as 15."""

    def hour(found: re.Match[str]) -> str:
        return f"{int(found[1]) % 12 + (12 if found[3] in 'pP' else 0)}{found[2] or ''}"

    return _HALF_DAY.sub(hour, text)


def _forms(numbers: Iterable[str]) -> set[str]:
    """Their digits as a whole, and each of their parts: 2026-03-06 has a 6."""
    found: set[str] = set()
    for one in numbers:
        parts = re.split(r"\D", one)
        found |= {"".join(parts).lstrip("0") or "0", *(part.lstrip("0") or "0" for part in parts)}
    return found


def _bare(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
