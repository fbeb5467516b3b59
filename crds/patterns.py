"""Names in which each `*` stands for any text: of targets, hosts, tools and senders. Pure.

There are no regular expressions: the time of a comparison grows with the text alone.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST_STARS = 8
"""Maximum of `*` in one pattern."""
ANY = "*"
"""The pattern of every text."""
TEXT = r"^[^\x00-\x1f\x7f]+$"
"""A regular expression of what a pattern may be: one line."""
Pattern = Annotated[str, Field(min_length=1, max_length=320, pattern=TEXT)]


def matches(pattern: str, value: str) -> bool:
    """Whether the whole value is the pattern, in which each `*` stands for any text. Letters are compared as they
    are."""
    first, *rest = pattern.split("*")
    if not rest:
        return value == pattern
    *between, last = rest
    if not value.startswith(first) or not value.endswith(last) or len(value) < len(first) + len(last):
        return False
    at, end = len(first), len(value) - len(last)
    for part in between:
        found = value.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
