"""Lines of a hard rule that decide about links: `enforce: link Open when host *.example.com`. Pure.

    enforce: link Open when host *.vendor.example and sender *@vendor.example
    enforce: link Ask when kind issue and not host *.acme.example
    enforce: link Leave when sender *@lists.example.com

Conditions are those of `contracts.rules.routing`: `host` is that of the link, the others look at the document that has
it, and `contains` at the text around the link. Where several decide, the most careful one does: Leave, Ask, Open. Leave
and Ask hold for links that a pattern calls safe, too; Open opens nothing that is never opened.

`contracts.rules.enforce_lines` finds the lines, `kb.rules.linking` holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from contracts.rules import routing
from contracts.rules.routing import Clause, Subject

VERB = "link"
_SUBJECTS = frozenset(Subject) - {Subject.FILE}


class Effect(StrEnum):
    """What becomes of the link, the most careful first."""

    LEAVE = "Leave"
    ASK = "Ask"
    OPEN = "Open"


@dataclass(frozen=True, slots=True)
class LinkRuling:
    """One line."""

    effect: Effect
    when: tuple[Clause, ...]


def parse(words: str) -> LinkRuling:
    """The line `enforce: link words`. Raises ValueError with what is wrong and what to write."""
    head, clauses = routing.conditional(words, _SUBJECTS)
    known = {one.value.casefold(): one for one in Effect}
    if len(head) != 1 or head[0][0].casefold() not in known:
        raise ValueError(f"give one of {', '.join(one.value for one in Effect)} between `{VERB}` and `when`")
    return LinkRuling(known[head[0][0].casefold()], clauses)
