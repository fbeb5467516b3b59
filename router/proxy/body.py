"""The one look into a request's body: which model it names and whether its answer streams.

Go's decoder, which Ollama uses, takes the last of several equal keys, compares keys without case, reads only the first
JSON value and replaces broken UTF-8. A reader that were stricter could be led past the per-model limits by a body that
Ollama still accepts, so this one falls back to a lenient reading.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import orjson

from router import models
from router.proxy.refusal import Refusal

# Parsing takes about 0.2 ms a megabyte: above this it must not hold up the other streams.
IN_THREAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Peek:
    """`asked` is the model as the client spells it, `model` its normalised name; both are empty when the body names
    none. `stream` is None when the body does not say."""

    asked: str = ""
    model: str = ""
    stream: bool | None = None


NOTHING = Peek()


async def peek(data: bytes) -> Peek:
    """Look at a body. Raises Refusal(400) when it names a model in two spellings of the key."""
    if len(data) > IN_THREAD:
        return await asyncio.to_thread(look, data)
    return look(data)


def look(data: bytes) -> Peek:
    """See `peek`; pure."""
    if not data:
        return NOTHING
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = _lenient(data)
    if not isinstance(document, dict):
        return NOTHING
    model, stream = _folded(document, "model"), _folded(document, "stream")
    asked = model if isinstance(model, str) else ""
    return Peek(
        asked=asked,
        model=models.normalise(asked),
        stream=stream if isinstance(stream, bool) else None,
    )


def _folded(document: dict[str, Any], key: str) -> Any:
    """The value under any spelling of `key`. The order of different spellings is lost, so two of them are refused."""
    spelled = [name for name in document if len(name) == len(key) and name.lower() == key]
    if len(spelled) > 1:
        raise Refusal(400, f'the body names "{key}" in {len(spelled)} spellings; send it once, in lower case')
    return document[spelled[0]] if spelled else None


def _lenient(data: bytes) -> Any:
    try:
        return json.JSONDecoder().raw_decode(data.decode("utf-8", "replace").lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError):
        return None  # not JSON: the backend will say so in its own words
