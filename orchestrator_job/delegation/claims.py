"""Statements of agents: which of them the evidence supports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = "[unconfirmed]"
"""Stands behind a statement that nothing supports. It is the same in each language, so that programs find it."""
MOST = 12
"""Statements of one answer that are looked up."""
_LEAST_WORDS = 4
_SHARE = 0.6
"""Share of a statement's longer words that its support has."""
_LONG = 4

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BRACKETED = re.compile(r"[ \t]*\[[^\[\]\n]*\]")
_BULLET = re.compile(r"^[ \t]*(?:[-*•#>|]+|\d{1,3}[.)])[ \t]*")
_END = re.compile(r"(?<=[.!?。？！])\s+")  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


def statements(text: str) -> list[str]:
    """The sentences of a report that state something: no questions, no code, no sources in brackets."""
    found: list[str] = []
    for line in _BRACKETED.sub("", _CODE.sub("", text)).split("\n"):
        for sentence in _END.split(_BULLET.sub("", line)):
            plain = " ".join(sentence.split())
            if len(_WORD.findall(plain)) >= _LEAST_WORDS and not plain.endswith(("?", "？", ":")):  # noqa: RUF001
                found.append(plain)
    return list(dict.fromkeys(found))


def supported(statement: str, passages: Iterable[str]) -> bool:
    """Whether one of the passages has most of the statement's longer words, and all of its numbers.

    It says that the statement is about something that is written there, not that it is right: whether the two agree is
    for the model, which gets both.
    """
    wanted = {word for word in _words(statement) if len(word) >= _LONG}
    numbers = set(_NUMBER.findall(statement))
    for passage in passages:
        has = _words(passage)
        stems = {word[:_LONG] for word in has}
        common = sum(word in has or word[:_LONG] in stems for word in wanted)
        if numbers <= set(_NUMBER.findall(passage)) and common >= _SHARE * len(wanted):
            return True
    return False


def marked(answer: str, unconfirmed: Iterable[str]) -> str:
    """The answer with the mark behind each of these statements that it repeats without one."""
    for statement in unconfirmed:
        bare = statement.rstrip(".!。！ ")  # noqa: RUF001
        pattern = re.compile(r"\s+".join(map(re.escape, bare.split())) + r"(?!\s*\[unconfirmed\])", re.IGNORECASE)
        answer = pattern.sub(lambda found: f"{found.group()} {MARK}", answer)
    return answer


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
