"""The standing context of every answer in a scope: its hard rules, the user context, and what was done and said before.

Intake reads all of it side by side, without a model, and stores it as an artifact of the round, so it is the same after
a resume. Rules are never cut: a run that cannot read or fit all of them does not answer. Of the user context whole
lines stay, the most important ones; of the session memory and of a conversation the latest. A knowledge base that has
the rules, but neither user context nor session memory, is answered without these. Pure; `rules_loader` reads it.

Source: seed 002 "Hard Rules" (agents must load them on startup), seed 001 "User Context Auto-Prefetch" and "Session
Memory".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from contracts.rules import enforce_lines, time_zones
from crds import scope
from kb import api
from orchestrator_job import errors

# Shares of the characters of a prompt.
_RULES_PART = 0.5
_CONTEXT_PART = 1 / 6
_TOKEN_BYTES = 4
_WORD = re.compile(r"[^\W_]{4,}")
_STEM = 5
"""Letters by which two forms of a word count as one."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Rule(_Model):
    """One version of a rule in force."""

    key: str
    type: str
    content: str
    version: int
    owner: scope.Scope


class Standing(_Model):
    """`context` is the user context as markdown, or ""; `truncated` when lines of it are left out. `conversation` is
    what was said before this task, `session` what was done lately, a line each; or "". `zone` is that of the user, as
    `contracts.rules.time_zones` names it."""

    rules: tuple[Rule, ...] = ()
    context: str = ""
    truncated: bool = False
    conversation: str = ""
    session: str = ""
    zone: str = ""

    def today(self, now: datetime) -> str:
        """The line of a prompt that says what day and hour it is for the user."""
        return time_zones.today(now, self.zone)

    @property
    def provisions(self) -> enforce_lines.Provisions:
        """The provisions of the rules that the program enforces."""
        return enforce_lines.Provisions.together(rule.content for rule in self.rules)

    @property
    def characters(self) -> int:
        """Its characters in a prompt."""
        return sum(map(len, self.texts))

    @property
    def texts(self) -> list[str]:
        """Its parts, as they stand in a prompt."""
        return [self.context, self.conversation, self.session, *(rule.content for rule in self.rules)]


def make(rules: Sequence[api.Rule], user: api.UserContext, context_chars: int, about: str = "") -> Standing:
    """Pure. Raises InvalidInput for rules that do not fit or cannot be enforced."""
    kept = tuple(
        Rule(
            key=one.rule_key,
            type=one.rule_type.value,
            # Addresses of webhooks are not for models.
            content=enforce_lines.unaddressed(one.rule_content),
            version=one.version,
            owner=one.scope,
        )
        for one in rules
    )
    size = sum(len(rule.content) for rule in kept)
    most = int(context_chars * _RULES_PART)
    if size > most:
        raise errors.InvalidInput(
            f"The {len(kept)} hard rules of this scope have {size} characters, at most {most} fit into a prompt.",
            field="rules",
            remedy="Shorten the rules (GET /api/v1/rules), or raise JERVIS_CONTEXT_CHARS.",
        )
    try:
        held = enforce_lines.Provisions.together(rule.content for rule in kept)
    except ValueError as error:
        raise errors.InvalidInput(
            f"A hard rule cannot be enforced: {error}.", field="rules", remedy="Fix it with PUT /api/v1/rules."
        ) from error
    context, truncated = _context(user, held, int(context_chars * _CONTEXT_PART) // _TOKEN_BYTES, about)
    return Standing(rules=kept, context=context, truncated=truncated)


def _context(user: api.UserContext, held: enforce_lines.Provisions, most: int, about: str) -> tuple[str, bool]:
    """Whole lines under their headings, at most `most` tokens. Of too many those stay that share the most words with
    the task, then those of an earlier category, then the newer ones."""
    task = _stems(about)
    lines = [
        (-len(task & _stems(line)), place, age, line)
        for place, category in enumerate(api.Category)
        if held.shows("", category.kind)
        for age, line in enumerate(user.categories.get(category.value, []))
    ]
    taken, truncated = set(), user.truncated
    for _, place, age, line in sorted(lines):
        tokens = -(-len(line.encode(errors="replace")) // _TOKEN_BYTES)
        if tokens > most:
            truncated = True
            continue
        most -= tokens
        taken.add((place, age, line))
    sections: list[str] = []
    for place, category in enumerate(api.Category):
        own = [line for where, _, line in sorted(taken) if where == place]
        if own:
            sections.append(f"### {category.heading}\n" + "\n".join(own))
    return "\n\n".join(sections), truncated


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM].casefold() for word in _WORD.findall(text))
