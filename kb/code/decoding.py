"""The bytes of a source file as UTF-8 that a grammar reads, with the lines that an editor shows."""

from __future__ import annotations

import codecs
import re

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Editors and compilers end a line there; grammars count line feeds alone.
_LONE_RETURN = re.compile(rb"\r(?!\n)")


def decode(raw: bytes) -> bytes:
    """UTF-8 without a byte order mark. What is not UTF-8 is read as Latin-1, where every byte is a letter."""
    if raw.startswith(codecs.BOM_UTF8):
        raw = raw[len(codecs.BOM_UTF8) :]
    elif raw[:2] in _UTF16:
        raw = raw[2:].decode(_UTF16[raw[:2]], errors="replace").encode()
    try:
        raw.decode()
    except UnicodeDecodeError:
        raw = raw.decode("latin-1").encode()
    return _LONE_RETURN.sub(b"\n", raw) if b"\r" in raw else raw


def count_lines(source: bytes) -> int:
    """The lines of a source, also one that no line feed ends."""
    return source.count(b"\n") + (not source.endswith(b"\n") and bool(source))
