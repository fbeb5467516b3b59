"""On what the turns of a conversation rest. Pure.

A turn rests on what was found for it, and on the turns that were in its prompt, because its answer may repeat them. A
turn names of these only the ones that no other of them rests on, and has no passage of its own that they have already;
so what a conversation keeps grows with what was found, not with what was asked. A turn that names one which is not
known any more rests on something that cannot be looked up, and stands no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kb.agent.tree import Turn


@dataclass(frozen=True)
class TurnSources:
    """Passages and pages, by their ids."""

    chunks: frozenset[str]
    pages: frozenset[str]


def of(turns: Sequence[Turn], some: Iterable[Turn]) -> TurnSources:
    """All on which `some` of the turns rest, as far as it is known."""
    known = {one.id: one for one in turns}
    reached = [known[one] for one in _reached(known, [one.id for one in some])]
    return TurnSources(
        frozenset(chunk for one in reached for chunk in one.chunks),
        frozenset(page for one in reached for page in one.pages),
    )


def standing(turns: Sequence[Turn], seen: TurnSources) -> list[Turn]:
    """The turns that rest on nothing but what is seen."""
    known = {one.id for one in turns}
    fallen = {
        one.id
        for one in turns
        if not (
            seen.chunks.issuperset(one.chunks) and seen.pages.issuperset(one.pages) and known.issuperset(one.rests_on)
        )
    }
    while more := {one.id for one in turns if one.id not in fallen and not fallen.isdisjoint(one.rests_on)}:
        fallen |= more
    return [one for one in turns if one.id not in fallen]


def added(new: Turn, turns: Sequence[Turn], shown: Sequence[Turn]) -> Turn:
    """The turn as it is kept, where `shown` of the turns were in its prompt."""
    before = of(turns, shown)
    known = {one.id: one for one in turns}
    implied = _reached(known, [earlier for one in shown for earlier in one.rests_on])
    return replace(
        new,
        chunks=tuple(one for one in dict.fromkeys(new.chunks) if one not in before.chunks),
        pages=tuple(one for one in dict.fromkeys(new.pages) if one not in before.pages),
        rests_on=tuple(one.id for one in shown if one.id not in implied),
    )


def _reached(known: Mapping[str, Turn], start: Iterable[str]) -> set[str]:
    """The ids of the known turns on which these rest, themselves included."""
    found: set[str] = set()
    left = list(start)
    while left:
        one = left.pop()
        if one in known and one not in found:
            found.add(one)
            left.extend(known[one].rests_on)
    return found
