"""The digest of an effect, which is the same for calls that do the same. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST = "same"
"""Where an intent has the digest of what is done."""


def digest(tool: str, connection: str, arguments: Mapping[str, Any], *, exact: bool = False) -> str:
    """SHA-256 in hex. Case and blanks do not count, as a model writes them anew each time; `exact`: they do, where it
    is not known what the arguments mean."""
    given = arguments if exact else _plain(arguments)
    return hashlib.sha256(json.dumps([tool, connection, given], sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
