"""Which atomic tools may be called in a scope: each of its rules is obeyed, the wider ones too."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.rules import enforce_lines, tools
from crds import scope
from kb import api, errors, visibility
from kb.rules import enforce


async def permit(kept: enforce.Port, where: scope.Scope, tool: str) -> None:
    """Raises `kb.errors.Forbidden` when a rule in force forbids the tool, and `Away`."""
    rules = [one for one in await kept.in_force(where) if visibility.governs(one.scope, where)]
    why = refusal(rules, tool)
    if why:
        raise errors.Forbidden(why, field="name", remedy="Go on without the tool; a person can change the rule.")


async def barred(kept: enforce.Port, where: scope.Scope) -> dict[str, str]:
    """By tool why a rule in force forbids it. Raises `kb.errors.Away`."""
    rules = [one for one in await kept.in_force(where) if visibility.governs(one.scope, where)]
    return {tool: why for tool in tools.TOOLS if (why := refusal(rules, tool))}


def refusal(rules: Iterable[api.Rule], tool: str) -> str:
    """Why one of the rules forbids the tool, "" when none does. A rule that cannot be enforced forbids all."""
    for one in rules:
        named = f"the hard rule {one.rule_key!r} (version {one.version})"
        try:
            forbidden = tool in enforce_lines.barred(one.rule_content)
        except ValueError:
            return f"{named} cannot be enforced"
        if forbidden:
            return f"{named} forbids the tool {tool}"
    return ""
