"""What a command prints: an object as JSON or YAML, or something that rich can draw."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import yaml
from rich import console, measure

# Wide enough that a table is never folded where a program reads it.
_PIPED = 10_000
# A word of a text that is longer than this may be cut.
_WIDEST = 240


class Format(StrEnum):
    """`-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def document(items: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Objects as the List that kubectl prints and applies."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items), **more}


class Output:
    """Standard output in one format."""

    def __init__(self, format_: Format) -> None:
        self.format = format_

    def show(self, raw: Mapping[str, Any], drawn: console.RenderableType) -> None:
        """`raw` for programs, `drawn` for people."""
        if self.format is Format.JSON:
            sys.stdout.write(json.dumps(raw, indent=2, ensure_ascii=False) + "\n")
        elif self.format is Format.YAML:
            sys.stdout.write(yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=120))
        else:
            _draw(drawn)

    def note(self, sentence: str) -> None:
        """Something about the table, beside it: on standard error, and for people only."""
        if self.format is Format.TABLE:
            sys.stderr.write(sentence + "\n")

    def again(self, raw: Mapping[str, Any], drawn: console.RenderableType) -> None:
        """One of several states of the same: a document a line, or in place of the last one on a terminal."""
        if self.format is Format.JSON:
            sys.stdout.write(json.dumps(raw, ensure_ascii=False) + "\n")
        elif self.format is Format.YAML:
            sys.stdout.write("---\n")
            self.show(raw, drawn)
        else:
            sys.stdout.write("\x1b[2J\x1b[H" if sys.stdout.isatty() else "")
            _draw(drawn)
        sys.stdout.flush()


def _draw(drawn: console.RenderableType) -> None:
    """On a terminal with its width and colours, else as plain lines of any length."""
    if sys.stdout.isatty():
        screen = console.Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        screen.width = width(drawn, screen)
        screen.print(drawn)
    else:
        sys.stdout.write(plain(drawn))


def plain(drawn: console.RenderableType) -> str:
    """`drawn` as text, without styles and without the blanks that fill a table's last column."""
    screen = console.Console(width=_PIPED, color_system=None, highlight=False, markup=False, emoji=False)
    with screen.capture() as captured:
        screen.print(drawn)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def width(drawn: console.RenderableType, screen: console.Console) -> int:
    """The screen's, or what no word is cut in: a name that is cut cannot be copied, a long line only wraps."""
    uncut = measure.Measurement.get(screen, screen.options.update(width=_PIPED), drawn).minimum
    return max(screen.width, min(uncut, _WIDEST))
