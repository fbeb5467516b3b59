"""Calls of tools by models whose template has none: the tools stand in the prompt, the answer chooses by `format`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from router.client import reading, schema

if TYPE_CHECKING:
    from router.client.calls import Reply

_LEAD = """You may call one of these tools, or answer in words. To call one, answer with
{"name": "TOOL", "arguments": {...}}; to answer in words, with {"answer": "..."}. Tools:"""

_FENCE = re.compile(r"```\w*\s*\n(.*?)\n?```", re.DOTALL)
_BEGUN = re.compile(r'\{\s*"answer"\s*:\s*"((?:[^"\\]|\\.)*+\\?)', re.DOTALL)
_LONGEST_ESCAPE = 6


def instead(body: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The request without tools: what they are stands in the system's message, and what was called in words."""
    named = [(function["name"], function.get("parameters") or {}) for function in _functions(tools)]
    lines = [
        f"{function['name']}: {function.get('description', '')} {schema.sketch(function.get('parameters') or {})}"
        for function in _functions(tools)
    ]
    listed = "\n".join([_LEAD, *lines])
    wire = schema.functions([(name, schema.parameters(takes)) for name, takes in named])
    messages = [_spoken(message) for message in body["messages"]]
    if messages and messages[0].get("role") == "system":
        messages[0] = {**messages[0], "content": f"{messages[0].get('content', '')}\n{listed}"}
    else:
        messages.insert(0, {"role": "system", "content": listed})
    return {**body, "messages": messages, "format": wire, "think": False}


def called(reply: Reply, tools: Sequence[Mapping[str, Any]]) -> Reply:
    """The reply with the call that it chose. A call counts as it was written, or not at all; of an answer the words,
    also where there is something around it or where it was cut."""
    from router.client.calls import ToolCall

    names = {str(function["name"]) for function in _functions(tools)}
    chosen = _loaded(reply.text)
    name, arguments = chosen.get("name"), chosen.get("arguments")
    if isinstance(name, str) and name in names and reading.encodable(arguments):
        # As the model wrote them: who takes the call checks its arguments.
        return replace(reply, text="", calls=(ToolCall(name, arguments),))
    if "answer" not in chosen:
        bare = reading.plain(reply.text)
        fenced = _FENCE.fullmatch(bare)
        chosen = {"answer": _loaded(fenced[1] if fenced else bare).get("answer")}
        if chosen["answer"] is None and reply.cut and (begun := _BEGUN.fullmatch(bare)):
            chosen["answer"] = _text(begun[1])
    return replace(reply, text=reading.words(chosen["answer"])) if isinstance(chosen["answer"], str) else reply


def _loaded(text: str) -> dict[str, Any]:
    try:
        found = reading.loaded(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(begun: str) -> str:
    """What a text of JSON says that breaks off, perhaps within an escape."""
    for end in range(len(begun), max(len(begun) - _LONGEST_ESCAPE, 0), -1):
        try:
            return str(json.loads(f'"{begun[:end]}"', strict=False))
        except ValueError:
            continue
    return ""


def _functions(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [tool["function"] for tool in tools]


def _spoken(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without parts that only templates with tools have."""
    made = {key: value for key, value in message.items() if key not in ("tool_calls", "tool_name", "thinking")}
    if calls := message.get("tool_calls"):
        functions = [call.get("function", {}) for call in calls]
        made["content"] = "\n".join([str(message.get("content") or ""), *map(json.dumps, functions)]).strip()
    if message.get("role") == "tool":
        made |= {"role": "user", "content": f"Result of {message.get('tool_name', 'the tool')}:\n{message['content']}"}
    return made
