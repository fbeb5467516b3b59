"""Types that comments of JavaScript give, and those that they define, import or leave open (`@template`).

Source: https://www.typescriptlang.org/docs/handbook/jsdoc-supported-types.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TAG = re.compile(r"@(type|param|arg|argument|returns?|typedef|property|prop)\s*\{")
_NAME = re.compile(r"\s*\[?\s*([\w$.]+)")
_CALLBACK = re.compile(r"@callback\s+([\w$]+)")
_TEMPLATE = re.compile(r"@template\s+(?:\{[^{}\n]*\}\s*)?\[?([\w$]+(?:\s*,\s*[\w$]+)*)")
_IMPORT = re.compile(
    r"@import\s+(?:([\w$]+)\s*,?\s*|\*\s*as\s+([\w$]+)\s*)?(?:\{([^{}]*)\}\s*)?from\s*[\"']([^\"'\n]+)[\"']"
)
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
        tag = {"return": "returns", "arg": "param", "argument": "param", "prop": "property"}.get(found[1], found[1])
        name = _NAME.match(text, end + 1)
        written = text[found.end() : end].strip()
        rest = _REST.sub("", written)
        plain = rest.rstrip("=").lstrip("?!").strip()
        yield tag, f"({plain})[]" if rest != written else plain, name[1] if name else ""


def types(comment: str) -> Iterator[tuple[str, str]]:
    """(name, type) of each type that a comment defines, written as TypeScript has it."""
    found = list(tags(comment))
    if (callback := _CALLBACK.search(comment)) and comment.startswith("/**"):
        given = ", ".join(f"{name}: {kind}" for tag, kind, name in found if tag == "param" and name.isidentifier())
        yield callback[1], f"({given}) => {next((kind for tag, kind, _ in found if tag == 'returns'), 'void')}"
    for at, (tag, kind, name) in enumerate(found):
        if tag != "typedef" or not name:
            continue
        if kind.lower() == "object":
            inner = [
                f"{one}: {type_}" for kept, type_, one in found[at + 1 :] if kept == "property" and one.isidentifier()
            ]
            yield name, "{ " + "; ".join(inner) + " }"
        else:
            yield name, kind


def imports(comment: str) -> Iterator[tuple[str, str, str]]:
    """(local name, module, name or `*`) of each type that a comment imports."""
    if "@import" not in comment or not comment.startswith("/**"):
        return
    for default, whole, names, module in _IMPORT.findall(_LINE.sub("\n", comment)):
        if default:
            yield default, module, "default"
        if whole:
            yield whole, module, "*"
        for one in names.split(","):
            parts = one.split()
            if parts:
                yield parts[-1], module, parts[0]


def templates(comment: str) -> list[str]:
    """The type parameters that a comment declares."""
    found = _TEMPLATE.findall(comment) if "@template" in comment else ()
    return [name.strip() for names in found for name in names.split(",")]


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
