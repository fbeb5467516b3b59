"""The words of a text, as names are compared and keyword search counts them: any script, any inflection. Pure.

A word stands for itself and for its stem, so that "Novákovou" meets "Nováková" and an exact form still counts more. A
question is too short to tell its language from, and a text may mix several; so the stem of a word is the shortest that
the stemmers of its script give (Snowball). Scripts without spaces between words are cut into pairs of characters.
"""

from __future__ import annotations

import functools
import itertools
import threading
import unicodedata
from collections.abc import Iterator

import regex
import Stemmer

# Part of what a store says of its index: changes when `terms` gives others for the same text.
VERSION = 1

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc\u3005"
_WORD = regex.compile(
    rf"[{_UNSPACED}][{_UNSPACED}\p{{M}}]*|[\p{{L}}\p{{N}}][\p{{L}}\p{{N}}\p{{M}}--[{_UNSPACED}]]*", regex.V1
)
_WRITTEN = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|[\S--[{_UNSPACED}]]+", regex.V1)
_UNSPACED_CHARACTER = regex.compile(rf"[{_UNSPACED}]")
# Diacritics of alphabets alone: the voice mark of kana and the vowel signs of Indian scripts tell words apart.
_MARK = regex.compile(r"[\u0300-\u036f]")
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "ı": "i"})
_STEMMERS = {
    "LATIN": ("english", "german", "czech"),
    "CYRILLIC": ("russian",),
    "GREEK": ("greek",),
    "ARMENIAN": ("armenian",),
    "ARABIC": ("arabic",),
    "DEVANAGARI": ("hindi",),
    "TAMIL": ("tamil",),
}
# A shorter stem says too little of what the word was.
_SHORTEST = 3
# What Slavic declension changes before an ending: a vowel that comes and goes (Karel, Karla), a softened consonant
# (Praha, Praze). Applied to all stems of these scripts, so that it does not depend on the language.
_FLEETING = regex.compile(r"(?<=[^aeiouyаеиоуыэюя])[eе](?=[lkcnrлкцнр]$)")
_ENDING = regex.compile(r"(?<=...)[aeiouyаеиоуыэюяьъ]+$")
_SOFT = str.maketrans({"c": "k", "z": "h", "ц": "к"})
_SHORT_WORD = 3
# Lucene's list, which Weaviate would leave out if it made the words.
_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_STOP = frozenset(_STOP_WORDS.split())
_local = threading.local()


def plain(text: str) -> str:
    """A text in the one form of Unicode in which texts are compared: composed (NFC), one case, one kind of space."""
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()


def unspaced(text: str) -> bool:
    """Whether a text begins with a character of a script that puts no spaces between words."""
    return _UNSPACED_CHARACTER.match(text) is not None


def fold(text: str) -> str:
    """Without the diacritics of alphabets: "Dvořák" as "dvorak" where the text was lower case."""
    return unicodedata.normalize("NFC", _MARK.sub("", unicodedata.normalize("NFD", text))).translate(_LETTERS)


def places(text: str) -> list[tuple[int, int]]:
    """Where the words of `text` begin and end as it is written, punctuation included."""
    return [match.span() for match in _WRITTEN.finditer(text)]


def split(text: str) -> list[str]:
    """The words in order, in lower case; a run of a script without spaces is one word."""
    return [match.group() for match in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold())]


def units(text: str) -> list[str]:
    """The words in order, in lower case; of a script without spaces each character for itself."""
    return [unit for word in split(text) for unit in (word if unspaced(word) else (word,))]


@functools.lru_cache(maxsize=65536)
def stem(word: str, *, folded: bool = True) -> str:
    """What a lower-case word has in common with its other forms."""
    script = unicodedata.name(word[:1], "").partition(" ")[0]
    short, before = word, ""
    # Again, because the next stemmer may know the ending that another one leaves: "Ivanovym", "Ivanov", "Ivan".
    while short != before:
        before = short
        stems = [before, *(_stemmer(language).stemWord(before) for language in _STEMMERS.get(script, ()))]
        short = min((one for one in stems if len(one) >= _SHORTEST), key=lambda one: (len(one), one), default=word)
    short = fold(short) if folded else short
    if script not in ("LATIN", "CYRILLIC") or not short.isalpha():
        return short
    steady = _FLEETING.sub("", _ENDING.sub("", short))
    return steady[:-1] + steady[-1].translate(_SOFT) if len(steady) >= _SHORTEST else short


@functools.lru_cache(maxsize=4096)
def stems(text: str) -> tuple[str, ...]:
    """The stems of the `units` in order."""
    return tuple(stem(unit) for unit in units(text))


def terms(text: str, *, folded: bool = True) -> list[str]:
    """What a text is searched by: each word, its stem where that differs, and pairs of unspaced characters."""
    return [term for forms in _forms(text, folded=folded) for term in dict.fromkeys(forms)]


def asked(question: str, *, folded: bool = True) -> list[str]:
    """The terms of a question. One that comes twice counts twice: a word that is its own stem is found as both.

    Short words are mostly those of grammar, and count once.
    """
    return [
        term
        for forms in _forms(question, folded=folded)
        for term in (forms if len(forms[0]) > _SHORT_WORD else dict.fromkeys(forms))
    ]


def vocabulary(text: str, *, folded: bool = True) -> set[str]:
    """The `terms` of a text, once each."""
    return {term for word in set(split(text)) for forms in _forms_of(word, folded=folded) for term in forms}


def content(question: str, *, folded: bool = True) -> list[tuple[str, ...]]:
    """The forms of each word of a question that says what it is about, once each: words of grammar are short."""
    said = dict.fromkeys(_forms(question, folded=folded))
    return [forms for forms in said if len(forms[0]) > _SHORT_WORD or unspaced(forms[0]) or forms[0].isdigit()]


def _forms(text: str, *, folded: bool) -> Iterator[tuple[str, ...]]:
    """Of each word as it is written and as its stem, or a pair of characters; no words of English grammar."""
    for word in split(text):
        yield from _forms_of(word, folded=folded)


def _forms_of(word: str, *, folded: bool) -> Iterator[tuple[str, ...]]:
    if unspaced(word):
        yield from ((pair,) for pair in _pairs(word))
    elif word not in _STOP:
        yield fold(word) if folded else word, stem(word, folded=folded)


def _pairs(run: str) -> Iterator[str]:
    return map("".join, itertools.pairwise(run)) if len(run) > 1 else iter((run,))


def _stemmer(language: str) -> Stemmer.Stemmer:
    """One of this thread's own: a stemmer is not to be used by two at once."""
    known: dict[str, Stemmer.Stemmer] | None = getattr(_local, "known", None)
    if known is None:
        known = _local.known = {}
    if language not in known:
        known[language] = Stemmer.Stemmer(language, 0)
    return known[language]
