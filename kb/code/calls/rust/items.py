"""Reads the items of a file: scopes, functions, types, traits, impls and uses, and their bodies by `bodies`."""

from __future__ import annotations

from collections.abc import Iterable

import tree_sitter

from kb.code.calls.rust import macros
from kb.code.calls.rust.bodies import Bodies
from kb.code.calls.rust.facts import (
    UNKNOWN,
    Alias,
    Context,
    Data,
    Entry,
    Function,
    Impl,
    RustFacts,
    Scope,
    Trait,
    Written,
)
from kb.code.calls.rust.written import UNIT, attributes, bounds, generics, parts, text, uses, written
from kb.code.languages import rust

Node = tree_sitter.Node
Owner = tuple[str, int]
NONE: Owner = ("", -1)
ITEMS = frozenset([
    "mod_item", "function_item", "function_signature_item", "struct_item", "union_item", "enum_item", "trait_item",
    "impl_item", "type_item", "const_item", "static_item", "use_declaration", "extern_crate_declaration",
    "foreign_mod_item"
])  # fmt: skip


def read(tree: tree_sitter.Tree, source: bytes) -> RustFacts:
    """What a file says about its calls."""
    items = _Items(source, macros.arguments(tree.root_node, source))
    items.facts.scopes.append(Scope(-1, is_block=False))
    items.declare(tree.root_node.named_children, 0, "")
    items.is_made = True
    items.declare(macros.items(tree.root_node, source), 0, "")
    return items.facts


class _Items:
    def __init__(self, source: bytes, within: macros.Within) -> None:
        self.source = source
        self.is_made = False
        self.facts = RustFacts()
        self.bodies = Bodies(self.facts, source, within, self.block)

    def block(self, nodes: Iterable[Node], context: int, qname: str) -> int:
        """The context of a block: one of its own where the block declares items."""
        own = [node for node in nodes if node.type in ITEMS]
        if not own:
            return context
        around = self.facts.contexts[context]
        self.facts.scopes.append(Scope(around.scope, is_block=True))
        scope = len(self.facts.scopes) - 1
        self.declare(own, scope, qname)
        return self._context(scope, around.owner, around.function)

    def declare(self, nodes: Iterable[Node], scope: int, qname: str) -> None:
        """Adds items to a scope. `qname` is the name of what is around."""
        for node in nodes:
            if node.type not in ITEMS:
                continue
            holds, path = attributes(node, self.source)
            holds = holds and not self.is_made
            is_public = any(child.type == "visibility_modifier" for child in node.children[:2])
            if node.type in ("use_declaration", "extern_crate_declaration"):
                self.facts.scopes[scope].uses += uses(node, self.source, is_public, holds)
            elif node.type == "foreign_mod_item":
                body = node.child_by_field_name("body")
                self.declare(body.named_children if body is not None else (), scope, qname)
            elif node.type == "impl_item":
                self._impl(node, scope, qname, holds)
            else:
                self._named(node, scope, qname, Entry("", -1, is_public, holds, path))

    def _named(self, node: Node, scope: int, qname: str, entry: Entry) -> None:
        named = node.child_by_field_name("name")
        if named is None:
            return
        name = text(self.source, named)
        own = self.facts.scopes[scope]
        whole = f"{qname}.{name}".lstrip(".")
        match node.type:
            case "mod_item":
                body = node.child_by_field_name("body")
                entry.kind = "file" if body is None else "mod"
                if body is not None:
                    self.facts.scopes.append(Scope(scope, is_block=False, name=name))
                    entry.index = len(self.facts.scopes) - 1
                    self.declare(body.named_children, entry.index, whole)
            case "function_item" | "function_signature_item":
                entry.kind, entry.index = "fn", self._function(node, scope, qname, NONE)
            case "const_item" | "static_item":
                context = self._context(scope, NONE)
                self.facts.consts.append((context, written(node.child_by_field_name("type"), self.source)))
                entry.kind, entry.index = "const", len(self.facts.consts) - 1
                self.bodies.value(node.child_by_field_name("value"), context, qname if own.is_block else "")
            case "type_item":
                entry.kind, entry.index = "alias", len(self.facts.aliases)
                context = self._context(scope, ("alias", entry.index))
                names, _ = generics(node, self.source)
                self.facts.aliases.append(Alias(context, names, written(node.child_by_field_name("type"), self.source)))
            case "trait_item":
                entry.kind, entry.index = "trait", self._trait(node, scope, name, whole)
            case _:
                entry.kind, entry.index = "data", self._data(node, scope, name, whole)
        where = own.values if entry.kind in ("fn", "const") else own.types
        where.setdefault(name, []).append(entry)
        body = node.child_by_field_name("body")
        if node.type == "struct_item" and (body is None or body.type == "ordered_field_declaration_list"):
            own.values.setdefault(name, []).append(entry)

    def _context(self, scope: int, owner: Owner, function: int = -1) -> int:
        self.facts.contexts.append(Context(scope, function, owner))
        return len(self.facts.contexts) - 1

    def _data(self, node: Node, scope: int, name: str, qname: str) -> int:
        index = len(self.facts.data)
        context = self._context(scope, ("data", index))
        names, _ = generics(node, self.source)
        found = Data(name, qname, context, names, {})
        self.facts.data.append(found)
        body = node.child_by_field_name("body")
        if node.type != "enum_item":
            found.variants[""] = self._fields(body)
            return index
        for child in parts(body) if body is not None else ():
            variant = child.child_by_field_name("name")
            if child.type == "enum_variant" and variant is not None:
                found.variants[text(self.source, variant)] = self._fields(child.child_by_field_name("body"))
                self.bodies.value(child.child_by_field_name("value"), context, qname)
        return index

    def _fields(self, body: Node | None) -> dict[str, Written]:
        if body is None:
            return {}
        if body.type == "ordered_field_declaration_list":
            kinds = body.children_by_field_name("type")
            return {str(number): written(kind, self.source) for number, kind in enumerate(kinds)}
        found: dict[str, Written] = {}
        for child in body.named_children:
            name = child.child_by_field_name("name")
            if child.type == "field_declaration" and name is not None:
                found[text(self.source, name)] = written(child.child_by_field_name("type"), self.source)
        return found

    def _trait(self, node: Node, scope: int, name: str, qname: str) -> int:
        index = len(self.facts.traits)
        context = self._context(scope, ("trait", index))
        names, wheres = generics(node, self.source)
        found = Trait(name, context, names, wheres, bounds(node.child_by_field_name("bounds"), self.source))
        self.facts.traits.append(found)
        body = node.child_by_field_name("body")
        for child in body.named_children if body is not None else ():
            named = child.child_by_field_name("name")
            if named is None:
                continue
            inner = text(self.source, named)
            if child.type in ("function_item", "function_signature_item"):
                found.functions[inner] = self._function(child, scope, qname, ("trait", index))
            elif child.type == "associated_type":
                found.types[inner] = bounds(child.child_by_field_name("bounds"), self.source)
            elif child.type == "const_item":
                self.bodies.value(child.child_by_field_name("value"), context, qname)
        return index

    def _impl(self, node: Node, scope: int, qname: str, holds: bool) -> None:
        index = len(self.facts.impls)
        context = self._context(scope, ("impl", index))
        names, wheres = generics(node, self.source)
        trait = node.child_by_field_name("trait")
        if any(child.type == "!" for child in node.children):
            return
        kind = written(node.child_by_field_name("type"), self.source)
        found = Impl(context, names, wheres, kind, written(trait, self.source) if trait else None, holds)
        self.facts.impls.append(found)
        target = rust.LANGUAGE.name(node, self.source)
        whole = f"{qname}.{target.text}".strip(".") if target is not None else qname
        body = node.child_by_field_name("body")
        for child in body.named_children if body is not None else ():
            named = child.child_by_field_name("name")
            if named is None:
                continue
            inner = text(self.source, named)
            if child.type == "function_item":
                number = self._function(child, scope, whole, ("impl", index))
                if inner not in found.functions or attributes(child, self.source)[0]:
                    found.functions[inner] = number
            elif child.type == "type_item":
                found.types[inner] = written(child.child_by_field_name("type"), self.source)
            elif child.type == "const_item":
                found.consts[inner] = written(child.child_by_field_name("type"), self.source)
                self.bodies.value(child.child_by_field_name("value"), context, "")

    def _function(self, node: Node, scope: int, qname: str, owner: Owner) -> int:
        named = node.child_by_field_name("name")
        name = text(self.source, named) if named is not None else ""
        index = len(self.facts.functions)
        context = self._context(scope, owner, index)
        names, wheres = generics(node, self.source)
        result = node.child_by_field_name("return_type")
        modifiers = next((child for child in node.children if child.type == "function_modifiers"), None)
        found = Function(
            name=name,
            qname=f"{qname}.{name}".lstrip("."),
            context=context,
            generics=names,
            wheres=wheres,
            params=(),
            self_type=None,
            result=UNIT if result is None else written(result, self.source),
            is_async=modifiers is not None and any(child.type == "async" for child in modifiers.children),
            has_body=node.type == "function_item",
            is_made=self.is_made,
        )
        self.facts.functions.append(found)
        params: list[Written] = []
        holder = node.child_by_field_name("parameters")
        patterns: list[tuple[Node, Written]] = []
        for child in parts(holder) if holder is not None else ():
            pattern = child.child_by_field_name("pattern")
            if child.type == "self_parameter":
                found.self_type = ("path", (("Self", ()),))
            elif pattern is not None and pattern.type == "self":
                found.self_type = written(child.child_by_field_name("type"), self.source)
            elif child.type == "parameter":
                params.append(written(child.child_by_field_name("type"), self.source))
                if pattern is not None:
                    patterns.append((pattern, params[-1]))
            elif child.type != "attribute_item":
                params.append(UNKNOWN)
        found.params = tuple(params)
        body = node.child_by_field_name("body")
        if body is not None and not self.is_made:
            self.bodies.function(body, context, found.qname, found.self_type, patterns)
        return index
