"""Lines of a hard rule that say how a document is read: `enforce: read-as Jira when source shop::*`. Pure.

    enforce: read-as Jira when source shop::*              as a document of this type, without asking which it is
    enforce: never-look-at-images when kind email          no model is shown the images that come with it
    enforce: summarize-in Czech when sender *@acme.cz      the summary is in this language, or there is none

Conditions are those of `contracts.rules.routing`. `contracts.rules.enforce_lines` finds the lines, `kb.rules.overrides`
holds them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from contracts.rules import routing
from contracts.rules.routing import Clause

READ_AS, NO_IMAGES, LANGUAGE = "read-as", "never-look-at-images", "summarize-in"
TYPES = ("Email", "Jira", "Confluence", "Log", "Generic")
LANGUAGES = ("English", "Czech", "German")
_CHOICES: dict[str, Collection[str]] = {READ_AS: TYPES, LANGUAGE: LANGUAGES, NO_IMAGES: ()}
VERBS = frozenset(_CHOICES)


@dataclass(frozen=True, slots=True)
class Steer:
    """One line; `choice` is a type or a language, "" for images."""

    verb: str
    choice: str
    when: tuple[Clause, ...]

    @property
    def effect(self) -> str:
        """The line without its conditions."""
        return f"{self.verb} {self.choice}".strip()


def parse(verb: str, words: str) -> Steer:
    """The line `enforce: verb words`. Raises ValueError with what is wrong and what to write."""
    head, clauses = routing.conditional(words)
    known = {one.casefold(): one for one in _CHOICES[verb]}
    said = [word.casefold() for word, _ in head]
    if not known and said:
        raise ValueError(f"nothing stands between `{verb}` and `when`")
    if known and (len(said) != 1 or said[0] not in known):
        raise ValueError(f"give one of {', '.join(known.values())} between `{verb}` and `when`")
    return Steer(verb, known[said[0]] if known else "", clauses)
