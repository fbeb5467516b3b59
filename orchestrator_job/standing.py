"""The standing context of every answer in a scope: its hard rules, the user context, and what was said before.

Intake loads it first and stores it as an artifact of the round, so it is the same after a resume. Rules are never cut:
a run that cannot read or fit all of them does not answer. The user context is cut instead,
and of a conversation the latest exchanges count.

Source: seed 002 "Hard Rules" (agents must load them on startup), seed 001 "User Context Auto-Prefetch".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

from crds import provisions, scope
from kb import api
from kb import client as kb_client
from orchestrator_job import artifacts, errors, patience
from orchestrator_job.state import State

# Shares of the characters of a prompt.
_RULES_PART = 0.5
_CONTEXT_PART = 1 / 6
_CONVERSATION_PART = 1 / 6


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
    """`context` is the user context as markdown, or ""; `truncated` when it was cut. `conversation` is what was said
    before this task, or ""."""

    rules: tuple[Rule, ...] = ()
    context: str = ""
    truncated: bool = False
    conversation: str = ""

    @property
    def provisions(self) -> provisions.Provisions:
        """The provisions of the rules that the program enforces."""
        return provisions.Provisions.together(rule.content for rule in self.rules)

    @property
    def characters(self) -> int:
        """Its characters in a prompt."""
        return len(self.context) + len(self.conversation) + sum(len(rule.content) for rule in self.rules)


class Loader:
    """Reads rules and user context through the knowledge base. `context_chars` bounds the text of a prompt; `said`
    gives what was said before the task, within a number of characters."""

    def __init__(
        self,
        kb: kb_client.Client,
        viewer: scope.Scope,
        store: artifacts.Artifacts,
        insistence: patience.Patience,
        *,
        context_chars: int,
        said: Callable[[int], Awaitable[str]] | None = None,
    ) -> None:
        self._kb = kb
        self._viewer = viewer
        self._store = store
        self._insistence = insistence
        self._context_chars = context_chars
        self._said = said

    async def load(self, round_number: int) -> str:
        """Load and store both; returns the artifact's key. Raises InvalidInput for rules that do not fit."""
        rules, user = await asyncio.gather(
            self._insistence.insist("load the rules", lambda: self._kb.rules.in_force(self._viewer)),
            self._insistence.insist("load the user context", lambda: self._kb.memory.user(self._viewer)),
        )
        said = await self._said(int(self._context_chars * _CONVERSATION_PART)) if self._said is not None else ""
        held = make(rules, user, self._context_chars).model_copy(update={"conversation": said})
        stored: JsonValue = held.model_dump(mode="json", by_alias=True)
        return await self._store.put(stored, round_number)

    async def of(self, state: State) -> Standing:
        """The stored artifact; loaded now for a round that an earlier version of this program began."""
        key = state.get("standing") or await self.load(state["round"])
        return Standing.model_validate(await self._store.get(key))


def make(rules: list[api.Rule], user: api.UserContext, context_chars: int) -> Standing:
    """Pure. Raises InvalidInput for rules that do not fit or cannot be enforced."""
    kept = tuple(
        Rule(
            key=one.rule_key,
            type=one.rule_type.value,
            # Addresses of webhooks are not for models.
            content=provisions.unaddressed(one.rule_content),
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
        held = provisions.Provisions.together(rule.content for rule in kept)
    except ValueError as error:
        raise errors.InvalidInput(
            f"A hard rule cannot be enforced: {error}.", field="rules", remedy="Fix it with PUT /api/v1/rules."
        ) from error
    context, truncated = _context(user, held, int(context_chars * _CONTEXT_PART))
    return Standing(rules=kept, context=context, truncated=truncated)


def _context(user: api.UserContext, held: provisions.Provisions, most: int) -> tuple[str, bool]:
    """Whole lines under their headings, in the order of the categories, until `most` characters are used."""
    sections: list[str] = []
    left, truncated = most, user.truncated
    for category in api.Category:
        lines = user.categories.get(category.value, []) if held.shows("", category.kind) else []
        taken = []
        for line in lines:
            if len(line) > left:
                truncated = True
                continue
            left -= len(line)
            taken.append(line)
        if taken:
            sections.append(f"### {category.heading}\n" + "\n".join(taken))
    return "\n\n".join(sections), truncated
