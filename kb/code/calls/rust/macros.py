"""The arguments of macros, which a grammar leaves as tokens: parsed once more as expressions, or as items.

All of a file are parsed as one text, in which they stand at their places and everything else is blank, so lines and
offsets are those of the file. What a macro makes of them is not known: arguments that do not parse are left out.
"""

from __future__ import annotations

import re

import tree_sitter

from kb.code import grammars, parsing

Node = tree_sitter.Node
Within = dict[int, tuple[Node, ...]]
"""The expressions by the start of the tokens that they were."""
_DEEP = 4
_TOKENS = frozenset(["quote", "quote_spanned", "parse_quote", "stringify", "concat", "macro_rules", "include", "env"])
"""Macros whose arguments are no expressions."""
_CALL = re.compile(rb"[\w>\])]\s*\(|\[|\bself\b|^vec$")


def arguments(root: Node, source: bytes) -> Within:
    """What is in brackets or parentheses after `name!`, for macros in expressions; those within them too."""
    found: Within = {}
    for _ in range(_DEEP):
        blank = bytearray(re.sub(rb"[^\n]", b" ", source))
        starts: set[int] = set()
        for node in _captured(root, "(macro_invocation) @m"):
            tokens = _tokens(node)
            if tokens is None or tokens.start_byte in found or not _is_expression(node, tokens, source):
                continue
            start, end = tokens.start_byte, tokens.end_byte
            blank[start - 1 : start] = b";"
            blank[start:end] = source[start:end]
            blank[start : start + 1], blank[end - 1 : end] = b"[", b"]"
            for child in tokens.children:
                if child.type in (";", "=>"):
                    blank[child.start_byte : child.end_byte] = b"," + b" " * (child.end_byte - child.start_byte - 1)
            starts.add(start)
        if not starts:
            break
        try:
            root = parsing.parse(bytes(blank) + b";", "rust").root_node
        except parsing.UnparsableError:
            break
        for node in root.named_children:
            inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
            if inner.start_byte in starts and inner.type == "array_expression":
                found[inner.start_byte] = tuple(
                    child for child in inner.named_children if not child.is_extra and not child.has_error
                )
    return found


def items(root: Node, source: bytes) -> list[Node]:
    """Items in `name! { ... }` at the top of a file: such macros put attributes before them."""
    blank = bytearray(re.sub(rb"[^\n]", b" ", source))
    is_any = False
    for node in root.named_children:
        inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
        tokens = _tokens(inner) if inner.type == "macro_invocation" else None
        if tokens is None:
            continue
        start, end = tokens.start_byte + 1, tokens.end_byte - 1
        if re.search(rb"\b(?:mod|use|struct|enum|impl|trait|fn)\b", source[start:end]) is not None:
            blank[start:end] = source[start:end]
            is_any = True
    if not is_any:
        return []
    try:
        parsed = parsing.parse(bytes(blank), "rust").root_node
    except parsing.UnparsableError:
        return []
    return [node for node in parsed.named_children if not node.has_error]


def _is_expression(node: Node, tokens: Node, source: bytes) -> bool:
    macro = node.child_by_field_name("macro")
    name = parsing.text(source, macro).rpartition("::")[2] if macro is not None else ""
    if name in _TOKENS or source[tokens.start_byte : tokens.start_byte + 1] == b"{":
        return False
    return name == "vec" or _CALL.search(source, tokens.start_byte + 1, tokens.end_byte) is not None


def _tokens(node: Node) -> Node | None:
    last = node.named_children[-1] if node.named_children else None
    return last if last is not None and last.type == "token_tree" else None


def _captured(root: Node, query: str) -> list[Node]:
    # Without a progress callback: py-tree-sitter 0.26.1 ends the process when a query asks it.
    cursor = tree_sitter.QueryCursor(tree_sitter.Query(grammars.load("rust"), query))
    return sorted(cursor.captures(root).get("m", []), key=lambda node: node.start_byte)
