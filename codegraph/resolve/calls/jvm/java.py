"""Reads the tree of a Java file into facts. The outline says what each declaration is called."""

from __future__ import annotations

import tree_sitter

from codegraph.parse.outline import outline
from codegraph.resolve.calls.jvm.facts import UNKNOWN, Import, JvmFacts, Kind, Method, Written
from codegraph.resolve.calls.jvm.javavalues import JavaValues
from codegraph.resolve.calls.jvm.scopes import Node

_KINDS = {
    "class_declaration": "class",
    "interface_declaration": "interface",
    "enum_declaration": "enum",
    "record_declaration": "record",
    "annotation_type_declaration": "interface",
}
_METHODS = frozenset([
    "method_declaration", "constructor_declaration", "compact_constructor_declaration",
    "annotation_type_element_declaration",
])  # fmt: skip
_BLOCKS = frozenset([
    "block", "constructor_body", "for_statement", "enhanced_for_statement", "try_statement", "catch_clause",
    "try_with_resources_statement", "switch_block_statement_group", "switch_rule", "static_initializer",
])  # fmt: skip
_LOCAL = frozenset(["block", "constructor_body", "switch_block_statement_group"])
_SKIPPED = frozenset([
    "line_comment", "block_comment", "package_declaration", "import_declaration", "marker_annotation", "annotation"
])  # fmt: skip


def read(tree: tree_sitter.Tree, source: bytes) -> JvmFacts:
    """The facts of a file. Raises RecursionError for a source that is nested too deep."""
    return _Reader(tree, source).facts


class _Reader(JavaValues):
    def __init__(self, tree: tree_sitter.Tree, source: bytes) -> None:
        found = outline(tree, source, "java")
        super().__init__(source, found)
        self._qnames = {one.node.id: one.qname for one in found.declarations}
        for child in tree.root_node.named_children:
            if child.type == "package_declaration":
                self.facts.package = self._dotted(child.named_children[-1])
            elif child.type == "import_declaration":
                self._import(child)
        with self.block():
            for child in tree.root_node.named_children:
                self.walk(child)

    # Declarations

    def _dotted(self, node: Node) -> str:
        return "".join(self.text(node).split())

    def _import(self, node: Node) -> None:
        path, star = "", False
        for child in node.named_children:
            if child.type in ("scoped_identifier", "identifier"):
                path = self._dotted(child)
            star = star or child.type == "asterisk"
        is_static = any(child.type == "static" for child in node.children)
        self.facts.imports.append(Import(path, "" if star else path.rpartition(".")[2], is_static))

    def _declare(self, node: Node) -> None:
        """A type with a name. Its members are entered before its bodies are read."""
        name = node.child_by_field_name("name")
        if name is None:
            return
        plain = self.text(name)
        is_local = node.parent is not None and node.parent.type in _LOCAL
        number = self.add_kind(
            Kind("" if is_local else plain, self._qnames.get(node.id, plain), _KINDS[node.type], self.kind)
        )
        if is_local:
            self.facts.kinds[number].name = plain
            self.types[-1][plain] = ("cls", number)
        self.types.append({})
        kind = self.facts.kinds[number]
        kind.static = _KINDS[node.type] != "class" or _has(node, "static")
        outer, self.kind = self.kind, number
        kind.type_params = self._type_parameters(node)
        heads = [
            child for child in node.children if child.type in ("superclass", "super_interfaces", "extends_interfaces")
        ]
        self.kind = outer
        kind.bases = tuple(
            self.type(base)
            for head in heads
            for child in head.named_children
            for base in (child.named_children if child.type == "type_list" else (child,))
            if not base.is_extra
        )
        body = node.child_by_field_name("body")
        self._enter(number, node, body)
        self._body(number, body)
        self.types.pop()

    def anonymous(self, body: Node, base: Written) -> int:
        """The number of the type that a body without a name declares."""
        qname = self.outline.scope_at(body.start_byte)
        number = self.add_kind(Kind("", qname, "class", self.kind, bases=(base,)))
        self.types.append({})
        self._enter(number, None, body)
        self._body(number, body)
        self.types.pop()
        return number

    def _members(self, body: Node | None) -> list[Node]:
        found: list[Node] = []
        for child in () if body is None else body.named_children:
            found.extend(child.named_children if child.type == "enum_body_declarations" else (child,))
        return found

    def _enter(self, number: int, node: Node | None, body: Node | None) -> None:
        """Fields and signatures of a type."""
        kind = self.facts.kinds[number]
        outer, self.kind = self.kind, number
        params = None if node is None else node.child_by_field_name("parameters")
        for child in () if params is None else params.named_children:
            name = child.child_by_field_name("name")
            if name is not None:
                written = self.typed(child)
                self._member(kind, self.text(name), ("is", written))
                accessor = Method(self.text(name), "", result=written)
                kind.methods.setdefault(self.text(name), []).append(accessor)
        for child in self._members(body):
            if child.type in ("field_declaration", "constant_declaration"):
                for declarator in child.children_by_field_name("declarator"):
                    name = declarator.child_by_field_name("name")
                    if name is not None:
                        self._member(kind, self.text(name), ("is", self.typed(child, declarator)))
            elif child.type == "enum_constant":
                name = child.child_by_field_name("name")
                if name is not None:
                    self._member(kind, self.text(name), ("is", ("cls", number, ())))
            elif child.type in _METHODS:
                self._signature(kind, child)
        if kind.kind == "enum":
            own: Written = ("cls", number, ())
            kind.methods.setdefault("values", [Method("values", "", result=("[]", own), static=True)])
            kind.methods.setdefault("valueOf", [Method("valueOf", "", (UNKNOWN,), own, static=True)])
        self.kind = outer

    def _member(self, kind: Kind, name: str, binding: tuple[object, ...]) -> None:
        self.facts.bindings.append(binding)
        kind.members[name] = len(self.facts.bindings) - 1

    def _signature(self, kind: Kind, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        plain = self.text(name)
        is_constructor = "constructor" in node.type
        self.types.append({})
        type_params = self._type_parameters(node)
        params, variadic = self._parameter_types(node)
        method = Method(
            "<init>" if is_constructor else plain,
            kind.qname if is_constructor else self._qnames.get(node.id, plain),
            params,
            ("cls", self.kind, ()) if is_constructor else self.typed(node),
            type_params,
            len(params) - 1 if variadic else -1,
            static=_has(node, "static"),
            abstract=(
                kind.kind == "interface" and not any(_has(node, word) for word in ("static", "default", "private"))
            )
            or _has(node, "abstract"),
        )
        self.types.pop()
        others = kind.methods.setdefault(method.name, [])
        # What a record has without a declaration goes where it has one.
        others[:] = [one for one in others if one.qname or len(one.params) != len(params)]
        others.append(method)

    def _body(self, number: int, body: Node | None) -> None:
        with self.inside(number):
            for child in self._members(body):
                if child.type in _METHODS:
                    self._method(child)
                elif child.type == "enum_constant":
                    self.arguments(child)
                    inner = child.child_by_field_name("body")
                    if inner is not None:
                        self.anonymous(inner, ("cls", number, ()))
                else:
                    with self.block():
                        self.walk(child)

    def _method(self, node: Node) -> None:
        with self.block():
            self._type_parameters(node)
            if node.type == "compact_constructor_declaration":
                kind = self.facts.kinds[self.kind]
                for name, binding in kind.members.items():
                    self.names[-1][name] = binding
            self._bind_parameters(node)
            for field in ("body", "value"):
                self.walk(node.child_by_field_name(field))

    def _type_parameters(self, node: Node) -> tuple[int, ...]:
        found: list[int] = []
        for child in node.children:
            if child.type != "type_parameters":
                continue
            params = [one for one in child.named_children if one.type == "type_parameter"]
            names = [next((part for part in one.named_children if "identifier" in part.type), None) for one in params]
            found = [self.parameter("" if name is None else self.text(name)) for name in names]
            for number, one in zip(found, params, strict=True):
                for part in one.named_children:
                    if part.type == "type_bound" and part.named_children:
                        self.facts.params[number] = self.type(part.named_children[0])
        return tuple(found)

    def _parameters(self, node: Node) -> list[Node]:
        params = node.child_by_field_name("parameters")
        return (
            []
            if params is None
            else [one for one in params.named_children if one.type in ("formal_parameter", "spread_parameter", "ERROR")]
        )

    def _parameter_types(self, node: Node) -> tuple[tuple[Written, ...], bool]:
        found: list[Written] = []
        variadic = False
        for one in self._parameters(node):
            if one.type != "formal_parameter":
                # The grammar does not know an annotation before the dots.
                variadic = True
                found.append(self._spread(one))
            else:
                found.append(self.typed(one))
        return tuple(found), variadic

    def _spread(self, node: Node) -> Written:
        """The element type of a variable number of arguments."""
        for child in node.named_children:
            if child.type not in ("modifiers", "variable_declarator") and not child.is_extra:
                return self.type(child)
        return UNKNOWN

    def _bind_parameters(self, node: Node) -> None:
        for one in self._parameters(node):
            if one.type != "formal_parameter":
                for child in one.named_children:
                    name = child.child_by_field_name("name")
                    if child.type == "variable_declarator" and name is not None:
                        self.bind(self.text(name), ("is", ("[]", self._spread(one))))
            else:
                name = one.child_by_field_name("name")
                if name is not None:
                    self.bind(self.text(name), ("is", self.typed(one)))

    # Statements

    def walk(self, node: Node | None) -> None:
        """Reads a statement or declaration."""
        if node is None or node.type in _SKIPPED:
            return
        kind = node.type
        if kind in _KINDS:
            self._declare(node)
        elif kind in ("field_declaration", "constant_declaration"):
            self._field_values(node)
        elif kind == "local_variable_declaration":
            self._variables(node)
        elif kind == "enhanced_for_statement":
            self._for_each(node)
        elif kind == "resource":
            self._resource(node)
        elif kind == "catch_formal_parameter":
            self._caught(node)
        elif kind in self._expressions:
            self.expression(node)
        elif kind in ("type_pattern", "record_pattern_component"):
            self._pattern(node)
        elif kind in _BLOCKS:
            with self.block():
                self.children(node)
        else:
            self.children(node)

    def _field_values(self, node: Node) -> None:
        written = node.child_by_field_name("type")
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            if value is not None:
                self.valued(value, UNKNOWN if written is None else self.type(written))

    def _variables(self, node: Node) -> None:
        written = node.child_by_field_name("type")
        is_var = written is not None and self.text(written) == "var"
        for declarator in node.children_by_field_name("declarator"):
            name, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
            kind = self.typed(node, declarator)
            found = UNKNOWN if value is None else self.valued(value, kind)
            if name is not None:
                self.bind(self.text(name), ("=", found) if is_var else ("is", kind))

    def _for_each(self, node: Node) -> None:
        with self.block():
            value, name = node.child_by_field_name("value"), node.child_by_field_name("name")
            found = UNKNOWN if value is None else self.expression(value)
            written = node.child_by_field_name("type")
            if name is not None:
                is_var = written is not None and self.text(written) == "var"
                self.bind(self.text(name), ("each", found) if is_var else ("is", self.typed(node)))
            self.walk(node.child_by_field_name("body"))

    def _resource(self, node: Node) -> None:
        name, value, written = (node.child_by_field_name(field) for field in ("name", "value", "type"))
        found = UNKNOWN if value is None else self.expression(value)
        if name is not None:
            is_var = written is None or self.text(written) == "var"
            self.bind(self.text(name), ("=", found) if is_var else ("is", self.typed(node)))
        elif value is None:
            self.children(node)

    def _caught(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        kinds = [one for child in node.named_children if child.type == "catch_type" for one in child.named_children]
        if name is not None:
            self.bind(self.text(name), ("is", self.type(kinds[0]) if len(kinds) == 1 else UNKNOWN))

    def _pattern(self, node: Node) -> None:
        children = [child for child in node.named_children if not child.is_extra and child.type != "modifiers"]
        if len(children) == 2 and children[1].type == "identifier":
            self.bind(self.text(children[1]), ("is", self.type(children[0])))
        else:
            self.children(node)


def _has(node: Node, word: str) -> bool:
    return any(
        child.type == word for holder in node.children[:1] if holder.type == "modifiers" for child in holder.children
    )
