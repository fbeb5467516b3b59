"""The documentation and the head of a declaration, as a reader of the graph sees them."""

from __future__ import annotations

import re

import tree_sitter

from codegraph.parse.languages.description import Language, joined
from codegraph.parse.parsing import text

LONGEST_DOC = 400
_LONGEST_HEAD = 300
_FURTHEST = 60
"""Lines that a comment is looked for above a declaration."""
_MARKS = re.compile(r"^\s*(?:/\*[*!]*|\*+/|\*(?!/)|//[/!]*|#+|--)?\s?|\s*\*/\s*$")
_ANNOTATION = re.compile(rb"\s*(?:@[\w.]|#!?\[|\[\w)")


def doc(node: tree_sitter.Node, lines: list[bytes], source: bytes, language: Language) -> str:
    """The first paragraph of what documents a declaration, at most 400 characters; '' for none.

    In Python it is the string that its body begins with, elsewhere the comment that ends on the line above it;
    decorators, annotations and attributes may stand between.
    """
    if language.grammar == "python":
        return _paragraph(_docstring(node, source))
    if any(mark in lines[node.start_point.row][: node.start_point.column] for mark in b"{;("):
        # What is above documents what begins the line.
        return ""
    row = node.start_point.row - 1
    lowest = max(0, row - _FURTHEST)
    while row >= lowest and _ANNOTATION.match(lines[row]):
        row -= 1
    if row < lowest:
        return ""
    found: list[str] = []
    above = lines[row].strip()
    if above.endswith(b"*/"):
        while row >= lowest:
            found.append(lines[row].decode(errors="replace"))
            if b"/*" in lines[row]:
                return _paragraph("\n".join(_MARKS.sub("", line) for line in reversed(found)))
            row -= 1
        return ""
    marks = tuple(mark.encode() for mark in language.comments)
    while row >= lowest and above.startswith(marks) and not above.startswith(b"#!"):
        found.append(above.decode(errors="replace"))
        row -= 1
        above = lines[row].strip() if row >= lowest else b""
    return _paragraph("\n".join(_MARKS.sub("", line) for line in reversed(found)))


def head(node: tree_sitter.Node, name: tree_sitter.Node, source: bytes, language: Language) -> str:
    """What is written from the first modifier to the body, on one line, without annotations."""
    end = _body_start(node, language)
    start = node.start_byte
    first = node.child(0) if node.child_count else None
    if first and first.type in ("modifiers", "attribute_list"):
        for modifier in first.named_children:
            if "annotation" in modifier.type:
                start = modifier.end_byte
    end = max(end, name.end_byte)
    written = source[start : min(end, start + 4 * _LONGEST_HEAD)].decode(errors="replace")
    return joined(written).rstrip("{:=; ")[:_LONGEST_HEAD]


def _body_start(node: tree_sitter.Node, language: Language) -> int:
    body = node.child_by_field_name("body")
    if body:
        return body.start_byte
    for field in ("value", "right"):
        # A function or class that is bound to a name.
        value = node.child_by_field_name(field)
        body = value.child_by_field_name("body") if value else None
        if body:
            return body.start_byte
    for child in node.children if language.body else ():
        if child.type in language.body:
            return child.start_byte
    declared = node.child_by_field_name("type") if node.type == "type_spec" else None
    if declared and declared.type in ("struct_type", "interface_type"):
        # Of a type in Go the keyword belongs to the head.
        return declared.children[0].end_byte
    return node.end_byte


def _docstring(node: tree_sitter.Node, source: bytes) -> str:
    body = node.child_by_field_name("body")
    for statement in body.named_children[:3] if body else ():
        if statement.type == "comment":
            continue
        string = statement.children[0] if statement.type == "expression_statement" else None
        if string and string.type == "string":
            return "\n".join(text(source, part) for part in string.children if part.type == "string_content")
        break
    return ""


def _paragraph(written: str) -> str:
    lines = [line.strip() for line in written.strip().splitlines()]
    if "" in lines:
        lines = lines[: lines.index("")]
    # A tag of Javadoc or JSDoc begins what is about parameters.
    tag = next((number for number, line in enumerate(lines) if line.startswith("@")), None)
    return joined(" ".join(lines[:tag]))[:LONGEST_DOC].rstrip()
