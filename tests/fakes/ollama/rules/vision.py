"""`kb.describe/v1` and `kb.qualify.vision-*`: what an image says of itself.

The rules have no eyes: they read the text that a PNG carries in its `tEXt` and `iTXt` chunks (W3C PNG 11.3.3), so that
the content of a picture decides what is said of it. An image without such a text is left to the rule for any schema.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Sequence
from typing import Any

from tests.fakes.ollama.rules import text

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FIELD = re.compile(r"^[A-Z][A-Za-z ]{1,30}: \S.*$", re.MULTILINE)
_TITLE = 80


def answer(tag: str, images: Sequence[str]) -> dict[str, Any]:
    """The object of the prompt's schema; empty where no image has a text."""
    seen = [said for said in (carried(one) for one in images) if said]
    if not seen:
        return {}
    if tag == "kb.describe/v1":
        lines = seen[0].splitlines()
        title = text.shorten(lines[0], _TITLE)
        return {"title": title, "description": f"A picture of: {title}", "text": seen[0]}
    fields = [field for said in seen for field in _FIELD.findall(said)]
    return {"details": "\n".join(fields or [said.splitlines()[0] for said in seen])}


def carried(encoded: str) -> str:
    """The texts in a PNG that travels as base64; "" for anything else."""
    try:
        body = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return ""
    if not body.startswith(_SIGNATURE):
        return ""
    found, at = [], len(_SIGNATURE)
    while at + 8 <= len(body):
        size, name = struct.unpack(">I4s", body[at : at + 8])
        content = body[at + 8 : at + 8 + size]
        if name == b"tEXt":
            found.append(content.partition(b"\0")[2].decode("latin-1"))
        elif name == b"iTXt":
            # keyword, 0, compression flag, method, language, 0, translated keyword, 0, text
            found.append(content.partition(b"\0")[2][2:].split(b"\0", 2)[-1].decode("utf-8", "replace"))
        at += size + 12
    return "\n".join(found).strip()
