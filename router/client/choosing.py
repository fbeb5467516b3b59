"""Calls of tools by models whose template has none: the tools stand in the prompt, the answer chooses by `format`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from router.client import reading, schema

if TYPE_CHECKING:
    from router.client.calls import Reply

_LEAD = """You may call one of these tools, or answer in words. To call one, answer with
{"name": "TOOL", "arguments": {...}}; to answer in words, with {"answer": "..."}. Tools:"""


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
    """The reply with the call that it chose; one that is no choice stays text."""
    from router.client.calls import ToolCall

    names = {str(function["name"]) for function in _functions(tools)}
    try:
        chosen = reading.loaded(reply.text)
    except ValueError:
        return reply
    if not isinstance(chosen, dict):
        return reply
    name = chosen.get("name")
    if isinstance(name, str) and name in names:
        # As the model wrote them: who takes the call checks its arguments.
        return replace(reply, text="", calls=(ToolCall(name, chosen.get("arguments")),))
    return replace(reply, text=chosen["answer"]) if isinstance(chosen.get("answer"), str) else reply


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
