"""`keep_alive` and the runner's options of a request's body, decided by the router for models that a GpuBackend owns.

Ollama reloads a model for a request whose runner options differ from those it was loaded with (`needsReload` in
`server/sched.go`). Of a client's options the router therefore replaces `num_ctx` by the GpuBackend's, if that has one,
and the others of the runner by `null`, which Ollama reads like a missing option (`Options.FromMap` in `api/types.go`).

Every other byte stays: values are replaced where they stand, and what is missing is added behind the last member. As in
Go's decoder, keys of the top level are compared without case, and all of several equal keys count; keys inside
`options` are compared as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from router.proxy.scan import Body, Malformed, Scanner, Span

RUNNER = frozenset({"num_gpu", "num_batch", "num_thread", "use_mmap", "main_gpu"})
"""Options that make Ollama load a model anew; without `num_ctx`, which a GpuBackend states."""
KEYS = frozenset({"keep_alive", "options"})
"""Members of the top level that an `Outline` is made of."""
_OPTIONS = RUNNER | {"num_ctx"}

Piece = bytes | bytearray | memoryview


class Options(NamedTuple):
    """One value of `options`: an object with `members` that closes at `end`, or another value (`end` is -1)."""

    span: Span
    members: tuple[tuple[str, Span], ...] = ()
    end: int = -1
    empty: bool = True


class Outline(NamedTuple):
    """Where the values stand. `end` is the brace that closes the body's object."""

    keep_alive: tuple[Span, ...]
    options: tuple[Options, ...]
    end: int
    empty: bool


class Rewritten(NamedTuple):
    """The body in `pieces`, most of them views of the old one; `dropped` are the client's runner options."""

    pieces: tuple[Piece, ...]
    dropped: tuple[str, ...] = ()


def outline(scanner: Scanner, body: Body, found: list[tuple[str, Span]], end: int, *, empty: bool) -> Outline:
    """From the members with `KEYS` of the top level. Raises as `Scanner`."""
    options = []
    for key, span in found:
        if key.casefold() != "options":
            continue
        if body[span[0]] == 0x7B:
            inner: list[tuple[str, Span]] = []
            inner_end, inner_empty = scanner.members(span[0], _OPTIONS, inner)
            members = tuple(member for member in inner if member[0] in _OPTIONS)
            options.append(Options(span, members, inner_end, inner_empty))
        else:
            options.append(Options(span))
    keep_alive = tuple(span for key, span in found if key.casefold() == "keep_alive")
    return Outline(keep_alive, tuple(options), end, empty)


def read(body: Body) -> Outline | None:
    """The outline of a whole body; None when it is no JSON object. Raises scan.TooComplex."""
    scanner, found = Scanner(body), list[tuple[str, Span]]()
    try:
        end, empty = scanner.members(scanner.skip(0), KEYS, found)
        return outline(scanner, body, found, end, empty=empty)
    except Malformed:
        return None


def pieces(body: Body, where: Outline, keep_alive: str | int | None, num_ctx: int | None) -> Rewritten:
    """The body with these values; None leaves the client's. `keep_alive` is seconds as a number or a Go duration
    ("30m"), `num_ctx` the context window in tokens."""
    edits: list[tuple[Span, bytes]] = []
    dropped: list[str] = []
    end = where.end
    if keep_alive is not None:
        value = json.dumps(keep_alive).encode()
        edits += [(span, value) for span in where.keep_alive] or [((end, end), b'"keep_alive":%s' % value)]
    context = b"" if num_ctx is None else b'"num_ctx":%d' % num_ctx
    for one in where.options:
        for name, span in one.members:
            if name != "num_ctx":
                if bytes(body[slice(*span)]) != b"null":
                    edits.append((span, b"null"))
                    dropped.append(name)
            elif num_ctx is not None:
                edits.append((span, b"%d" % num_ctx))
        if not context or any(name == "num_ctx" for name, _ in one.members):
            continue
        if one.end >= 0:
            edits.append(((one.end, one.end), context if one.empty else b"," + context))
        elif bytes(body[slice(*one.span)]) == b"null":  # no options; anything else the backend will refuse
            edits.append((one.span, b"{%s}" % context))
    if context and not where.options:
        edits.append(((end, end), b'"options":{%s}' % context))
    edits = [(span, value) for span, value in edits if bytes(body[slice(*span)]) != value]
    return Rewritten(_apply(body, edits, where), tuple(dropped))


def rewrite(body: Body, keep_alive: str | int | None, num_ctx: int | None) -> Rewritten:
    """See `pieces`; for a body that was not read before. One that is no JSON object stays as it is."""
    where = read(body)
    return Rewritten((body,)) if where is None else pieces(body, where, keep_alive, num_ctx)


def renamed(body: Body, keys: Collection[str], model: str) -> bytes:
    """The body with `model` as the value of each of the top-level `keys`, whatever their case. Raises as `Scanner`."""
    scanner, found = Scanner(body), list[tuple[str, Span]]()
    scanner.members(scanner.skip(0), keys, found)
    view, made, at, value = memoryview(body), list[Piece](), 0, json.dumps(model).encode()
    for _, (start, stop) in found:
        made += (view[at:start], value)
        at = stop
    return b"".join([*made, view[at:]])


def _apply(body: Body, edits: list[tuple[Span, bytes]], where: Outline) -> tuple[Piece, ...]:
    if not edits:
        return (body,)
    view, made, at, empty = memoryview(body), list[Piece](), 0, where.empty
    for (start, stop), value in sorted(edits, key=lambda edit: edit[0]):
        made.append(view[at:start])
        if start == where.end:
            made.append(value if empty else b"," + value)
            empty = False
        else:
            made.append(value)
        at = stop
    made.append(view[at:])
    return tuple(made)
