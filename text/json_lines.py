"""Streams of JSON, a record in each line. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator

_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Where many readers end a line, and JSON does not have to escape it."""


def line(record: str) -> bytes:
    """A record in JSON as a line that any reader takes whole."""
    return record.translate(_ENDS).encode() + b"\n"


async def split(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines that are not blank. A newline alone ends a record: JSON has raw characters (U+0085, U+2028) at which a
    text is split into lines as well."""
    begun: list[bytes] = []
    async for piece in pieces:
        head, *others = piece.split(b"\n")
        begun.append(head)
        for other in others:
            if (line := b"".join(begun)).strip():
                yield line
            begun = [other]
    if (line := b"".join(begun)).strip():
        yield line
