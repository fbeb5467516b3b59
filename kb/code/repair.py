"""Declarations that a grammar did not understand, found by the lines that they stand on.

A file with an error has a tree, and what is missing in it is missing silently. Only lines in errors are looked at, and
only what a declaration looks like in its language; a type around it is found by indentation.
"""

from __future__ import annotations

import functools
import re

import tree_sitter

from kb.code.facts import Kind, Symbol
from kb.code.languages.description import Language, joined

_CALLABLE = ("def", "fn", "func", "fun", "function")
_TEXT = ("comment", "string", "template", "character", "text_block", "heredoc")
_MOST_ERRORS = 2_000
_LONGEST_LINE = 400


def scan(tree: tree_sitter.Tree, source: bytes, language: Language, symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """The symbols with those that stand inside errors of the tree, in the order of their lines."""
    if not language.lost:
        return symbols
    lines = source.decode(errors="replace").split("\n")
    broken = rows(tree)
    taken = {(symbol.line, symbol.name) for symbol in symbols}
    lost: list[Symbol] = []
    for row in sorted(broken):
        line = lines[row] if row < len(lines) else ""
        found = _pattern(language.lost).match(line) if len(line) <= _LONGEST_LINE else None
        if not found:
            continue
        groups = found.groupdict()
        group = "method" if groups.get("method") else "name"
        name = groups[group].strip("`")
        if (row + 1, name) in taken or _is_text(tree, row, len(line[: found.start(group)].encode())):
            continue
        is_callable = group == "method" or groups["kind"] in _CALLABLE
        kind: Kind = "function" if is_callable else "class"
        lost.append(
            Symbol(
                kind=kind,
                qname=groups.get("receiver") or "",
                name=name,
                line=row + 1,
                end_line=row + 1,
                is_interface=groups["kind"] in ("interface", "trait", "protocol"),
                signature=joined(line).rstrip("{:=; ")[:300],
            )
        )
    return _placed(symbols, lost, lines, broken) if lost else symbols


@functools.cache
def _pattern(lost: str) -> re.Pattern[str]:
    return re.compile(lost)


def rows(tree: tree_sitter.Tree) -> set[int]:
    """The rows that errors cover, from 0, and those where nodes begin that have errors inside."""
    found: set[int] = set()
    pending, errors = [tree.root_node], 0
    while pending and errors < _MOST_ERRORS:
        node = pending.pop()
        if node.is_error or node.is_missing:
            errors += 1
            found.update(range(node.start_point.row, node.end_point.row + 1))
        elif node.has_error:
            # What follows a broken place in the same node may be broken with it.
            found.add(node.start_point.row)
            pending += [child for child in node.children if child.has_error or child.is_missing]
    return found


def _is_text(tree: tree_sitter.Tree, row: int, column: int) -> bool:
    node = tree.root_node.descendant_for_point_range((row, column), (row, column + 1))
    while node and not node.is_error:
        if any(word in node.type for word in _TEXT):
            return True
        node = node.parent
    return False


def _placed(symbols: tuple[Symbol, ...], lost: list[Symbol], lines: list[str], broken: set[int]) -> tuple[Symbol, ...]:
    """Found ones among the others. What is inside an error gets its container by indentation."""
    found = {id(one) for one in lost}
    placed: list[Symbol] = []
    # The last declarations that are still open, by growing indentation.
    around: list[tuple[int, Symbol]] = []
    moved: dict[str, Symbol] = {}
    for one in sorted([*symbols, *lost], key=lambda symbol: symbol.line):
        indent = _indent(lines[one.line - 1])
        while around and around[-1][0] >= indent:
            around.pop()
        outer = around[-1][1] if around else None
        if id(one) in found or (one.line - 1 in broken and not one.container and outer):
            container = one.qname if id(one) in found and one.qname else outer.qname if outer else ""
            before, one = one.qname, _with(one, container, outer)
            moved[before] = one
        elif one.container in moved and outer:
            before, one = one.qname, _with(one, moved[one.container].qname, moved[one.container])
            moved[before] = one
        placed.append(one)
        if not around or around[-1][0] < indent:
            around.append((indent, one))
    return tuple(placed)


def _indent(line: str) -> int:
    return len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())


def _with(one: Symbol, container: str, outer: Symbol | None) -> Symbol:
    kind = one.kind
    if kind != "class":
        kind = "method" if container and (one.qname == container or (outer and outer.kind == "class")) else "function"
    return Symbol(
        kind=kind,
        qname=f"{container}.{one.name}" if container else one.name,
        name=one.name,
        line=one.line,
        end_line=one.end_line,
        container=container,
        visibility=one.visibility,
        is_interface=one.is_interface,
        signature=one.signature,
        bases=one.bases,
        doc=one.doc,
    )
