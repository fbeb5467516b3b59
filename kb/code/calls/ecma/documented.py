"""Types that comments of JavaScript give: `@type`, `@param`, `@returns`, `@typedef`.

Source: https://www.typescriptlang.org/docs/handbook/jsdoc-supported-types.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TAG = re.compile(r"@(type|param|arg|argument|returns?|typedef|this)\s*\{")
_NAME = re.compile(r"\s*\[?\s*([\w$.]+)")
_LINE = re.compile(r"\n[ \t]*\*[ \t]?")
_LONGEST = 2_000
_REST = re.compile(r"^\.\.\.\s*")


def tags(comment: str) -> Iterator[tuple[str, str, str]]:
    """(tag, type, name) of each tag with a type in a comment; the name is that of a parameter or a type."""
    if not comment.startswith("/**"):
        return
    text = _LINE.sub("\n", comment.removesuffix("*/"))
    for found in _TAG.finditer(text):
        end = _closing(text, found.end())
        if end < 0:
            continue
        tag = {"return": "returns", "arg": "param", "argument": "param"}.get(found[1], found[1])
        name = _NAME.match(text, end + 1)
        written = text[found.end() : end].strip()
        rest = _REST.sub("", written)
        plain = rest.rstrip("=").lstrip("?!").strip()
        yield tag, f"({plain})[]" if rest != written else plain, name[1] if name else ""


def _closing(text: str, start: int) -> int:
    """Where the brace closes that is open before `start`; -1 if nowhere near."""
    depth = 1
    for at in range(start, min(len(text), start + _LONGEST)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if not depth:
                return at
    return -1
