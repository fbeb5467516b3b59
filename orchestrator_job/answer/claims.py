"""Statements of agents: which of them the evidence supports. Pure."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from enum import StrEnum

from orchestrator_job.answer import anchors
from text import language

MARK = "[unconfirmed]"
"""Stands behind a statement that nothing supports. It is the same in each language, so that programs find it."""
NOT_CHECKED = "[not checked]"
"""Stands behind a statement in another language than its evidence, where nothing else could be compared."""
MOST = 12
"""Statements of one answer that are looked up."""
_LEAST_WORDS = 4
_SHARE = 0.6
"""Share of a statement's longer words that its support has."""
_LONG = 4
_SHARE_UNSPACED = 0.5
"""The same of pairs of letters, in scripts that put no blanks between words."""
_READ = 2000
"""Characters of a passage whose language is looked at."""

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BRACKETED = re.compile(r"[ \t]*\[[^\[\]\n]*\]")
_BULLET = re.compile(r"^[ \t]*(?:[-*•#>|]+|\d{1,3}[.)])[ \t]*")
# Behind "6." goes on a date.
_END = re.compile(r"(?<![\s(]\d\.)(?<![\s(]\d\d\.)(?<=[.!?])\s+|(?<=[。？！｡])(?![」』）”])\s*")  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


class Support(StrEnum):
    """What a look into the evidence gave for a statement. UNCHECKED: it is in another language."""

    FOUND = "found"
    NONE = "none"
    UNCHECKED = "unchecked"


def statements(text: str) -> list[str]:
    """The sentences of a report that state something: no questions, no code, no sources in brackets."""
    found: list[str] = []
    for line in _BRACKETED.sub("", _CODE.sub("", text)).split("\n"):
        for sentence in _END.split(_BULLET.sub("", line)):
            plain = " ".join(sentence.split())
            if _length(plain) >= _LEAST_WORDS and not plain.endswith(("?", "？", ":", "：")):  # noqa: RUF001
                found.append(plain)
    return list(dict.fromkeys(found))


class Passage:
    """A text that statements are compared with: what is compared is taken from it once."""

    def __init__(self, text: str) -> None:
        self._text = unicodedata.normalize("NFKC", text)

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """And what they begin with."""
        words = _words(self._text)
        return frozenset(words | {word[:_LONG] for word in words})

    @functools.cached_property
    def pairs(self) -> frozenset[str]:
        """Neighbouring letters of scripts without blanks."""
        return frozenset(_pairs(self._text))

    @functools.cached_property
    def numbers(self) -> frozenset[str]:
        """As they are written."""
        return frozenset(_NUMBER.findall(self._text))

    @functools.cached_property
    def language(self) -> str | None:
        """ISO 639-1; None where the text says too little."""
        return language.detect(self._text[:_READ])

    @functools.cached_property
    def anchors(self) -> anchors.Text:
        """For statements in another language."""
        return anchors.Text(self._text, self.language)


def supported(statement: str, passages: Iterable[Passage]) -> bool:
    """Whether one of the passages has most of the statement's longer words, and all of its numbers.

    It says that the statement is about something that is written there, not that it is right: whether the two agree is
    for the model, which gets both.
    """
    statement = unicodedata.normalize("NFKC", statement)
    wanted = {word for word in _words(statement) if len(word) >= _LONG}
    pairs, numbers = _pairs(statement), set(_NUMBER.findall(statement))
    for passage in passages:
        common = sum(word in passage.words or word[:_LONG] in passage.words for word in wanted)
        enough = common >= _SHARE * len(wanted) and len(pairs & passage.pairs) >= _SHARE_UNSPACED * len(pairs)
        if enough and numbers <= passage.numbers:
            return True
    return False


def support(statement: str, spoken: str, passages: Sequence[Passage]) -> Support:
    """What the passages give for a statement in the language `spoken`, ISO 639-1.

    Words of another language are not compared. Of passages in another one the statement is supported by numbers,
    dates, identifiers and names, all of which one of them has; it is not, where none has all of its numbers and
    identifiers; and it is unchecked where there are too few of them to say anything.
    """
    if supported(statement, passages):
        return Support.FOUND
    own = anchors.Anchors.of(statement, spoken)
    foreign = (one.anchors for one in passages if one.language not in (None, spoken))
    near = [text for text in foreign if own.numbered(text)]
    if not near:
        return Support.NONE
    return Support.FOUND if own.tell() and any(map(own.named, near)) else Support.UNCHECKED


def marked(answer: str, statements: Iterable[str], mark: str = MARK) -> str:
    """The answer with the mark behind each of these statements that it repeats without one."""
    for statement in statements:
        bare = statement.rstrip(".!。！ ")  # noqa: RUF001
        repeated = r"\s+".join(map(re.escape, bare.split()))
        pattern = re.compile(repeated + rf"(?!\s*{re.escape(mark)})", re.IGNORECASE)
        answer = pattern.sub(lambda found: f"{found.group()} {mark}", answer)
    return answer


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(anchors.UNSPACED.sub(" ", text))}


def _length(text: str) -> int:
    """In words; two letters of a script without blanks are about one."""
    runs = anchors.UNSPACED.findall(text)
    return len(_WORD.findall(anchors.UNSPACED.sub(" ", text))) + sum((len(run) + 1) // 2 for run in runs)


def _pairs(text: str) -> set[str]:
    """Neighbouring letters of scripts without blanks."""
    return {run[place : place + 2] for run in anchors.UNSPACED.findall(text) for place in range(len(run) - 1)}
