"""Rust: the crate `syn` is the reference. Functions of an `impl` stand under the name of its target type.

References and pointers are looked through, type arguments and paths are left out: `impl T for &a::B<C>` is `B`. Modules
are containers. Imports are flattened, one for each path: `use a::{b, c::*}` gives `a::b` and `a::c::*`; `a::{self}` is
`a`. What a macro makes is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Name, Node, joined, line
from codegraph.parse.parsing import text

_THROUGH = {"reference_type": "type", "pointer_type": "type", "generic_type": "type", "dynamic_type": "trait"}


def _name(node: Node, source: bytes) -> Name | None:
    if node.type != "impl_item":
        name = node.child_by_field_name("name")
        return Name(text(source, name), name) if name else None
    target = node.child_by_field_name("type")
    while target:
        through = _THROUGH.get(target.type, "name" if target.type == "scoped_type_identifier" else "")
        inner = target.child_by_field_name(through) if through else None
        if target.type == "bounded_type" or (target.type == "tuple_type" and target.named_child_count == 1):
            # `dyn A + B` is the first of them; parentheses around one type are no tuple.
            inner = target.named_children[0]
        if not inner:
            return Name("".join(text(source, target).split()), target)
        target = inner
    return None


def _bases(node: Node, source: bytes) -> Iterator[str]:
    # For an `impl`: the trait, which `extraction` gives to the target.
    trait = node.child_by_field_name("trait") if node.type == "impl_item" else None
    if trait:
        yield joined(text(source, trait))
    bounds = node.child_by_field_name("bounds") if node.type == "trait_item" else None
    for bound in bounds.named_children if bounds else ():
        if bound.type not in ("lifetime", "line_comment", "block_comment"):
            yield joined(text(source, bound))


def _visibility(node: Node, _: str, source: bytes) -> str:
    for child in node.children[:3]:
        if child.type == "visibility_modifier":
            written = text(source, child)
            return "public" if written == "pub" else joined(written[3:].strip("() "))
    return "private"


def _imports(node: Node, source: bytes) -> Iterator[Import]:
    where = line(node)
    if node.type == "extern_crate_declaration":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        if name:
            crate = text(source, name)
            yield Import(crate, where, ((crate, text(source, alias) if alias else crate),))
        return
    argument = node.child_by_field_name("argument")
    # Not by recursion: a hostile source nests as deep as it likes. Last in, first out, so children go in backwards.
    pending = [("", argument)] if argument else []
    while pending:
        prefix, tree = pending.pop()
        if tree.type == "use_list":
            pending += [(prefix, child) for child in reversed(tree.named_children) if not child.is_extra]
        elif tree.type == "scoped_use_list":
            path, names = tree.child_by_field_name("path"), tree.child_by_field_name("list")
            if names:
                pending.append((_path(prefix, text(source, path) if path else ""), names))
        elif tree.type == "use_as_clause":
            path, alias = tree.child_by_field_name("path"), tree.child_by_field_name("alias")
            if path and alias:
                yield _import(_path(prefix, text(source, path)), where, text(source, alias))
        elif tree.type == "use_wildcard":
            path_ = _path(prefix, text(source, tree))
            yield Import(path_, where, (), star=True)
        else:
            yield _import(_path(prefix, text(source, tree)), where)


def _path(prefix: str, path: str) -> str:
    path = "".join(path.split())
    return f"{prefix}::{path}" if prefix and path else prefix or path


def _import(path: str, where: int, alias: str = "") -> Import:
    path = path.removesuffix("::self")
    last = path.rpartition("::")[2]
    return Import(path, where, ((last, alias or last),))


LANGUAGE = Language(
    grammar="rust",
    queries=("rust",),
    imports=_imports,
    name=_name,
    bases=_bases,
    visibility=_visibility,
)
