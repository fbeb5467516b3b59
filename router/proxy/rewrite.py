"""`keep_alive` and `num_ctx` of a request's body, set by the router for models that a GpuBackend owns.

Every other byte stays: values are replaced where they stand, and what is missing is added behind the last member. So a
scanner of tokens is used instead of a decoder, at the speed of regular expressions (an image of megabytes is one
token). As in Go's decoder, keys of the top level are compared without case, all of several equal keys count, and only
the first JSON value is read; keys inside `options` are compared as they are (Ollama's `Options.FromMap`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]+")
_NESTED = re.compile(rb'[^"\[\]{}]*(?:("(?:[^"\\]*(?:\\.[^"\\]*)*)")|([\[{])|([\]}]))', re.DOTALL)

Span = tuple[int, int]


class _Malformed(Exception):  # noqa: N818  # never leaves this module: the backend says what is wrong with a body
    """Not JSON."""


def rewrite(body: bytes, keep_alive: str | int | None, num_ctx: int | None) -> bytes:
    """The body with these values; None leaves a value alone, and a body that is no JSON object stays as it is.

    `keep_alive` is seconds as a number or a Go duration ("30m"), `num_ctx` the context window in tokens.
    """
    try:
        members, end = _object(body, _skip(body, 0))
        edits = []
        if keep_alive is not None:
            edits += _set(body, members, end, "keep_alive", json.dumps(keep_alive).encode())
        if num_ctx is not None:
            edits += _context(body, members, end, num_ctx)
    except _Malformed:
        return body
    return _apply(body, edits, empty=not members, end=end)


_Edit = tuple[Span, bytes]


def _context(body: bytes, members: list[tuple[str, Span]], end: int, num_ctx: int) -> list[_Edit]:
    value = b"%d" % num_ctx
    edits: list[_Edit] = []
    for at, stop in _spans(members, "options"):
        if body[at : at + 1] != b"{":  # null: no options; anything else the backend will refuse
            if body[at:stop] == b"null":
                edits.append(((at, stop), b'{"num_ctx":%s}' % value))
            continue
        inner, inner_end = _object(body, at)
        inside = [span for name, span in inner if name == "num_ctx"]
        if inside:
            edits += [(span, value) for span in inside]
        else:
            comma = b"," if inner else b""
            edits.append(((inner_end, inner_end), b'%s"num_ctx":%s' % (comma, value)))
    if not _spans(members, "options"):
        edits.append(((end, end), b'"options":{"num_ctx":%s}' % value))
    return edits


def _set(body: bytes, members: list[tuple[str, Span]], end: int, key: str, value: bytes) -> list[_Edit]:
    spans = _spans(members, key)
    return [(span, value) for span in spans] or [((end, end), b'"%s":%s' % (key.encode(), value))]


def _spans(members: list[tuple[str, Span]], key: str) -> list[Span]:
    return [span for name, span in members if name.casefold() == key]


def _apply(body: bytes, edits: list[_Edit], *, empty: bool, end: int) -> bytes:
    """`end` is where the top object closes: what is added there needs commas."""
    pieces, at = [], 0
    for (start, stop), value in sorted(edits, key=lambda edit: edit[0]):
        pieces.append(body[at:start])
        if start == end:
            if not empty:
                pieces.append(b",")
            empty = False
        pieces.append(value)
        at = stop
    pieces.append(body[at:])
    return b"".join(pieces)


def _object(body: bytes, at: int) -> tuple[list[tuple[str, Span]], int]:
    """The members of the object that begins at `at`, as (key, span of the value), and where its brace closes."""
    if body[at : at + 1] != b"{":
        raise _Malformed
    members = list(_members(body, at + 1))
    last = members[-1][1][1] if members else at + 1
    end = _skip(body, last)
    if body[end : end + 1] != b"}":
        raise _Malformed
    return members, end


def _members(body: bytes, at: int) -> Iterator[tuple[str, Span]]:
    at = _skip(body, at)
    if body[at : at + 1] == b"}":
        return
    while True:
        key = _STRING.match(body, at)
        if key is None:
            raise _Malformed
        at = _skip(body, key.end())
        if body[at : at + 1] != b":":
            raise _Malformed
        at = _skip(body, at + 1)
        stop = _value(body, at)
        yield _text(key.group()), (at, stop)
        at = _skip(body, stop)
        if body[at : at + 1] != b",":
            return
        at = _skip(body, at + 1)


def _value(body: bytes, at: int) -> int:
    """Where the value that begins at `at` ends."""
    first = body[at : at + 1]
    if first == b'"':
        found = _STRING.match(body, at)
    elif first in (b"{", b"["):
        return _nested(body, at)
    else:
        found = _SCALAR.match(body, at)
    if found is None:
        raise _Malformed
    return found.end()


def _nested(body: bytes, at: int) -> int:
    depth = 0
    while True:
        token = _NESTED.match(body, at)
        if token is None:
            raise _Malformed
        at = token.end()
        depth += (token.lastindex == 2) - (token.lastindex == 3)
        if depth == 0:
            return at


def _skip(body: bytes, at: int) -> int:
    found = _SPACE.match(body, at)
    return at if found is None else found.end()


def _text(token: bytes) -> str:
    try:
        return str(json.loads(token.decode("utf-8", "replace"), strict=False))
    except ValueError as error:
        raise _Malformed from error
