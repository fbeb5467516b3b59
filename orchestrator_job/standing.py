"""The standing context of every answer in a scope: its hard rules, the user context, and what was done and said before.

Intake reads all of it side by side, without a model, and stores it as an artifact of the round, so it is the same after
a resume. Rules are never cut: a run that cannot read or fit all of them does not answer. Of the user context whole
lines stay, the most important ones; of the session memory and of a conversation the latest. A knowledge base that has
the rules, but neither user context nor session memory, is answered without these.

Source: seed 002 "Hard Rules" (agents must load them on startup), seed 001 "User Context Auto-Prefetch" and "Session
Memory".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

import crds.errors
from contracts.rules import enforce_lines
from crds import scope
from kb import api
from kb import client as kb_client
from orchestrator_job import artifacts, errors, patience, plan
from orchestrator_job.state import State

T = TypeVar("T")
_log = structlog.get_logger("orchestrator_job.standing")

SESSION_ENTRIES = 10
"""Entries of the session memory that are read."""
GRACE = 5.0
"""Seconds that a run waits for user context and session memory once it has the rules."""
# Shares of the characters of a prompt.
_RULES_PART = 0.5
_CONTEXT_PART = 1 / 6
_CONVERSATION_PART = 1 / 6
_SESSION_PART = 1 / 12
_TOKEN_BYTES = 4
_WORD = re.compile(r"[^\W_]{4,}")
_STEM = 5
"""Letters by which two forms of a word count as one."""
_DECISIONS = "orchestrator_decision"
"""Source of entries about plans of runs, which say nothing about what was found out."""


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
    what was said before this task, `session` what was done lately, a line each; or ""."""

    rules: tuple[Rule, ...] = ()
    context: str = ""
    truncated: bool = False
    conversation: str = ""
    session: str = ""

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


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of it."""

    rules: Sequence[api.Rule]
    user: api.UserContext
    session: Sequence[api.SessionEntry]
    said: str


class Loader:
    """Reads it through the knowledge base. `context_chars` bounds the text of a prompt; `said` gives what was said
    before the task, within a number of characters. `task_uid`: of the session memory its own entries are not shown.
    `restricted`: the run reads for principals who may not see all of the scope, and so not what its other runs said.
    """

    def __init__(
        self,
        kb: kb_client.Client,
        viewer: scope.Scope,
        store: artifacts.Artifacts,
        insistence: patience.Patience,
        *,
        context_chars: int,
        said: Callable[[int], Awaitable[str]] | None = None,
        task_uid: str = "",
        restricted: bool = False,
    ) -> None:
        self._kb = kb
        self._viewer = viewer
        self._store = store
        self._insistence = insistence
        self._context_chars = context_chars
        self._said = said
        self._task_uid = task_uid
        self._restricted = restricted

    async def read(self) -> Found:
        """All of it, side by side. Only rules that cannot be read, or a MongoDB that is away, are errors."""
        kb, viewer = self._kb, self._viewer
        user = self._beside("load the user context", lambda: kb.memory.user(viewer))
        session = None
        if not self._restricted and not viewer.is_global:
            session = self._beside("load the session memory", lambda: kb.memory.session(viewer, limit=SESSION_ENTRIES))
        try:
            rules, said = await asyncio.gather(
                self._insistence.insist("load the rules", lambda: kb.rules.in_force(viewer)), self._earlier()
            )
            await asyncio.wait([one for one in (user, session) if one is not None], timeout=GRACE)
        finally:
            for one in (user, session):
                if one is not None:
                    one.cancel()
        nothing = api.UserContext(markdown="", categories={})
        return Found(rules, _soft(user, nothing), _soft(session, ()), said)

    async def keep(self, found: Found, round_number: int, about: str = "") -> str:
        """Store what of it a prompt gets; returns the artifact's key. `about` is the task's text. Raises InvalidInput
        for rules that do not fit."""
        held = make(found.rules, found.user, self._context_chars, about)
        session = ""
        # A line does not say which sources it is from, so a rule that keeps one back keeps all lines back.
        if held.provisions.permits_tool(plan.Tool.SEARCH) and held.provisions.shows_all:
            others = [one for one in found.session if one.task_id != self._task_uid and one.source != _DECISIONS]
            session = lately(others, int(self._context_chars * _SESSION_PART))
        whole = held.model_copy(update={"conversation": found.said, "session": session})
        stored: JsonValue = whole.model_dump(mode="json", by_alias=True)
        return await self._store.put(stored, round_number)

    async def keep_session(self, found: Found, round_number: int) -> str:
        """Store the session memory as it was read; returns the artifact's key."""
        listed: JsonValue = [one.model_dump(mode="json", by_alias=True) for one in found.session]
        return await self._store.put(listed, round_number)

    async def load(self, round_number: int) -> str:
        """Read and store it; returns the artifact's key."""
        return await self.keep(await self.read(), round_number)

    async def of(self, state: State) -> Standing:
        """The stored artifact; loaded now for a round that an earlier version of this program began."""
        key = state.get("standing") or await self.load(state["round"])
        return Standing.model_validate(await self._store.get(key))

    async def _earlier(self) -> str:
        return await self._said(int(self._context_chars * _CONVERSATION_PART)) if self._said is not None else ""

    def _beside(self, what: str, read: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        async def insisted() -> T:
            return await self._insistence.insist(what, read)

        return asyncio.create_task(insisted(), name=what)


def _soft(read: asyncio.Task[T] | None, instead: T) -> T:
    """What was read, or `instead`; then the log says why. Raises errors that are bugs."""
    if read is None:
        return instead
    if not read.done() or read.cancelled():
        _log.warning("answered without", what=read.get_name(), reason=f"It took more than {GRACE:g} seconds.")
        return instead
    error = read.exception()
    if error is None:
        return read.result()
    if not isinstance(error, crds.errors.JervisError):
        raise error
    _log.warning("answered without", what=read.get_name(), reason=error.message)
    return instead


def lately(entries: Sequence[api.SessionEntry], most: int) -> str:
    """A line for each entry, the latest first, as long as there is room; the rest is left out."""
    lines: list[str] = []
    for one in entries:
        line = f"- {one.timestamp:%Y-%m-%d %H:%M} {one.source}: {' '.join(one.summary.split())}"
        most -= len(line) + 1
        if most < 0:
            break
        lines.append(line)
    return "\n".join(lines)


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
