"""The words of the trigger of a procedure, and whether a task has them in any form. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PREFIX = 4
"""Letters that two forms of a word have in common at least: "completion", "completed"."""
_TOKEN = re.compile(r"[^\W_]+")
_FILLERS = frozenset(("with", "of", "a", "an", "the", "for", "and", "to", "s", "is", "task", "request"))


class Words:
    """The words of a task, by the letters that two forms of one have in common: a trigger's word is compared with a
    few of them, however long the text is."""

    def __init__(self, found: Iterable[str]) -> None:
        self._by_beginning: dict[str, list[str]] = {}
        for word in frozenset(found):
            self._by_beginning.setdefault(word[:_PREFIX], []).append(word)

    def has(self, wanted: str) -> bool:
        """Whether one of them is a form of `wanted`."""
        beginnings = {wanted[:_PREFIX]}
        if len(wanted) <= _PREFIX:
            # Of a shorter word the other form has an "s" more, or less.
            beginnings |= {f"{wanted}s", wanted[:-1]}
        return any(_same(wanted, word) for one in beginnings for word in self._by_beginning.get(one, ()))


def fits(trigger: str, of_task: Words) -> bool:
    """Whether the task has every word of the trigger, in any form."""
    wanted = tokens(trigger)
    return bool(wanted) and all(of_task.has(one) for one in wanted)


def shares(trigger: str, words: Iterable[str]) -> bool:
    """Whether the trigger has one of these words, in any form."""
    own = tokens(trigger)
    return any(_same(one, word) for one in own for word in words)


def tokens(text: str) -> list[str]:
    """The words of a trigger or a text that say something."""
    return [word for word in _TOKEN.findall(text.casefold()) if word not in _FILLERS]


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < _PREFIX:
        return long == f"{short}s"
    pairs = enumerate(zip(short, long, strict=False))
    common = next((place for place, (left, right) in pairs if left != right), len(short))
    return common >= max(_PREFIX, len(short) - 3)
