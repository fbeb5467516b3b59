"""JSON that servers of others send, bounded while it arrives and before anything is made of it.

A parser makes objects of fifty times the size of a hostile text (`[],[],[]`), and strings of four times the size of one
with a single emoji in it. So of a body, or of each event of a stream of events, these bounds hold for the bytes that
are passed on:

    strings     `MOST_STRING` bytes of each, cut between two characters; base64 in a member `data` or `blob`, which is
                a picture, a sound or a file, `_BINARY`
    values      `MOST_VALUES`
    depth       `MOST_DEPTH`
    all         `MOST_BYTES`
    arriving    `MOST_ARRIVING`

What is behind the first bound is left out, and the text stays JSON; the others end the body: `TooLarge`.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

MOST_STRING = 192 << 10
MOST_VALUES = 50_000
MOST_DEPTH = 100
MOST_BYTES = 1 << 20
MOST_ARRIVING = 64 << 20
_BINARY = 1 << 10
_BINARY_NAMES = (b"data", b"blob")
_LONGEST_NAME = 16
_IN_STRING = re.compile(rb'[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+')
_WHOLE = re.compile(rb'[^"\\\r\n]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u\r\n])[^"\\\r\n]*+)*+')
"""What of a string ends with no half of an escape. Possessive, as the other: a regex that could go back remembers
where."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/=_-]*")
_BLANK_LINE = re.compile(rb"\n\n|\r\r|\r\n\r\n")
"""That ends an event."""
_STEPS = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}
_HALF = re.compile(r"[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class TooLarge(ValueError):  # noqa: N818 -- what the body is
    """It has more than what is read of it; the text says of what."""


class Bounded:
    """The bytes of one body, as `feed` is given them. `events`: it is a stream of events, each of which has the bounds
    of a body."""

    def __init__(self, *, events: bool = False) -> None:
        self._events = events
        self._arrived = self._passed = self._values = self._depth = 0
        self._string: bytearray | None = None
        """What is kept of a string that is open."""
        self._cut = self._escaped = False
        """Whether some of it is not kept, and whether its last byte is the backslash of an escape."""
        self._name = b""
        """The last string where it is short: perhaps the name of a member."""
        self._between = b""
        """The last bytes outside of strings."""

    def feed(self, piece: bytes) -> bytes:
        """What is passed on now; a string when it is closed. Raises TooLarge."""
        self._arrived += len(piece)
        if self._arrived > MOST_ARRIVING:
            raise TooLarge(f"more than {MOST_ARRIVING >> 20} MiB")
        out, at = bytearray(), 0
        while at < len(piece):
            if self._string is not None:
                at = self._inside(piece, at, out)
                continue
            end = piece.find(b'"', at)
            run = piece[at : len(piece) if end < 0 else end]
            if run:
                self._pass(run, out)
                self._outside(run)
            at += len(run)
            if end >= 0:
                self._string, self._cut, at = bytearray(), False, at + 1
        return bytes(out)

    def _pass(self, part: bytes, out: bytearray) -> None:
        out += part
        self._passed += len(part)
        if self._passed > MOST_BYTES:
            raise TooLarge(f"more than {MOST_BYTES >> 10} KiB beside what is left out")

    def _outside(self, run: bytes) -> None:
        before, self._between = self._between, (self._between + run)[-4:]
        if not self._events:
            return self._count(run)
        *ended, last = _BLANK_LINE.split(before + run)
        for part in ended:
            self._count(part[len(before) :])
            self._arrived = self._passed = self._values = self._depth = 0
            before = b""
        return self._count(last[len(before) :])

    def _count(self, run: bytes) -> None:
        opening = run.count(b"[") + run.count(b"{")
        self._values += opening + run.count(b",")
        if self._values > MOST_VALUES:
            raise TooLarge(f"more than {MOST_VALUES} values")
        deepest = self._depth + opening
        self._depth += opening - run.count(b"]") - run.count(b"}")
        if deepest > MOST_DEPTH:
            # As if it opened first; the depth before each of its ends says whether it does.
            steps = itertools.accumulate(_STEPS.get(byte, 0) for byte in reversed(run))
            deepest = self._depth - min(steps, default=0)
        if deepest > MOST_DEPTH:
            raise TooLarge(f"more than {MOST_DEPTH} levels")

    def _inside(self, piece: bytes, at: int, out: bytearray) -> int:
        """Takes what of the piece belongs to the open string; where it goes on."""
        assert self._string is not None
        start = at
        if self._escaped:
            self._escaped, at = False, at + 1
        match = _IN_STRING.match(piece, at)
        assert match is not None
        end = match.end()
        if piece[end:] == b"\\":
            self._escaped, end = True, end + 1
        room = MOST_STRING - len(self._string)
        self._string += piece[start : min(end, start + room)]
        self._cut |= end - start > room
        if end < len(piece):
            # A line that ends within a string is no JSON, but perhaps another line of an event.
            closed = piece[end] == 0x22
            self._pass(b'"' + self._kept(self._string) + (b'"' if closed else b""), out)
            self._string, end = None, end + closed
        return end

    def _kept(self, string: bytearray) -> bytes:
        named = self._name in _BINARY_NAMES and self._between.rstrip().endswith(b":")
        self._name = bytes(string[:_LONGEST_NAME])
        if named and len(string) > _BINARY and _BASE64.fullmatch(string):
            return bytes(string[:_BINARY])
        if not self._cut:
            return bytes(string)
        whole = _WHOLE.match(string)
        assert whole is not None
        return whole.group()


def loads(body: bytes) -> Any:
    """The value of a bounded JSON text, whose strings UTF-8 can have: halves of characters are replaced. Raises
    ValueError."""
    try:
        value = json.loads(body.decode(errors="replace"), parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("it has too many levels") from error
    return _text(value) if _ESCAPED_HALF.search(body) else value


def plain(text: str) -> str:
    """The text without halves of characters, which JSON can have and UTF-8 cannot."""
    return _HALF.sub("?", text)


def _no_number(_: str) -> None:
    """NaN and the infinities, which are no JSON."""


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_text(part) for part in value]
    return {plain(name): _text(part) for name, part in value.items()} if isinstance(value, dict) else value
