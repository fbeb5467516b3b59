"""Halves of surrogate pairs, which a text of JSON can spell ("\\ud800") and no UTF-8 can have. Pure.

A model, a server of tools and the name of a file can bring one; no store, no status and no journal takes it (RFC 8259
section 8.2: what becomes of it is unpredictable).
"""

from __future__ import annotations

import re
from typing import Any

_HALF = re.compile("[\ud800-\udfff]")
_INSTEAD = "\ufffd"


def clean(text: str) -> str:
    """The text with U+FFFD in the place of each half."""
    # Nearly every text has none, and is not copied.
    return _HALF.sub(_INSTEAD, text) if _HALF.search(text) else text


def cleaned(value: Any) -> Any:
    """A value of JSON with `clean` texts and keys."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key) if isinstance(key, str) else key: cleaned(inner) for key, inner in value.items()}
    return [cleaned(inner) for inner in value] if isinstance(value, list | tuple) else value
