"""The room that a prompt has: what a text takes of it, and what is shown of one that is longer. Pure.

A prompt is measured in bytes of UTF-8, from which its tokens are estimated. Its instructions, rules and blocks are
whole. The question is whole unless it has more than three quarters of what they leave: then its middle is left out, and
a line says so. What is left is for evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator_job.model import excerpt, prompt_escape

TOKEN_CHARS = 4
TOKEN_BYTES = 4
CAREFUL_TOKEN_BYTES = 3
"""Fewer than a token has on average: for a prompt that fills its window, whose count must not be too low."""
LEAST = 400
"""Fewer bytes of evidence are no context."""
_MESSAGE_TOKENS = 4
_QUESTION_FRAME = len("<question></question>\n")
_CONTEXT_PART = 0.25
"""Most of the window for what earlier delegations handed back, and for one result of a tool."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A question as a prompt shows it, and the bytes that are left beside it."""

    question: str
    left: int

    @property
    def block(self) -> str:
        """The question in its block."""
        return f"<question>{self.question}</question>"


def fit(
    asked: excerpt.Parts | str,
    parts: Iterable[str],
    tokens: int,
    *,
    least: int = 0,
    token_bytes: int = TOKEN_BYTES,
) -> Fitted:
    """The question beside `parts`, each of which stands on lines of its own, within `tokens`: those of the window
    without the answer. A question that has to be shortened has at least `least` bytes; then nothing may be left."""
    room = tokens * token_bytes - sum(excerpt.size(part) + 1 for part in parts) - _QUESTION_FRAME
    question = excerpt.within(asked, max(excerpt.beside(room), least), prompt_escape.defuse)
    return Fitted(question, room - excerpt.size(question))


def leading(entries: Iterable[str], room: int, between: int = 1) -> list[str]:
    """The first entries that fit into `room` bytes, each whole, with `between` bytes after it."""
    kept: list[str] = []
    for entry in entries:
        room -= excerpt.size(entry) + between
        if room < 0:
            break
        kept.append(entry)
    return kept


def room(window: int) -> int:
    """Most characters of one result, and of all that was handed back before; `window` is in tokens."""
    return int(window * TOKEN_CHARS * _CONTEXT_PART)


def cut(text: str, most: int) -> str:
    """The text, or its beginning with a last line that says how much more there is."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[{len(text) - most} more characters are left out.]"


def plainly(arguments: object) -> str:
    """Arguments in one line for people and for partial results."""
    return cut(json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str), 300)


def tokens(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Estimate of the tokens of a prompt: one per four bytes of UTF-8, and four per message."""
    size = sum(excerpt.size(str(message.get("content", ""))) for message in messages)
    size += sum(len(json.dumps(message["tool_calls"])) for message in messages if message.get("tool_calls"))
    size += len(json.dumps(list(tools))) if tools else 0
    return size // TOKEN_BYTES + _MESSAGE_TOKENS * len(messages)
