"""What a syntax tree declares, with qualified names, and which declaration a place of the source belongs to.

Symbols and the callers of calls come from this one function, so their names agree. A qualified name is the dotted path
of the names around a declaration inside its file: classes, functions and methods, modules of Rust, namespaces of C++,
C# and TypeScript. What has no name (lambdas, anonymous classes, initializers) adds nothing: its members belong
to the nearest named declaration around it.

The captures of the queries say what a node is:

    @class, @interface   a type
    @callable            a function, or a method when a type is next around it
    @scope               adds its name and is no symbol (modules, namespaces)
    @body                likewise, and what is in it are methods (`impl` of Rust, anonymous classes)
    @import              an import
    @suspect             what the grammar makes of a declaration that it does not know, without an error
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Literal

import tree_sitter

from codegraph.parse import languages
from codegraph.parse.facts import Kind
from codegraph.parse.languages.ecma import VALUES

Role = Literal["class", "interface", "callable", "scope", "body"]
_TYPES = ("class", "interface", "body")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration: its node, the node of its name, and its qualified name. `container` is that of what is around."""

    node: tree_sitter.Node
    name_node: tree_sitter.Node
    role: Role
    kind: Kind | None
    name: str
    qname: str
    container: str


class Outline:
    """The declarations of a file in the order of the source, its imports, and the scopes of its bytes."""

    def __init__(
        self,
        declarations: tuple[Declaration, ...],
        imports: tuple[tree_sitter.Node, ...],
        scopes: tuple[tuple[int, int, int, str], ...],
        suspects: int,
    ) -> None:
        """`scopes` are (start, end, index of the scope around it or -1, qualified name), by their start."""
        self.declarations = declarations
        self.imports = imports
        self.suspects = suspects
        self._scopes = scopes
        self._starts = [start for start, *_ in scopes]

    def scope_at(self, byte: int) -> str:
        """The qualified name of the innermost class, function or method around a byte; '' outside of all."""
        index = bisect.bisect_right(self._starts, byte) - 1
        while index >= 0:
            _, end, around, qname = self._scopes[index]
            if byte < end:
                return qname
            index = around
        return ""


@dataclass(slots=True)
class _Open:
    end: int
    qname: str
    holds_methods: bool
    scope: int
    value_start: int


def outline(tree: tree_sitter.Tree, source: bytes, language: str) -> Outline:
    """The outline of `tree`, which `codegraph.parse.parsing.parse` made of `source`."""
    describe = languages.of(language)
    # Without a progress callback: py-tree-sitter 0.26.1 ends the process when a query asks it.
    found = tree_sitter.QueryCursor(languages.query(language)).captures(tree.root_node)
    imports = tuple(sorted(found.pop("import", ()), key=lambda node: node.start_byte))
    suspects = len(found.pop("suspect", ()))
    nodes: dict[int, tuple[int, int, Role, tree_sitter.Node]] = {}
    for role, captured in found.items():
        for node in captured:
            nodes[node.id] = (node.start_byte, -node.end_byte, role, node)  # type: ignore[assignment] # names of captures
    declarations: list[Declaration] = []
    scopes: list[tuple[int, int, int, str]] = []
    top = _Open(len(source) + 1, "", holds_methods=False, scope=-1, value_start=-1)
    stack = [top]
    for start, minus_end, role, node in sorted(nodes.values(), key=lambda entry: entry[:2]):
        while start >= stack[-1].end:
            stack.pop()
        around = stack[-1]
        name = None if start == around.value_start else describe.name(node, source)
        if not name or not name.text:
            if role in _TYPES and start != around.value_start:
                # An anonymous class: what is in it are methods, of what is around it.
                stack.append(_Open(-minus_end, around.qname, True, around.scope, -1))
            continue
        container = f"{around.qname}.{name.prefix}".strip(".") if name.prefix else around.qname
        qname = f"{container}.{name.text}" if container else name.text
        kind: Kind | None = None
        scope = around.scope
        if role in ("class", "interface"):
            kind = "class"
        elif role == "callable":
            kind = "method" if around.holds_methods or name.prefix else "function"
        if kind:
            scope = len(scopes)
            scopes.append((start, -minus_end, around.scope, qname))
        declarations.append(Declaration(node, name.node, role, kind, name.text, qname, container))
        value = node.child_by_field_name(VALUES[node.type]) if node.type in VALUES else None
        stack.append(_Open(-minus_end, qname, role in _TYPES, scope, value.start_byte if value else -1))
    return Outline(tuple(declarations), imports, tuple(scopes), suspects)
