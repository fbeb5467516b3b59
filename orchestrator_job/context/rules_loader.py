"""Reads the rules context of a round through the knowledge base, and stores it as an artifact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
from pydantic import JsonValue

import crds.errors
from crds import scope
from kb import api
from kb import client as kb_client
from orchestrator_job.model import rules_context, step_tools
from orchestrator_job.store import artifacts, retry
from orchestrator_job.store.graph_state import State

T = TypeVar("T")
_log = structlog.get_logger("orchestrator_job.model.rules_context")
SESSION_ENTRIES = 10
"""Entries of the session memory that are read."""
GRACE = 5.0
"""Seconds that a run waits for user context and session memory once it has the rules."""
_CONVERSATION_PART = 1 / 6
_SESSION_PART = 1 / 12
_DECISIONS = "orchestrator_decision"
"""Source of entries about plans of runs, which say nothing about what was found out."""


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
        retries: retry.Retry,
        *,
        context_chars: int,
        said: Callable[[int], Awaitable[str]] | None = None,
        task_uid: str = "",
        restricted: bool = False,
    ) -> None:
        self._kb = kb
        self._viewer = viewer
        self._store = store
        self._retries = retries
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
                self._retries.call("load the rules", lambda: kb.rules.in_force(viewer)), self._earlier()
            )
            await asyncio.wait([one for one in (user, session) if one is not None], timeout=GRACE)
        finally:
            for one in (user, session):
                if one is not None:
                    one.cancel()
        nothing = api.UserContext(markdown="", categories={})
        return Found(rules, _soft(user, nothing), _soft(session, ()), said)

    async def keep(self, found: Found, round_number: int, about: str = "", zone: str = "") -> str:
        """Store what of it a prompt gets; returns the artifact's key. `about` is the task's text, `zone` the time zone
        that the task names, in place of that of the rules. Raises InvalidInput for rules that do not fit."""
        held = rules_context.make(found.rules, found.user, self._context_chars, about)
        session = ""
        # A line does not say which sources it is from, so a rule that keeps one back keeps all lines back.
        if held.provisions.permits_tool(step_tools.Tool.SEARCH) and held.provisions.shows_all:
            others = [one for one in found.session if one.task_id != self._task_uid and one.source != _DECISIONS]
            session = lately(others, int(self._context_chars * _SESSION_PART))
        whole = held.model_copy(
            update={"conversation": found.said, "session": session, "zone": zone or held.provisions.time_zone}
        )
        stored: JsonValue = whole.model_dump(mode="json", by_alias=True)
        return await self._store.put(stored, round_number)

    async def keep_session(self, found: Found, round_number: int) -> str:
        """Store the session memory as it was read; returns the artifact's key."""
        listed: JsonValue = [one.model_dump(mode="json", by_alias=True) for one in found.session]
        return await self._store.put(listed, round_number)

    async def of(self, state: State) -> rules_context.Standing:
        """The stored artifact."""
        return rules_context.Standing.model_validate(await self._store.get(state["standing"]))

    async def _earlier(self) -> str:
        return await self._said(int(self._context_chars * _CONVERSATION_PART)) if self._said is not None else ""

    def _beside(self, what: str, read: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        async def retried() -> T:
            return await self._retries.call(what, read)

        return asyncio.create_task(retried(), name=what)


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
