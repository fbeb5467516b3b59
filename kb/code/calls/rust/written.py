"""Types, paths and bounds of Rust as they are written, from their nodes. Pure functions of a node and the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter

from kb.code.calls.rust.facts import UNKNOWN, Generic, Use, Where, Written

Node = tree_sitter.Node
UNIT: Written = ("tuple", ())
_LEFT_OUT = frozenset(["lifetime", "line_comment", "block_comment", "mutable_specifier", "visibility_modifier"])
_TRUE = frozenset(["unix", "feature", "debug_assertions", "panic"])
_SET = {"target_os": "linux", "target_family": "unix", "target_arch": "x86_64", "target_pointer_width": "64",
        "target_endian": "little", "target_env": "gnu", "target_has_atomic": ""}  # fmt: skip
_CFG = re.compile(r"[\w.]+|\"(?:[^\"\\]|\\.)*\"|[(),=]")


def text(source: bytes, node: Node) -> str:
    """The text of a name; `r#type` is `type`."""
    return source[node.start_byte : node.end_byte].decode(errors="replace").removeprefix("r#")


def parts(node: Node) -> list[Node]:
    """The named children without comments and lifetimes."""
    return [child for child in node.named_children if child.type not in _LEFT_OUT]


def written(node: Node | None, source: bytes) -> Written:
    """The type or path of a node."""
    if node is None:
        return UNKNOWN
    kind = node.type
    if kind in ("type_identifier", "identifier", "primitive_type", "self", "super", "crate", "metavariable",
                "shorthand_field_identifier"):  # fmt: skip
        return ("path", ((text(source, node), ()),))
    if kind in ("scoped_type_identifier", "scoped_identifier", "generic_type", "generic_function",
                "generic_type_with_turbofish"):  # fmt: skip
        return _path(node, source)
    if kind in ("reference_type", "parenthesized_type", "mut_pattern"):
        inner = node.child_by_field_name("type")
        return written(inner if inner is not None else next(iter(parts(node)), None), source)
    if kind == "pointer_type":
        return ("ptr", written(node.child_by_field_name("type"), source))
    if kind == "tuple_type":
        return ("tuple", tuple(written(child, source) for child in parts(node)))
    if kind == "unit_type":
        return UNIT
    if kind == "array_type":
        return ("[]", written(node.child_by_field_name("element"), source))
    if kind == "function_type":
        return _function(node, source)
    if kind in ("dynamic_type", "abstract_type"):
        return ("dyn", bounds(node.child_by_field_name("trait"), source))
    if kind == "bounded_type":
        found = tuple(one for child in parts(node) for one in bounds(child, source))
        return ("dyn", found)
    if kind == "bracketed_type":
        inner = parts(node)[0] if parts(node) else None
        return ("q", *_qualified(inner, source), ())
    if kind == "higher_ranked_trait_bound":
        return written(node.child_by_field_name("type"), source)
    if kind == "never_type":
        return ("never",)
    return UNKNOWN


def _qualified(node: Node | None, source: bytes) -> tuple[Written, Written | None]:
    if node is not None and node.type == "qualified_type":
        alias = node.child_by_field_name("alias")
        return written(node.child_by_field_name("type"), source), written(alias, source)
    return written(node, source), None


def _path(node: Node, source: bytes) -> Written:
    """By a loop: a path may have as many segments as a hostile source likes."""
    segments: list[tuple[str, tuple[Written, ...]]] = []
    given: tuple[Written, ...] = ()
    at: Node | None = node
    while at is not None:
        if at.type in ("generic_type", "generic_function", "generic_type_with_turbofish"):
            given = arguments(at.child_by_field_name("type_arguments"), source)
            at = at.child_by_field_name("type") or at.child_by_field_name("function")
        elif at.type in ("scoped_type_identifier", "scoped_identifier"):
            name = at.child_by_field_name("name")
            segments.append((text(source, name) if name is not None else "", given))
            given = ()
            path = at.child_by_field_name("path")
            if path is None and at.children and at.children[0].type == "::":
                segments.append(("", ()))
            at = path
        elif at.type == "bracketed_type":
            inner = parts(at)[0] if parts(at) else None
            return ("q", *_qualified(inner, source), tuple(reversed(segments)))
        else:
            first = written(at, source)
            if first[0] != "path":
                return ("q", first, None, tuple(reversed(segments))) if segments else first
            segments.append((first[1][0][0], given or first[1][0][1]))
            at = None
    return ("path", tuple(reversed(segments)))


def arguments(node: Node | None, source: bytes) -> tuple[Written, ...]:
    """Type arguments; constants are unknown types so that places agree."""
    found: list[Written] = []
    for child in parts(node) if node is not None else ():
        if child.type == "type_binding":
            name = child.child_by_field_name("name")
            kind = written(child.child_by_field_name("type"), source)
            found.append(("=", text(source, name) if name is not None else "", kind))
        elif child.type != "trait_bounds":
            found.append(written(child, source))
    return tuple(found)


def _function(node: Node, source: bytes) -> Written:
    """`fn(A) -> B`, or the bound `Fn(A) -> B`, a path whose last segment has the tuple and `Output`."""
    params = node.child_by_field_name("parameters")
    inputs = tuple(_parameter(child, source) for child in parts(params)) if params is not None else ()
    result = node.child_by_field_name("return_type")
    output = UNIT if result is None else written(result, source)
    trait = node.child_by_field_name("trait")
    if trait is None:
        return ("fn", inputs, output)
    path = written(trait, source)
    if path[0] != "path":
        return UNKNOWN
    last = (path[1][-1][0], (("tuple", inputs), ("=", "Output", output)))
    return ("path", (*path[1][:-1], last))


def _parameter(node: Node, source: bytes) -> Written:
    return written(node.child_by_field_name("type") if node.type == "parameter" else node, source)


def bounds(node: Node | None, source: bytes) -> tuple[Written, ...]:
    """The traits of a bound; `?Sized` and lifetimes are none."""
    if node is None:
        return ()
    if node.type in ("trait_bounds", "bounded_type"):
        return tuple(one for child in parts(node) for one in bounds(child, source))
    if node.type in ("removed_trait_bound", "use_bounds", *_LEFT_OUT):
        return ()
    found = written(node, source)
    return found[1] if found[0] == "dyn" else (found,)


def generics(node: Node, source: bytes) -> tuple[tuple[Generic, ...], tuple[Where, ...]]:
    """Type parameters and predicates of an item."""
    names: list[Generic] = []
    holder = node.child_by_field_name("type_parameters")
    for child in parts(holder) if holder is not None else ():
        if child.type in ("type_parameter", "const_parameter", "type_identifier"):
            name = child.child_by_field_name("name") or child
            names.append((text(source, name), bounds(child.child_by_field_name("bounds"), source)))
    wheres: list[Where] = []
    for clause in node.children:
        if clause.type != "where_clause":
            continue
        for one in parts(clause):
            left = one.child_by_field_name("left")
            if one.type == "where_predicate" and left is not None:
                wheres.append((written(left, source), bounds(one.child_by_field_name("bounds"), source)))
    return tuple(names), tuple(wheres)


def uses(node: Node, source: bytes, is_public: bool, holds: bool) -> Iterator[Use]:
    """The paths of a `use` or `extern crate`. Not by recursion: a hostile source nests as deep as it likes."""
    if node.type == "extern_crate_declaration":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        if name is not None:
            yield Use(("", text(source, name)), text(source, alias or name), is_public, holds)
        return
    argument = node.child_by_field_name("argument")
    pending: list[tuple[tuple[str, ...], Node]] = [((), argument)] if argument is not None else []
    while pending:
        prefix, tree = pending.pop()
        if tree.type == "use_list":
            pending += [(prefix, child) for child in reversed(parts(tree))]
        elif tree.type == "scoped_use_list":
            path, names = tree.child_by_field_name("path"), tree.child_by_field_name("list")
            if names is not None:
                pending.append(((*prefix, *_names(path, tree, source)), names))
        elif tree.type == "use_as_clause":
            path, alias = tree.child_by_field_name("path"), tree.child_by_field_name("alias")
            if path is not None and alias is not None:
                yield Use(_plain((*prefix, *_names(path, tree, source))), text(source, alias), is_public, holds)
        elif tree.type == "use_wildcard":
            inner = parts(tree)
            yield Use((*prefix, *_names(inner[0] if inner else None, tree, source)), "*", is_public, holds)
        else:
            whole = _plain((*prefix, *_names(tree, tree, source)))
            if whole:
                yield Use(whole, whole[-1], is_public, holds)


def _names(path: Node | None, tree: Node, source: bytes) -> tuple[str, ...]:
    if path is None:
        return ("",) if tree.children and tree.children[0].type == "::" else ()
    found = written(path, source)
    return tuple(name for name, _ in found[1]) if found[0] == "path" else ()


def _plain(path: tuple[str, ...]) -> tuple[str, ...]:
    return path[:-1] if len(path) > 1 and path[-1] == "self" else path


def attributes(node: Node, source: bytes) -> tuple[bool, str]:
    """Whether a plain build for Linux has an item, by its `cfg`, and the file that `path` names."""
    holds, path = True, ""
    at = node.prev_sibling
    while at is not None and at.type in ("attribute_item", "line_comment", "block_comment"):
        if at.type == "attribute_item":
            said = source[at.start_byte : at.end_byte].decode(errors="replace")
            if (found := re.match(r"#\[\s*path\s*=\s*\"([^\"]+)\"", said)) is not None:
                path = found[1]
            elif re.match(r"#\[\s*cfg\s*\(", said):
                holds = holds and _holds(_CFG.findall(said.partition("(")[2]))
        at = at.prev_sibling
    return holds, path


def _holds(tokens: list[str]) -> bool:
    """Evaluates a `cfg` predicate; features count as given, tests as not."""
    position = 0

    def one(depth: int) -> bool:
        nonlocal position
        word = tokens[position] if position < len(tokens) else ""
        position += 1
        if position < len(tokens) and tokens[position] == "(" and depth < 50:
            position += 1
            found: list[bool] = []
            while position < len(tokens) and tokens[position] != ")":
                found.append(one(depth + 1))
                if position < len(tokens) and tokens[position] == ",":
                    position += 1
            position += 1
            return not any(found) if word == "not" else any(found) if word == "any" else all(found)
        if position + 1 < len(tokens) and tokens[position] == "=":
            value = tokens[position + 1].strip('"')
            position += 2
            return word == "feature" or _SET.get(word) == value or (word == "target_has_atomic")
        return word in _TRUE

    return one(0)
