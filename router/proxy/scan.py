"""Where the members of a JSON text stand, without building its values.

A decoder needs up to 24 times the memory of its text and holds the interpreter until it has finished. This scanner
keeps positions only. It reads in pieces of `WINDOW` bytes, so that in a thread it lets the event loop go on in between,
and its number of steps and its depth are bounded: a text that was made to be expensive is refused.

As in Go's decoder only the first JSON value is read, and broken UTF-8 is no error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

WINDOW = 1 << 18
MOST_STEPS = 500_000
"""Members, brackets and pieces: about a quarter of a second. A chat of ten thousand messages has a tenth of them."""
MOST_DEPTH = 2_000
MOST_FOUND = 100
"""Members of one object that mean something: no more than a dozen do, unless they are repeated."""
_LONGEST_KEY = 80
"""Of the keys that mean something, each character written as an escape."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]*+")
# Not a possessive group: before Python 3.11.5 (Debian 12 has 3.11.2) one that fails halfway, here in a string that the
# window cuts, does not go back to where it began (python/cpython#106052).
_PLAIN = re.compile(rb'(?:(?>[^"\[\]{}]+|"[^"\\]*(?:\\.[^"\\]*)*"))*', re.DOTALL)
_QUOTE, _OPEN, _CLOSE, _COMMA, _COLON = 0x22, b"{[", b"}]", 0x2C, 0x3A

Span = tuple[int, int]
Body = bytes | bytearray


class Malformed(Exception):  # noqa: N818  # a finding about a text, not an error of ours
    """Not JSON."""


class TooComplex(Exception):  # noqa: N818  # as above
    """More members, brackets or depth than is read."""


class Scanner:
    """Reads one text. Its budget of steps is shared by all calls. Every method may raise Malformed or TooComplex."""

    __slots__ = ("_body", "_steps")

    def __init__(self, body: Body) -> None:
        self._body = body
        self._steps = MOST_STEPS

    def members(self, at: int, wanted: Collection[str], found: list[tuple[str, Span]]) -> tuple[int, bool]:
        """The object whose brace stands at `at`: appends (key, span of the value) for every key that is `wanted` when
        compared without case. Returns where its brace closes, and whether it is empty."""
        body = self._body
        if self._at(at) != 0x7B:
            raise Malformed
        at = self.skip(at + 1)
        if self._at(at) == 0x7D:
            return at, True
        while True:
            if self._at(at) != _QUOTE:
                raise Malformed
            stop = self._string(at + 1)
            key = _key(bytes(body[at:stop])) if stop - at <= _LONGEST_KEY else ""
            at = self.skip(stop)
            if self._at(at) != _COLON:
                raise Malformed
            at = self.skip(at + 1)
            stop = self.value(at)
            if key.casefold() in wanted:
                found.append((key, (at, stop)))
                if len(found) > MOST_FOUND:
                    raise TooComplex
            at = self.skip(stop)
            if self._at(at) == 0x7D:
                return at, False
            if self._at(at) != _COMMA:
                raise Malformed
            at = self.skip(at + 1)

    def elements(self, at: int) -> Iterator[Span]:
        """The spans of the elements of the array whose bracket stands at `at`."""
        at = self.skip(at + 1)
        if self._at(at) == 0x5D:
            return
        while True:
            stop = self.value(at)
            yield at, stop
            at = self.skip(stop)
            if self._at(at) != _COMMA:
                return
            at = self.skip(at + 1)

    def value(self, at: int) -> int:
        """Where the value that begins at `at` ends."""
        self._step()
        first = self._at(at)
        if first == _QUOTE:
            return self._string(at + 1)
        if first in _OPEN:
            return self._nested(at)
        start = at
        while True:
            found = _SCALAR.match(self._body, at, at + WINDOW)
            assert found is not None
            if found.end() < at + WINDOW:
                break
            at = found.end()
            self._step()
        if found.end() == start:
            raise Malformed
        return found.end()

    def skip(self, at: int) -> int:
        """The first place from `at` on that is no white space."""
        while True:
            found = _SPACE.match(self._body, at, at + WINDOW)
            assert found is not None
            if found.end() < at + WINDOW:
                return found.end()
            at = found.end()
            self._step()

    def _nested(self, at: int) -> int:
        depth = 0
        while True:
            found = _PLAIN.match(self._body, at, at + WINDOW)
            assert found is not None
            at = found.end()
            here = self._at(at)
            self._step()
            if here == _QUOTE:  # a string that the window cuts
                at = self._string(at + 1)
            elif here in _OPEN:
                depth += 1
                at += 1
                if depth > MOST_DEPTH:
                    raise TooComplex
            elif here in _CLOSE:
                depth -= 1
                at += 1
                if depth == 0:
                    return at

    def _string(self, at: int) -> int:
        """Behind the quote that ends the string whose text begins at `at`."""
        while True:
            found = _TEXT.match(self._body, at, at + WINDOW)
            assert found is not None
            stop = found.end()
            if self._at(stop) == _QUOTE:
                return stop + 1
            if stop == at:
                raise Malformed
            at = stop
            self._step()

    def _at(self, at: int) -> int:
        if at >= len(self._body):
            raise Malformed
        return self._body[at]

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise TooComplex


def _key(token: bytes) -> str:
    try:
        return str(json.loads(token.decode("utf-8", "replace"), strict=False))
    except ValueError as error:
        raise Malformed from error
