"""The facts of source files: plain data that crosses a process boundary. Pure.

Lines count from 1, as editors show them, and are those of the name, not of a decorator or a comment before it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["class", "function", "method"]


class Reason(enum.StrEnum):
    """Why a file was not read."""

    BINARY = "binary"
    BUDGET_BYTES = "budget-bytes"
    BUDGET_FILES = "budget-files"
    BUDGET_TIME = "budget-time"
    CRASHED = "crashed"
    GENERATED = "generated"
    LONG_LINES = "long-lines"
    LONG_NAME = "long-name"
    POINTER = "pointer"
    SYMLINK = "symlink"
    TIMED_OUT = "timed-out"
    TOO_LARGE = "too-large"
    UNREADABLE = "unreadable"
    VENDORED = "vendored"


FOR_NOW = frozenset({Reason.BUDGET_BYTES, Reason.BUDGET_FILES, Reason.BUDGET_TIME})
"""The reasons of a pass and not of the file: another pass may read it."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One declaration.

    `qname` is the dotted path of names inside the file, `container` that of the declaration around it ('' at the top).
    `signature` is the text from the first modifier to the body, on one line; `bases` are the types that it extends or
    implements, as written; `doc` is the first paragraph of its documentation, at most 400 characters. `is_interface`:
    a type that is one, or a method that an interface of Go lists.
    """

    kind: Kind
    qname: str
    name: str
    line: int
    end_line: int
    container: str = ""
    visibility: str = ""
    is_interface: bool = False
    signature: str = ""
    bases: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the module as written, and what it brings as pairs of (imported name, local name).

    `star` says that it brings every name of the module (`from a import *`, `import a.*`, `use a::*`).
    """

    module: str
    line: int
    names: tuple[tuple[str, str], ...] = ()
    star: bool = False


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What one file declares and imports.

    `digest` is the SHA-256 of its bytes in hex, `size` their number. `has_error` says that the grammar did not
    understand all of it. `calls` is what the call resolver collected from the same tree, if it was asked to;
    `package` the one that the file declares (Java, Kotlin, Scala). `words` are those of the lines of each symbol
    that belong to no symbol inside of it, in the order of `symbols`, and at the end those outside of all: names,
    and words of strings and comments, as they are written and as often, with blanks between them.
    """

    path: str
    language: str
    digest: str
    size: int
    lines: int
    package: str = ""
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    has_error: bool = False
    calls: object | None = None
    words: tuple[str, ...] = ()

    def __setstate__(self, state: list[object]) -> None:
        """Take the values of the fields. Facts of a version before 5 say, behind `has_error`, whether they were
        repaired."""
        names = [field.name for field in dataclasses.fields(self)]
        after = names.index("has_error") + 1
        if len(state) > after and isinstance(state[after], bool):
            state = state[:after] + state[after + 1 :]
        for name, value in zip(names, state, strict=False):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and why."""

    path: str
    reason: Reason
    detail: str = ""


def innermost(symbols: Sequence[Symbol], lines: int) -> list[int | None]:
    """Of each line from 1 to `lines` the number of the symbol that it belongs to, None for none; entry 0 is None."""
    begins: dict[int, list[int]] = {}
    for number in sorted(range(len(symbols)), key=lambda one: (symbols[one].line, -symbols[one].end_line)):
        begins.setdefault(symbols[number].line, []).append(number)
    found: list[int | None] = [None] * (lines + 1)
    around: list[int] = []
    for line in range(1, lines + 1):
        around += begins.get(line, ())
        while around and symbols[around[-1]].end_line < line:
            around.pop()
        found[line] = around[-1] if around else None
    return found
