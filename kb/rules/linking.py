"""What hard rules decide about a link which no pattern knows, in their scope alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from email import utils
from urllib.parse import urlsplit

from contracts.rules import enforce_lines, links, routing
from crds import scope
from kb import api, visibility

_CAREFUL = tuple(links.Effect)


@dataclass(frozen=True, slots=True)
class Decided:
    """The effect, and the rules that have it, as the beginning of a sentence."""

    effect: links.Effect
    rules: str


def decide(rules: Iterable[api.Rule], where: scope.Scope, about: api.LinkSource, url: str) -> Decided | None:
    """About a normalised URL, which `about` says where it stands; None where no rule has a line for it.

    A rule that cannot be read leaves the link: `kb.rules.fetching` would not open it either.
    """
    facts = routing.Facts.of(
        kind=about.source_kind,
        source=about.source_urn,
        title=about.subject,
        text=f"{about.before} {about.after}",
        senders=[address for _, address in utils.getaddresses([about.sender]) if address],
        host=urlsplit(url).hostname or "",
    )
    found: dict[links.Effect, list[str]] = {}
    for rule in rules:
        if not visibility.governs(rule.scope, where):
            continue
        named = f"the hard rule {rule.rule_key!r} (version {rule.version})"
        try:
            lines = enforce_lines.linked(rule.rule_content)
        except ValueError as error:
            return Decided(links.Effect.LEAVE, f"{named} cannot be enforced: {error}"[:1000])
        for effect in {line.effect for line in lines if facts.meet(line.when)}:
            found.setdefault(effect, []).append(named)
    return next((Decided(one, " and ".join(found[one][:3])) for one in _CAREFUL if one in found), None)
