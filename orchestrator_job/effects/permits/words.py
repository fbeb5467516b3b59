"""The words of texts, and whether a name stands among them. Pure.

Compared are canonical words: Unicode NFKC, case folded, without the punctuation around them. A name in compatibility
forms of letters or with invisible characters equals no word of a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence, Set

from contracts.rules import enforce_lines

_LIMITS = re.compile(r"""[\s<>()\[\]{}"|,;«»“”„‹›，；、。]+""")  # noqa: RUF001
_AROUND = ".:!?*_~…·•-–—=&'`‚‘’"  # noqa: RUF001
_URL = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?(?P<host>[^/?#:]+|\[[^]]*\])(?P<port>:\d+)?(?P<path>/[^?#]*)?")
_SCHEMES = ("mailto:",)
_HOST = re.compile(r"^[^\s@/:]+\.[^\s@/:.]+$")
_NUMBERED = re.compile(r"^(?:\d{1,12}|[a-z][a-z0-9_]*-\d{1,12})$")
_PART = re.compile(r"^(?:to|cc|bcc|from|an|kopie|komu)[:=](?=\S*@)")


class Words:
    """A text as its words, each with the other ways in which it names the same: the host of an address on the web."""

    __slots__ = ("_at", "_words")

    def __init__(self, texts: Iterable[str]) -> None:
        self._words: list[frozenset[str]] = []
        self._at: dict[str, list[int]] = {}
        known: dict[str, frozenset[str]] = {}
        for text in texts:
            for word in split(text):
                if word not in known:
                    known[word] = forms(word)
                self._add(known[word])
            # A name does not go on from one text into the next.
            self._add(frozenset())

    def _add(self, named: frozenset[str]) -> None:
        for form in named:
            self._at.setdefault(form, []).append(len(self._words))
        self._words.append(named)

    @property
    def vocabulary(self) -> Set[str]:
        """Each of its words once."""
        return self._at.keys()

    def names(self, wanted: Sequence[str]) -> bool:
        """Whether these words stand in the text, one after another."""
        if not wanted:
            return False
        # From the rarest word: a common one stands in a thousand places.
        found = [self._at.get(word, []) for word in wanted]
        rarest = min(range(len(wanted)), key=lambda step: len(found[step]))
        return any(self._stands(place - rarest, wanted) for place in found[rarest])

    def _stands(self, first: int, wanted: Sequence[str]) -> bool:
        if first < 0 or first + len(wanted) > len(self._words):
            return False
        return all(word in self._words[first + step] for step, word in enumerate(wanted))


def squeezed(text: str) -> str:
    """Its letters and digits alone, folded: in whatever parts it is written."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def name(aim: str) -> tuple[str, ...] | None:
    """The words of a name; None when it is empty, or not plainly what it looks like."""
    plain = unicodedata.normalize("NFC", aim)
    if unicodedata.normalize("NFKC", plain) != plain or any(_hidden(one) for one in plain):
        return None
    return tuple(split(plain)) or None


def _hidden(one: str) -> bool:
    return unicodedata.category(one) in ("Cf", "Cc", "Co", "Cn", "Cs")


def split(text: str) -> list[str]:
    """The canonical words of a text, in their order."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for part in _LIMITS.split(folded) if (word := trimmed(part))]


def trimmed(word: str) -> str:
    """A word without what surrounds it; `word` is folded already."""
    word = word.strip(_AROUND)
    for scheme in _SCHEMES:
        word = word.removeprefix(scheme)
    return _PART.sub("", word).rstrip("/").lstrip("#@").strip(_AROUND)


def forms(word: str) -> frozenset[str]:
    """The word, and what else it names: of an address on the web its host, the first two parts of its path
    (a repository) and a number at its end (an issue)."""
    forms = {word}
    if "." not in word and ":" not in word:
        return frozenset(forms)
    found = _URL.match(word)
    if found is None:
        if _HOST.match(word):
            forms.add(enforce_lines.hostname(word))
        return frozenset(forms)
    host = enforce_lines.hostname(found["host"])
    forms |= {found["host"], host, word.partition("://")[2]}
    if found["port"]:
        forms.add(host + found["port"])
    parts = [part for part in (found["path"] or "").split("/") if part]
    if len(parts) > 1 and "@" not in parts[0] + parts[1]:
        forms.add(f"{parts[0]}/{parts[1].removesuffix('.git')}")
    if len(parts) > 1 and _NUMBERED.match(parts[-1]):
        forms.add(parts[-1])
    return frozenset(forms)
