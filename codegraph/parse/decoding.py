"""The bytes of a source file as UTF-8 that a grammar reads, with the lines that an editor shows."""

from __future__ import annotations

import re

from text import source_text

# Editors and compilers end a line there; grammars count line feeds alone.
_LONE_RETURN = re.compile(rb"\r(?!\n)")


def decode(raw: bytes) -> bytes:
    """UTF-8 without a byte order mark, of any encoding that `text.source_text` knows."""
    raw = source_text.decode(raw).encode()
    return _LONE_RETURN.sub(b"\n", raw) if b"\r" in raw else raw


def count_lines(source: bytes) -> int:
    """The lines of a source, also one that no line feed ends."""
    return source.count(b"\n") + (not source.endswith(b"\n") and bool(source))
