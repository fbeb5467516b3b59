"""How a document is read: what hard rules decide before models read it, in their scope alone. Pure.

Of several types or languages the narrowest rule decides, of equal ones the last by its key; one line against images is
enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contracts.rules import enforce_lines, extraction, routing
from crds import scope
from kb import api, errors, visibility

_TYPES = {one.value.casefold(): one for one in api.ContentType}
_Line = tuple[api.Rule, extraction.Steer]


@dataclass(frozen=True, slots=True)
class Overrides:
    """`read_as`, `language`: None where no rule says it. `lines` are those that count."""

    read_as: api.ContentType | None = None
    language: str | None = None
    looks: bool = True
    lines: tuple[_Line, ...] = ()


NONE = Overrides()


def chosen(lines: Sequence[_Line]) -> Overrides:
    """From the lines that a document meets, those of the narrowest rule last."""
    last = {line.verb: (rule, line) for rule, line in lines}
    type_, language = last.get(extraction.READ_AS), last.get(extraction.LANGUAGE)
    return Overrides(
        read_as=_TYPES[type_[1].choice.casefold()] if type_ else None,
        language=language[1].choice if language else None,
        looks=extraction.NO_IMAGES not in last,
        lines=tuple(last.values()),
    )


def check_image(rules: Iterable[api.Rule], where: scope.Scope, *shown: routing.Facts) -> None:
    """Of an image of a scope, about which (and about the document that it came with) these facts are known.

    Raises `kb.errors.Invalid` when a rule forbids to look at it, or cannot be enforced.
    """
    for rule in rules:
        if not visibility.governs(rule.scope, where):
            continue
        named = f"the hard rule {rule.rule_key!r} (version {rule.version})"
        try:
            lines = enforce_lines.steered(rule.rule_content)
        except ValueError as error:
            raise errors.Invalid(f"{named} cannot be enforced: {error}", field="body") from None
        if any(line.verb == extraction.NO_IMAGES and facts.meet(line.when) for line in lines for facts in shown):
            raise errors.Invalid(
                f"{named} forbids to look at this image", field="body", remedy="Send its text, or change the rule."
            )


def permits_looks(rules: Iterable[api.Rule], where: scope.Scope, *shown: routing.Facts) -> bool:
    """Whether `check_image` would raise nothing."""
    try:
        check_image(rules, where, *shown)
    except errors.Invalid:
        return False
    return True


def matching(rule: api.Rule, facts: routing.Facts, lines: Iterable[extraction.Steer]) -> list[_Line]:
    """Those of the rule's lines whose conditions hold."""
    return [(rule, line) for line in lines if facts.meet(line.when)]
