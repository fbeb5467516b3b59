"""Source text to a syntax tree, with a time limit.

A parser may take seconds for input that no compiler would accept, and bytes given whole cannot be interrupted:
py-tree-sitter asks its progress callback only while it reads through a function.
"""

from __future__ import annotations

import functools
import time

import tree_sitter

from codegraph.parse import grammars

SECONDS = 0.4
"""CPU time for one source. What does not keep to it, a query say, ends with its process (`extract.worker`)."""
_CHUNK = 1 << 16


class UnparsableError(ValueError):
    """The source gives no tree: it has NUL bytes, or its time is over. The same source fails again."""


class ExpiredError(UnparsableError):
    """The time for this file is over."""


def parse(source: bytes, language: str, seconds: float = SECONDS) -> tree_sitter.Tree:
    """The syntax tree of `source`, which is UTF-8, in `language` (a key of `codegraph.parse.grammars`).

    Raises UnparsableError.
    """
    if b"\0" in source:
        raise UnparsableError("NUL bytes")
    parser = _parser(language)
    deadline, soonest = time.process_time() + seconds, time.monotonic() + seconds

    def read(offset: int, _: object) -> bytes:
        return source[offset : offset + _CHUNK]

    def is_over(*_: object) -> bool:
        # One thread uses no more CPU time than passes, and the clock for it takes a system call: asked thousands of
        # times, that was half of the time to parse.
        return time.monotonic() > soonest and time.process_time() > deadline

    try:
        return parser.parse(read, progress_callback=is_over)
    except ValueError as error:
        parser.reset()
        raise ExpiredError(f"not parsed within {seconds:g} s") from error


def text(source: bytes, node: tree_sitter.Node) -> str:
    """The text of a node."""
    return source[node.start_byte : node.end_byte].decode(errors="replace")


@functools.cache
def _parser(language: str) -> tree_sitter.Parser:
    return tree_sitter.Parser(grammars.load(language))
