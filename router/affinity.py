"""Turns of one conversation go to the backend that served the last one: its server still has most of the prompt in its
cache.

It chooses between equal backends only: which request may be served where and in which order is decided before
(`scheduler`). Pure, like the scheduler.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from enum import StrEnum
from typing import Any

MOST_MESSAGES = 8
_CHARACTERS = 1024
"""Of a message. Texts that differ later than here count as the same conversation; the bound on the load holds then."""
PROMPT = 512
"""Of a plain prompt. A shorter one is read so fast that it may run anywhere."""


class Outcome(StrEnum):
    """Where a turn ran, for a model that more than one backend serves."""

    NEW = "new"
    KEPT = "kept"
    MOVED = "moved"


class Affinity:
    """Backends by conversation, the `most` that were used last. `slack`: a conversation stays where it is as long as
    that backend runs at most so many requests more (by its weight) than another; 0 for no affinity."""

    def __init__(self, slack: float = 0.0, most: int = 10_000) -> None:
        self.slack = slack
        self.on = False
        """Whether requests need a `session` at present: there is more than one backend."""
        self.counts: Counter[Outcome] = Counter()
        self._most = most
        self._last: OrderedDict[int, str] = OrderedDict()

    def configure(self, backends: int) -> None:
        """So many backends are there."""
        self.on = self.slack > 0 and backends > 1

    def last(self, session: int) -> str:
        """The backend of a conversation's last turn, "" for none."""
        return self._last.get(session, "") if session else ""

    def ran(self, session: int, backend: str) -> None:
        """A turn runs there."""
        before = self._last.pop(session, None)
        outcome = Outcome.NEW if before is None else Outcome.KEPT if before == backend else Outcome.MOVED
        self.counts[outcome] += 1
        self._last[session] = backend
        if len(self._last) > self._most:
            self._last.popitem(last=False)


def session(model: str, named: str | None, opening: int) -> int:
    """The number of a conversation with a model: by the name that the client gives it, else by its `opening`; 0 for a
    request that belongs to none."""
    return hash((model, named or opening)) if named or opening else 0


def opening(messages: Any, prompt: Any, cache_key: Any) -> int:
    """A number that all turns of a conversation share, 0 if there is none, from values of a request's body: a chat's
    messages up to the first one of the user, the beginning of a long prompt. OpenAI's `prompt_cache_key` goes before
    both."""
    if isinstance(cache_key, str) and cache_key:
        return hash(cache_key)
    if isinstance(messages, list) and messages:
        seen: list[Any] = []
        for message in messages[:MOST_MESSAGES]:
            if not isinstance(message, dict):
                return 0
            role = message.get("role")
            seen += [role if isinstance(role, str) else "", _text(message.get("content"))]
            if role == "user":
                break
        return hash(tuple(seen))
    if isinstance(prompt, str) and len(prompt) >= PROMPT:
        return hash(prompt[:PROMPT])
    return 0


def _text(content: Any) -> str:
    """The beginning of a message's text: plain, or the first part that has one."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        content = next((text for text in texts if isinstance(text, str)), "")
    return content[:_CHARACTERS] if isinstance(content, str) else ""
