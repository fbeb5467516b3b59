"""Reads the tree of a Kotlin file into facts. The outline says what each declaration is called."""

from __future__ import annotations

from collections.abc import Iterable

import tree_sitter

from codegraph.parse.outline import outline
from codegraph.resolve.calls.jvm.facts import UNKNOWN, Binding, Expression, Import, JvmFacts, Kind, Method, Written
from codegraph.resolve.calls.jvm.kotlinvalues import TYPES, KotlinValues, has
from codegraph.resolve.calls.jvm.scopes import Node

_KINDS = frozenset(["class_declaration", "object_declaration", "companion_object"])
_BLOCKS = frozenset(["block", "when_entry", "catch_block", "finally_block", "for_statement", "while_statement"])
_SKIPPED = frozenset(["line_comment", "block_comment", "package_header", "import", "annotation", "modifiers"])


def read(tree: tree_sitter.Tree, source: bytes) -> JvmFacts:
    """The facts of a file. Raises RecursionError for a source that is nested too deep."""
    return _Reader(tree, source).facts


class _Reader(KotlinValues):
    def __init__(self, tree: tree_sitter.Tree, source: bytes) -> None:
        found = outline(tree, source, "kotlin")
        super().__init__(source, found)
        self._qnames = {one.node.id: one.qname for one in found.declarations}
        self._methods: dict[int, Method] = {}
        for child in tree.root_node.named_children:
            if child.type == "package_header":
                self.facts.package = self._dotted(child.named_children[-1])
            elif child.type == "import":
                self._import(child)
        with self.block():
            self._enter(self.facts.top, tree.root_node.named_children)
            for child in tree.root_node.named_children:
                self._declare(child)

    def _dotted(self, node: Node) -> str:
        return "".join(self.text(node).split()).replace("`", "")

    def _import(self, node: Node) -> None:
        path = alias = ""
        star = False
        for child in node.children:
            if child.type == "qualified_identifier" or (child.type == "identifier" and not path):
                path = self._dotted(child)
            elif child.type == "identifier":
                alias = self.text(child).strip("`")
            star = star or child.type == "*"
        self.facts.imports.append(Import(path, "" if star else alias or path.rpartition(".")[2], static=True))

    # Declarations

    def _name(self, node: Node) -> str:
        name = node.child_by_field_name("name")
        return (
            "Companion"
            if name is None and node.type == "companion_object"
            else ""
            if name is None
            else self.text(name).strip("`")
        )

    def _enter(self, holder: Kind, members: Iterable[Node]) -> None:
        """Signatures, properties, aliases."""
        for child in members:
            if child.type in ("function_declaration", "secondary_constructor"):
                self._signature(holder, child)
            elif child.type == "property_declaration":
                self._property(holder, child)
            elif child.type == "enum_entry":
                self._member(holder, self.text(child.named_children[0]).strip("`"), ("is", ("cls", self.kind, ())))
            elif child.type == "type_alias":
                written = [one for one in child.named_children if one.type in TYPES]
                name = child.child_by_field_name("type")
                if written and name is not None:
                    self.facts.aliases[self.text(name)] = self.type(written[-1])

    def _member(self, holder: Kind, name: str, binding: Binding) -> int:
        self.facts.bindings.append(binding)
        holder.members[name] = len(self.facts.bindings) - 1
        return holder.members[name]

    def _property(self, holder: Kind, node: Node) -> None:
        """Its type; a value is read with the body."""
        for child in node.named_children:
            if child.type == "variable_declaration":
                name, written = self.variable(child)
                receiver = next((one for one in node.named_children if one.type in TYPES), None)
                binding: Binding = UNKNOWN if written is None else ("is", written)
                if receiver is not None and receiver.start_byte < child.start_byte:
                    self.facts.bindings.append(binding)
                    extensions = self.facts.extensions.setdefault(name, [])
                    extensions.append((self.type(receiver), len(self.facts.bindings) - 1))
                else:
                    self._member(holder, name, binding)

    def _signature(self, holder: Kind, node: Node) -> None:
        is_constructor = node.type == "secondary_constructor"
        name = "<init>" if is_constructor else self._name(node)
        self.types.append({})
        type_params = self._type_parameters(node)
        method = Method(
            name, holder.qname if is_constructor else self._qnames.get(node.id, name), type_params=type_params
        )
        for child in node.children:
            if child.type == "function_value_parameters":
                self._parameters_of(method, child)
        method.receiver, result = self._receiver_and_result(node)
        bodies = [child for child in node.named_children if child.type == "function_body"]
        has_body = bool(bodies)
        has_block = has_body and any(child.type == "block" for child in bodies[0].named_children)
        method.result = result if result is not None else ("t", ("Unit",), (), -1) if has_block else UNKNOWN
        method.abstract = has(node, "abstract") or (holder.kind == "interface" and not has_body)
        if result is None and not has_block:
            self._methods[node.id] = method
        self.types.pop()
        holder.methods.setdefault(name, []).append(method)

    def _receiver_and_result(self, node: Node) -> tuple[Written | None, Written | None]:
        receiver = result = None
        is_behind = False
        for child in node.named_children:
            if child.type == "function_value_parameters":
                is_behind = True
            elif child.type in TYPES and is_behind:
                result = self.type(child)
            elif child.type in TYPES:
                receiver = self.type(child)
        return receiver, result

    def _parameters_of(self, method: Method, node: Node) -> None:
        found = self.parameters(node)
        method.params = tuple(one[1] for one in found)
        method.names = tuple(one[0] for one in found)
        method.optional = frozenset(at for at, one in enumerate(found) if one[3] is not None)
        method.rest = next((at for at, one in enumerate(found) if one[2]), -1)

    def _type_parameters(self, node: Node) -> tuple[int, ...]:
        found: list[int] = []
        for child in node.children:
            if child.type == "type_parameters":
                params = [one for one in child.named_children if one.type == "type_parameter"]
                for one in params:
                    name = next((part for part in one.named_children if part.type == "identifier"), None)
                    found.append(self.parameter("" if name is None else self.text(name)))
                for number, one in zip(found, params, strict=True):
                    bounds = [part for part in one.named_children if part.type in TYPES]
                    if bounds:
                        self.facts.params[number] = self.type(bounds[-1])
        return tuple(found)

    def _declare(self, node: Node) -> None:
        if node.type in _KINDS:
            self._kind(node)
        elif node.type in ("function_declaration", "secondary_constructor"):
            self._function(node)
        elif node.type == "property_declaration":
            self._property_body(node)
        elif node.type not in _SKIPPED and node.type != "type_alias":
            with self.block():
                self.walk(node)

    def _kind(self, node: Node) -> None:
        name = self._name(node)
        words = {child.type for child in node.children}
        kind = "object" if node.type != "class_declaration" else "interface" if "interface" in words else "class"
        is_local = node.parent is not None and node.parent.type == "block"
        number = self.add_kind(Kind("" if is_local else name, self._qnames.get(node.id, name), kind, self.kind))
        own = self.facts.kinds[number]
        if is_local:
            own.name = name
            self.types[-1][name] = ("cls", number)
        if node.type == "companion_object" and self.kind >= 0:
            self.facts.kinds[self.kind].companion = number
        self.fill(number, node)

    def fill(self, number: int, node: Node) -> None:
        """Type parameters, bases, constructor, members and bodies of a type or an object."""
        own = self.facts.kinds[number]
        self.types.append({})
        own.type_params = self._type_parameters(node)
        heads = [child for child in node.named_children if child.type == "delegation_specifiers"]
        own.bases = tuple(
            self.type(part) for head in heads for specifier in head.named_children for part in self._base(specifier)
        )
        outer, self.kind = self.kind, number
        body = next((one for one in node.named_children if one.type in ("class_body", "enum_class_body")), None)
        members = [] if body is None else body.named_children
        params: list[tuple[str, Written, bool, Node | None]] = []
        primary = Method("<init>", own.qname)
        for child in node.named_children:
            if child.type == "primary_constructor":
                for holder in child.named_children:
                    if holder.type == "class_parameters":
                        params = self.parameters(holder)
                        self._parameters_of(primary, holder)
                        for one in holder.named_children:
                            if one.type == "class_parameter" and any(
                                part.type in ("val", "var") for part in one.children
                            ):
                                name, written = self.variable(one)
                                self._member(own, name, ("is", UNKNOWN if written is None else written))
        if own.kind == "class":
            own.methods.setdefault("<init>", []).append(primary)
        if body is not None and body.type == "enum_class_body":
            self._enum(own, number)
        self._enter(own, members)
        self.kind = outer
        with self.inside(number):
            receivers, self.receivers = self.receivers, ()
            self._constructed(heads, params)
            for child in members:
                with self.block():
                    if child.type in ("property_declaration", "anonymous_initializer"):
                        for name, written, is_rest, _ in params:
                            self.bind(name, ("is", ("[]", written) if is_rest else written))
                    if child.type == "enum_entry":
                        self._enum_entry(child, number)
                    else:
                        self._declare(child)
            self.receivers = receivers
        self.types.pop()

    def _enum(self, own: Kind, number: int) -> None:
        mine: Written = ("cls", number, ())
        own.kind = "enum"
        own.methods.setdefault("values", [Method("values", "", result=("[]", mine), static=True)])
        own.methods.setdefault("valueOf", [Method("valueOf", "", (UNKNOWN,), mine, static=True)])
        self._member(own, "entries", ("is", ("t", ("List",), (mine,), -1)))

    def _enum_entry(self, node: Node, number: int) -> None:
        for child in node.named_children[1:]:
            if child.type == "class_body":
                anonymous = self.add_kind(
                    Kind("", self.facts.kinds[number].qname, "class", number, bases=(("cls", number, ()),))
                )
                self._enter_and_read(anonymous, child)
            else:
                self.walk(child)

    def _enter_and_read(self, number: int, body: Node) -> None:
        outer, self.kind = self.kind, number
        self._enter(self.facts.kinds[number], body.named_children)
        self.kind = outer
        with self.inside(number):
            receivers, self.receivers = self.receivers, ()
            for child in body.named_children:
                self._declare(child)
            self.receivers = receivers

    def _base(self, node: Node) -> list[Node]:
        while node.type in ("delegation_specifier", "constructor_invocation", "explicit_delegation"):
            if not node.named_children:
                return []
            node = next(
                (one for one in node.named_children if not one.is_extra and one.type != "annotation"),
                node.named_children[0],
            )
        return [node] if node.type in TYPES else []

    def _constructed(self, heads: list[Node], params: list[tuple[str, Written, bool, Node | None]]) -> None:
        """Defaults of the constructor, the constructors of bases, and what is delegated to."""
        with self.block():
            for name, written, is_rest, default in params:
                if default is not None:
                    self.expression(default)
                self.bind(name, ("is", ("[]", written) if is_rest else written))
            for head in heads:
                for specifier in head.named_children:
                    for part in specifier.named_children:
                        if part.type == "constructor_invocation":
                            written_base = self.type(part.named_children[0])
                            self.called(
                                part, "new", written_base, self.text(part.named_children[0]), part.named_children[1:]
                            )
                        elif part.type == "explicit_delegation":
                            for value in part.named_children[1:]:
                                self.walk(value)

    def _function(self, node: Node) -> None:
        with self.block():
            self._type_parameters(node)
            receiver, _ = self._receiver_and_result(node)
            receivers = self.receivers
            if receiver is not None:
                self.receivers = (("as", receiver), *receivers)
            for child in node.named_children:
                if child.type == "function_value_parameters":
                    for name, written, is_rest, default in self.parameters(child):
                        if default is not None:
                            self.expression(default)
                        self.bind(name, ("is", ("[]", written) if is_rest else written))
                elif child.type == "constructor_delegation_call":
                    word = "super" if any(one.type == "super" for one in child.children) else "this"
                    self.called(child, word, (word, self.kind, None), word, child.named_children)
                elif child.type == "function_body":
                    self._function_body(node, child)
                elif child.type == "block":
                    self.walk(child)
            self.receivers = receivers

    def _function_body(self, node: Node, body: Node) -> None:
        for child in body.named_children:
            if child.type == "block":
                self.walk(child)
            elif not child.is_extra:
                found = self.expression(child)
                method = self._methods.get(node.id)
                if method is not None:
                    method.result = ("=", found)

    def _property_body(self, node: Node) -> None:
        """A property of a type or of the file: its value, its accessors."""
        name = ""
        found: Expression = UNKNOWN
        receivers = self.receivers
        for child in node.named_children:
            if child.type in TYPES:
                self.receivers = (("as", self.type(child)), *receivers)
            elif child.type == "variable_declaration":
                name, _ = self.variable(child)
            elif child.type == "property_delegate":
                found = self._delegated(child)
            elif child.type in ("getter", "setter"):
                value = self._accessor(child)
                found = value if child.type == "getter" and found == UNKNOWN else found
            elif child.type not in ("modifiers", "type_parameters", "type_constraints", "multi_variable_declaration"):
                value = self.expression(child)
                found = value if found == UNKNOWN else found
        self.receivers = receivers
        holder = self.facts.top if self.kind < 0 else self.facts.kinds[self.kind]
        number = holder.members.get(name)
        if number is not None and self.facts.bindings[number] == UNKNOWN:
            self.facts.bindings[number] = ("=", found)

    def _delegated(self, node: Node) -> Expression:
        """What `by lazy { ... }` gives."""
        found = UNKNOWN
        for child in node.named_children:
            value = self.expression(child)
            if value[0] == "c":
                call = self.facts.calls[value[1]]
                if call.text == "lazy" and call.args and call.args[-1][0] == "lam":
                    found = call.args[-1][2] or UNKNOWN
        return found

    def _accessor(self, node: Node) -> Expression:
        found: Expression = UNKNOWN
        with self.block():
            for child in node.named_children:
                if child.type == "function_body":
                    for part in child.named_children:
                        if part.type == "block":
                            self.walk(part)
                        else:
                            found = self.expression(part)
                elif child.type == "identifier":
                    self.bind(self.text(child), UNKNOWN)
        return found

    # Statements

    def walk(self, node: Node | None) -> None:
        """Reads a statement or declaration."""
        if node is None or node.type in _SKIPPED:
            return
        kind = node.type
        if kind in _KINDS:
            self._kind(node)
        elif kind == "function_declaration":
            self._local_function(node)
        elif kind == "property_declaration":
            self._local_property(node)
        elif kind == "for_statement":
            self._for(node)
        elif kind in self._expressions:
            self.expression(node)
        elif kind in _BLOCKS:
            with self.block():
                self.children(node)
        else:
            self.children(node)

    def _local_function(self, node: Node) -> None:
        """It is called like a local variable that is the function itself."""
        holder = Kind("", "", "file", self.kind)
        self._signature(holder, node)
        methods = next(iter(holder.methods.values()))
        number = self.add_kind(Kind("", "", "local", self.kind, methods={"invoke": methods}))
        self.bind(self._name(node), ("is", ("cls", number, ())))
        self._function(node)

    def _local_property(self, node: Node) -> None:
        found: Expression = UNKNOWN
        for child in node.named_children:
            if child.type == "property_delegate":
                found = self._delegated(child)
            elif child.type not in ("modifiers", "variable_declaration", "multi_variable_declaration", *TYPES):
                found = self.expression(child)
        for child in node.named_children:
            if child.type == "variable_declaration":
                name, written = self.variable(child)
                self.bind(name, ("is", written) if written is not None else ("=", found))
            elif child.type == "multi_variable_declaration":
                self.destructure(child, found)

    def _for(self, node: Node) -> None:
        with self.block():
            children = [one for one in node.named_children if not one.is_extra]
            found = UNKNOWN
            for child in children[1:2]:
                found = self.expression(child)
            for child in children[:1]:
                if child.type == "multi_variable_declaration":
                    self.facts.bindings.append(("each", found))
                    self.destructure(child, ("v", len(self.facts.bindings) - 1))
                else:
                    name, written = self.variable(child)
                    self.bind(name, ("is", written) if written is not None else ("each", found))
            for child in children[2:]:
                self.walk(child)
