"""Names that patterns bind, with the steps from what is matched to each. Source: Rust reference, "Patterns"."""

from __future__ import annotations

from collections.abc import Iterator

import tree_sitter

from kb.code.calls.rust.facts import Expression
from kb.code.calls.rust.written import parts, text, written

Node = tree_sitter.Node
Bound = tuple[str, tuple[Expression, ...], Node]
_INNER = frozenset([
    "ref_pattern", "mut_pattern", "reference_pattern", "match_pattern", "parenthesized_pattern", "box_pattern"
])  # fmt: skip


def names(node: Node, source: bytes, context: int, steps: tuple[Expression, ...] = ()) -> Iterator[Bound]:
    """The names of a pattern. A name with a capital is a constant or a variant, and binds nothing."""
    kind = node.type
    if kind in ("identifier", "shorthand_field_identifier"):
        name = text(source, node)
        if not name[:1].isupper():
            yield name, steps, node
    elif kind in _INNER:
        inner = parts(node)
        if inner:
            yield from names(inner[0], source, context, steps)
    elif kind == "captured_pattern":
        inner = parts(node)
        if inner and inner[-1].type == "remaining_field_pattern":
            steps = (*steps[:-1], ("rest",)) if steps and steps[-1] == ("slice",) else steps
        for child in inner:
            yield from names(child, source, context, steps)
    elif kind == "tuple_pattern":
        for position, child in _placed(node):
            yield from names(child, source, context, (*steps, ("item", position)))
    elif kind == "tuple_struct_pattern":
        named = node.child_by_field_name("type")
        path = written(named, source)
        for position, child in _placed(node):
            if child != named:
                yield from names(child, source, context, (*steps, ("field", context, path, position)))
    elif kind == "struct_pattern":
        path = written(node.child_by_field_name("type"), source)
        for child in node.named_children:
            field = child.child_by_field_name("name") if child.type == "field_pattern" else None
            if field is not None:
                inner_pattern = child.child_by_field_name("pattern") or field
                step = ("field", context, path, text(source, field))
                yield from names(inner_pattern, source, context, (*steps, step))
    elif kind == "slice_pattern":
        for child in parts(node):
            yield from names(child, source, context, (*steps, ("slice",)))
    elif kind == "or_pattern":
        seen: set[str] = set()
        for child in parts(node):
            for bound in list(names(child, source, context, steps)):
                if bound[0] not in seen:
                    yield bound
            seen.update(bound[0] for bound in names(child, source, context, steps))


def _placed(node: Node) -> Iterator[tuple[int, Node]]:
    """The items between parentheses with their places; after `..` they are counted from the end, as -1, -2, ..."""
    children = node.children
    items: list[list[Node]] = [[]]
    for child in children:
        if child.type == "(":
            items = [[]]
        elif child.type == ",":
            items.append([])
        elif child.is_named and not child.is_extra:
            items[-1].append(child)
    if items and not items[-1] and children[-2:-1] and children[-2].type == ",":
        items.pop()
    rest = next((at for at, item in enumerate(items) if item and item[0].type == "remaining_field_pattern"), len(items))
    for position, item in enumerate(items):
        if item and position != rest:
            yield (position if position < rest else position - len(items)), item[-1]
