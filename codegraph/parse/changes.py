"""Which declarations of a file a commit added, changed and removed, from the file before it and after it. Pure.

A declaration is changed where its own lines are: those between its name and its end that belong to no declaration
inside of it, and the decorators, attributes and comments directly above. So a declaration that only moved is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codegraph.parse import facts
from codegraph.parse.facts import FileFacts, Symbol

What = Literal["added", "changed", "removed", "member"]
NAME_CHARS = 500
"""Of a name; a declaration with a longer one is left out."""
_ABOVE = re.compile(r"^\s*(?:@|#|//|/\*|\*|--|\[)")


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A declaration by its name inside of its file; `member`: it is only something in it that changed."""

    name: str
    what: What
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A file as it was before a commit, or after it."""

    facts: FileFacts
    text: str


def between(before: Side | None, after: Side | None) -> tuple[Change, ...]:
    """What changed, by name. None: the file was not there."""
    old, new = _bodies(before), _bodies(after)
    kinds = {one.qname: one.kind for side in (before, after) if side is not None for one in side.facts.symbols}
    found: dict[str, What] = {}
    for name in old.keys() | new.keys():
        if name not in old:
            found[name] = "added"
        elif name not in new:
            found[name] = "removed"
        elif old[name] != new[name]:
            found[name] = "changed"
    for name in list(found):
        around = name.rpartition(".")[0]
        while around:
            if around in kinds:
                found.setdefault(around, "member")
            around = around.rpartition(".")[0]
    return tuple(sorted(Change(name, what, kinds[name]) for name, what in found.items() if len(name) <= NAME_CHARS))


def _bodies(side: Side | None) -> dict[str, list[str]]:
    """The own lines of each declaration by its name; those of overloads together."""
    if side is None:
        return {}
    lines = side.text.split("\n")
    symbols = side.facts.symbols
    owner = [None if one is None else symbols[one] for one in facts.innermost(symbols, len(lines))]
    for one in sorted(symbols, key=lambda one: (one.line - one.end_line, one.line)):
        _claim_above(one, owner, lines)
    found: dict[str, list[str]] = {one.qname: [] for one in symbols}
    for number, mine in enumerate(owner):
        if mine is not None:
            found[mine.qname].append(lines[number - 1].rstrip())
    return found


def _claim_above(one: Symbol, owner: list[Symbol | None], lines: Sequence[str]) -> None:
    around = owner[one.line - 1]
    number = one.line - 1
    while number > 0 and owner[number] is around and _ABOVE.match(lines[number - 1]):
        if around is not None and number <= around.line:
            return  # its name stands there
        owner[number] = one
        number -= 1
