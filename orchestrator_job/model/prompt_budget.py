"""The room that a prompt has: what a text takes of it, and what is shown of one that is longer. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

TOKEN_CHARS = 4
_TOKEN_BYTES = 4
_MESSAGE_TOKENS = 4
_CONTEXT_PART = 0.25
"""Most of the window for what earlier delegations handed back, and for one result of a tool."""


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
    size = sum(len(str(one.get("content", "")).encode(errors="replace")) for one in messages)
    size += sum(len(json.dumps(one["tool_calls"])) for one in messages if one.get("tool_calls"))
    size += len(json.dumps(list(tools))) if tools else 0
    return size // _TOKEN_BYTES + _MESSAGE_TOKENS * len(messages)
