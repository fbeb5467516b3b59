"""What a grammar does not know, written so that it does.

A rule puts other bytes in place of some, as many, with as many line feeds: a tree of what comes out fits the source.
Only a source whose tree has errors is rewritten, and what comes out is taken only when more of it is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Rule = tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]]
_BYTE = re.compile(rb"[^\r\n]")


def blank(pattern: bytes, group: int = 0) -> Rule:
    """A rule that puts spaces in place of a group of what `pattern` finds."""
    return _filled(pattern, b" ", group)


def rename(pattern: bytes, group: int = 0) -> Rule:
    """A rule that puts a name of underscores in place of a group of what `pattern` finds."""
    return _filled(pattern, b"_", group)


def _filled(pattern: bytes, filler: bytes, group: int) -> Rule:
    def replace(found: re.Match[bytes]) -> bytes:
        whole, (start, end) = found.group(), found.span(group)
        start, end = start - found.start(), end - found.start()
        return whole[:start] + _BYTE.sub(filler, whole[start:end]) + whole[end:]

    return re.compile(pattern, re.MULTILINE), replace


def rewrite(source: bytes, rules: tuple[Rule, ...]) -> bytes:
    """The source after all rules, one after the other; as long as before."""
    for pattern, replace in rules:
        source = pattern.sub(replace, source)
    return source
