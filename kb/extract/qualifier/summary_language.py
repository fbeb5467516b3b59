"""The language that a hard rule asks a summary to be in: the rule for the model, and the check of its answer. Pure.

A summary counts as written in the language whose most frequent words it has most of. Where none, or as many of two, are
found (a name, a number, a word), it is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_WORDS: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "English": "the a an and or of to in is are was were be been that this it for on with as by from at has have "
        "had not will would should can could must about which who their its they we you he she after before until asks "
        "needs there when what if",
        "Czech": "a je se na v ve že s z ze o k ke pro by jsou byl byla bylo být si za po od jako aby který která "
        "které jeho její jejich to ten ta tento tato nebo už až při před není má mají musí lze pokud podle",
        "German": "der die das und ist in zu den von mit dem des ein eine einen einem einer für auf nicht sich es "
        "werden wird wurde als auch an bei nach aus dass sind war hat haben bis soll muss kann oder über vor zum zur "
        "wenn wer ihre ihr",
    }.items()
}
# Of one word that two languages have, neither is known.
_OWN = {
    name: words - frozenset().union(*(others for other, others in _WORDS.items() if other != name))
    for name, words in _WORDS.items()
}
# Letters of one of the three alone.
_LETTERS = {"English": "", "Czech": "ěščřžýůťďňáíéú", "German": "äöüß"}


def rule(language: str | None) -> list[str]:
    """What the model reads; none without a language."""
    return [f"summary is written in {language}, whatever language the document is in."] if language else []


def wrong(language: str | None) -> str:
    """What the model reads after an answer in another language."""
    return f"Your last summary was not in {language}. Write it in {language} and in no other language."


def fits(text: str, language: str | None) -> bool:
    """Whether the text is in the language, or cannot be told to be in another one."""
    if language is None:
        return True
    folded = text.casefold()
    words = re.findall(r"[^\W\d_]+", folded)
    count = {
        name: sum(word in own or any(letter in _LETTERS[name] for letter in word) for word in words)
        for name, own in _OWN.items()
    }
    return count[language] >= max(count.values())
