"""What a server's tools are and what they answer, as text for a model: pure functions of what came.

Nothing of it is trusted to have the form that the protocol wants: a tool, or a part of an answer, that has another one
is left out alone, and named with the reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST_NAME = 64
"""Of a function that models call (the APIs of OpenAI, Anthropic and Ollama's templates)."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST = 8


@dataclass(frozen=True)
class Answer:
    """What a call gave; `failed`: the server says that it did not work."""

    text: str
    failed: bool


def names(own: Iterable[str]) -> dict[str, str]:
    """By a server's own name of each tool the name by which a model calls it: the same where models can write it, else
    with `_` for what they cannot, and a digest where that is too long or another tool's."""
    ordered = list(dict.fromkeys(own))
    safe = {name: name for name in ordered if len(name) <= _LONGEST_NAME and name and not _UNSAFE.search(name)}
    taken = set(safe)
    for name in ordered:
        if name not in safe:
            short = _UNSAFE.sub("_", name)
            if len(short) > _LONGEST_NAME or short in taken or not short.strip("_"):
                digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST]
                short = f"{short[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"
            safe[name] = short
            taken.add(short)
    return safe


def read(result: Mapping[str, Any]) -> Answer:
    """The answer of `tools/call`: its texts, the texts and names of resources, and what is structured beside them."""
    if result.get("resultType") == "input_required":
        return Answer("The tool asks for more than its arguments before it does anything, which is not given.", True)
    content = result.get("content")
    parts = [_part(part) for part in (content if isinstance(content, list) else [])]
    texts = [text for text in parts if text]
    structured = result.get("structuredContent")
    if structured is not None and not any(_says(text, structured) for text in texts):
        texts.append(json.dumps(structured, ensure_ascii=False))
    if not texts and not isinstance(content, list):
        return Answer("The server has answered, and its answer has no content that can be read.", True)
    return Answer("\n".join(texts), result.get("isError") is True)


def _part(part: Any) -> str:
    if not isinstance(part, Mapping):
        return "[a part that is not of the protocol is left out]"
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "resource" and isinstance(part.get("resource"), Mapping):
        resource = part["resource"]
        where = str(resource.get("uri") or "without an address")
        if isinstance(resource.get("text"), str):
            return f"[{where}]\n{resource['text']}"
        return f"[{where}: {resource.get('mimeType') or 'a file'}, no text, left out]"
    if kind == "resource_link":
        named = [part.get("title") or part.get("name"), part.get("uri"), part.get("description")]
        return f"[link: {' | '.join(str(one) for one in named if one)}]"
    if isinstance(part.get("data"), str):
        return f"[{kind}: {part.get('mimeType') or 'no text'}, left out]"
    return f"[a part of type {str(kind)[:40]} is left out]"


def _says(text: str, structured: Any) -> bool:
    """Whether the text is the structured content, or all that it has: where a result has to be an object, servers put
    a text into a member of their own choice."""
    if not isinstance(structured, Mapping):
        return False
    bare = next(iter(structured.values())) if len(structured) == 1 else structured
    if isinstance(bare, str):
        return text == bare
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return any(value == form for form in (bare, structured))
