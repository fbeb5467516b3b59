"""How the tables in rejections/*.yaml are read."""

from __future__ import annotations

from typing import Any


def expand(value: Any) -> Any:
    """`REPEAT:x:3` becomes `xxx`, so that the tables stay readable."""
    if isinstance(value, str) and value.startswith("REPEAT:"):
        _, text, times = value.split(":")
        return text * int(times)
    if isinstance(value, dict):
        return {key: expand(child) for key, child in value.items()}
    if isinstance(value, list):
        return [expand(child) for child in value]
    return value


def merge(base: Any, patch: Any) -> Any:
    """JSON merge patch, RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
