"""Sizes and durations in the spellings that people and Ollama use."""

from __future__ import annotations

import math
import re

GIB = 1 << 30
_UNITS = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
}  # fmt: skip
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ns|us|µs|ms|s|m|h)")

FOREVER = math.inf


def to_bytes(text: str | int | float) -> int:
    """`24GiB`, `24Gi`, `512M`, `1.5e9` or a number -> bytes. ValueError names what was wrong."""
    if isinstance(text, (int, float)):
        return int(text)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write a number with an optional unit, for example 24GiB or 800M")
    return int(float(match.group(1)) * _UNITS[match.group(2) or ""])


def to_seconds(value: object) -> float | None:
    """Ollama's keep_alive: a number is seconds, a string is a Go duration ("5m", "1h30m") or a number; negative is
    for ever.

    Returns None for None (the server's own setting applies). Raises ValueError for anything else, in Ollama's words.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("Unsupported type: 'bool'")
    if isinstance(value, (int, float)):
        return FOREVER if value < 0 else float(value)
    if isinstance(value, str):
        return _from_text(value)
    kind = "[]interface {}" if isinstance(value, list) else "map[string]interface {}"
    raise ValueError(f"Unsupported type: '{kind}'")


def _from_text(value: str) -> float:
    text = value.strip()
    body = text.lstrip("+-")
    if re.fullmatch(r"\d+(?:\.\d+)?", body):
        if body.strip("0."):
            # Go wants a unit: "300" and "-1" as text are refused, although 300 and -1 as numbers are not.
            raise ValueError(f'time: missing unit in duration "{value}"')
        return 0.0
    spans = _SPAN.findall(body)
    if not spans or "".join(number + unit for number, unit in spans) != body:
        raise ValueError(f'time: invalid duration "{value}"')
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in spans)
    return FOREVER if text.startswith("-") and seconds else seconds
