"""Calls of tools as models write them: by the server's own field, as a text of JSON, in the answer, or by `format`.

A model whose template has no tools finds them in its prompt and chooses by `format`. One whose server does not know its
way to write a call has it in the text of its answer: where the whole answer is calls, it is taken as that. What a call
says is never repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from router.client import reading, schema
from text import surrogates

if TYPE_CHECKING:
    from router.client.calls import Reply


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model makes; `arguments` are not validated."""

    name: str
    arguments: Any


_LEAD = """You may call one of these tools, or answer in words. To call one, answer with
{"name": "TOOL", "arguments": {...}}; to answer in words, with {"answer": "..."}. Tools:"""

_FENCE = re.compile(r"```\w*\s*\n(.*?)\n?```", re.DOTALL)
_BEGUN = re.compile(r'\{\s*"answer"\s*:\s*"((?:[^"\\]|\\.)*+\\?)', re.DOTALL)
_LONGEST_ESCAPE = 6
_CALL_MARK = re.compile(r"</?[|｜]?[\w▁]*tool[\w▁]*call[\w▁]*[|｜]?>|\[TOOL_CALLS\]", re.IGNORECASE)  # noqa: RUF001
"""Marks of calls in templates: <tool_call> (Hermes, Qwen), <|tool_call|> (Granite), [TOOL_CALLS] (Mistral)."""
_AROUND_CALLS = re.compile(rf"(?:\s|,|```\w*|{_CALL_MARK.pattern})*+", re.IGNORECASE)
_DECODER = json.JSONDecoder(object_pairs_hook=reading.unambiguous)


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
    names = {str(function["name"]) for function in _functions(tools)}
    chosen = _loaded(reply.text)
    name, arguments = chosen.get("name"), chosen.get("arguments")
    if isinstance(name, str) and name in names:
        # As the model wrote them: who takes the call checks its arguments.
        return replace(reply, text="", calls=(call(name, arguments),))
    if "answer" not in chosen:
        bare = reading.plain(reply.text)
        fenced = _FENCE.fullmatch(bare)
        chosen = {"answer": _loaded(fenced[1] if fenced else bare).get("answer")}
        if chosen["answer"] is None and reply.cut and (begun := _BEGUN.fullmatch(bare)):
            chosen["answer"] = _text(begun[1])
    return replace(reply, text=surrogates.clean(chosen["answer"])) if isinstance(chosen["answer"], str) else reply


def call(name: str, arguments: Any) -> ToolCall:
    """A call as it is given. A text that is JSON is what it says; arguments that no store takes are none, so that who
    takes the call refuses it."""
    if isinstance(arguments, str):
        try:
            arguments = reading.loaded(arguments) if arguments.strip() else {}
        except ValueError:
            arguments = surrogates.clean(arguments)
    if not reading.encodable(arguments):
        arguments = "half of a character is in the arguments"
    return ToolCall(surrogates.clean(name), arguments)


def written(reply: Reply, tools: Sequence[Mapping[str, Any]]) -> Reply:
    """The reply with the calls that are its whole text, in whatever marks they stand. Without a mark of a call only
    those of tools that were offered count: other objects may be what the answer is."""
    text = reading.plain(reply.text)
    if reply.calls or "{" not in text:
        return reply
    marked = _CALL_MARK.search(text) is not None
    names = {str(function["name"]) for function in _functions(tools)}
    made: list[ToolCall] = []
    place = 0
    while (start := _AROUND_CALLS.match(text, place)) is not None and (place := start.end()) < len(text):
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return reply
        for each in value if isinstance(value, list) else [value]:
            function = each.get("function", each) if isinstance(each, dict) else {}
            function = function if isinstance(function, dict) else {}
            name = function.get("name")
            if not isinstance(name, str) or not (marked or name in names):
                return reply
            taken = [function[key] for key in ("arguments", "parameters") if key in function]
            made.append(call(name, taken[0] if taken else {}))
    return replace(reply, text="", calls=tuple(made)) if made else reply


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
