"""The one look into a request's body: which model it names and whether its answer streams.

Go's decoder, which Ollama uses, takes the last of several equal keys, compares keys without case, reads only the first
JSON value and replaces broken UTF-8. A reader that were stricter could be led past the per-model limits by a body that
Ollama still accepts, so this one falls back to a lenient reading.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import orjson

from router import models
from router.proxy.refusal import Refusal

# Parsing takes about 0.2 ms a megabyte: above this it must not hold up the other streams.
IN_THREAD = 1 << 20


class Peek(NamedTuple):
    """`asked` is the model as the client spells it, `model` its normalised name; both are empty when the body names
    none. `stream` is None when the body does not say. `images`: there are pictures in it."""

    asked: str = ""
    model: str = ""
    stream: bool | None = None
    images: bool = False


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
    model = stream = None
    images = False
    for name, value in document.items():
        size = len(name)
        if size == 5 and (name == "model" or name.casefold() == "model"):
            model = value if model is None else _once(model, value, "model")
        elif size == 6 and name.casefold() == "stream":
            stream = _once(stream, value, "stream")
        elif size == 6 and name.casefold() == "images":
            images = images or bool(value)
        elif size == 8 and name.casefold() == "messages":
            images = images or _shown(value)
    asked = model if isinstance(model, str) else ""
    return Peek(asked, models.normalise(asked), stream if isinstance(stream, bool) else None, images)


def _shown(messages: Any) -> bool:
    """Are there pictures in a chat? Ollama has them in `images`, OpenAI as parts of `content`."""
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        if message.get("images") or (
            isinstance(content, list)
            and any(
                isinstance(part, dict) and str(part.get("type", "")).endswith(("image_url", "image"))
                for part in content
            )
        ):
            return True
    return False


def _once(before: Any, value: Any, key: str) -> Any:
    """The order of different spellings is lost (equal ones are one), so a second one is refused."""
    if before is not None:
        raise Refusal(400, f'the body names "{key}" in several spellings; send it once, in lower case')
    return value


def _lenient(data: bytes) -> Any:
    try:
        return json.JSONDecoder().raw_decode(data.decode("utf-8", "replace").lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError):
        return None  # not JSON: the backend will say so in its own words
