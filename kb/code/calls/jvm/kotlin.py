"""Reads the tree of a Kotlin file into facts. The outline says what each declaration is called."""

from __future__ import annotations

from collections.abc import Iterable

import tree_sitter

from kb.code.calls.jvm.facts import UNKNOWN, Binding, Expression, Import, JvmFacts, Kind, Method, Written
from kb.code.calls.jvm.scopes import Node, Scopes
from kb.code.outline import outline

_TYPES = frozenset(["user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type"])
_KINDS = frozenset(["class_declaration", "object_declaration", "companion_object"])
_BLOCKS = frozenset(["block", "when_entry", "catch_block", "finally_block", "for_statement", "while_statement"])
_SKIPPED = frozenset(["line_comment", "block_comment", "package_header", "import", "annotation", "modifiers"])
_BOOLEAN = frozenset(["==", "!=", "===", "!==", "<", ">", "<=", ">=", "&&", "||", "in", "!in"])


def read(tree: tree_sitter.Tree, source: bytes) -> JvmFacts:
    """The facts of a file. Raises RecursionError for a source that is nested too deep."""
    return _Reader(tree, source).facts


class _Reader(Scopes):
    def __init__(self, tree: tree_sitter.Tree, source: bytes) -> None:
        found = outline(tree, source, "kotlin")
        super().__init__(source, found, "kotlin")
        self._qnames = {one.node.id: one.qname for one in found.declarations}
        self._methods: dict[int, Method] = {}
        self._expressions = {
            "identifier": lambda node: self.local(self.text(node).strip("`")),
            "this_expression": self._this,
            "super_expression": self._super,
            "navigation_expression": self._navigation,
            "call_expression": self._call,
            "callable_reference": self._reference,
            "parenthesized_expression": self._inner,
            "as_expression": self._as,
            "is_expression": self._is,
            "index_expression": self._index,
            "assignment": self._assignment,
            "binary_expression": self._binary,
            "infix_expression": self._infix,
            "unary_expression": self._unary,
            "lambda_literal": lambda node: self._lambda(node),
            "annotated_lambda": self._inner,
            "anonymous_function": self._anonymous_function,
            "object_literal": self._object,
            "if_expression": self._if,
            "when_expression": self._when,
            "try_expression": self._try,
        }
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
                written = [one for one in child.named_children if one.type in _TYPES]
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
                name, written = self._variable(child)
                receiver = next((one for one in node.named_children if one.type in _TYPES), None)
                binding: Binding = UNKNOWN if written is None else ("is", written)
                if receiver is not None and receiver.start_byte < child.start_byte:
                    self.facts.bindings.append(binding)
                    extensions = self.facts.extensions.setdefault(name, [])
                    extensions.append((self.type(receiver), len(self.facts.bindings) - 1))
                else:
                    self._member(holder, name, binding)

    def _variable(self, node: Node) -> tuple[str, Written | None]:
        written = next((one for one in node.named_children if one.type in _TYPES), None)
        name = next((one for one in node.named_children if one.type == "identifier"), node)
        return self.text(name).strip("`"), None if written is None else self.type(written)

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
        method.abstract = _has(node, "abstract") or (holder.kind == "interface" and not has_body)
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
            elif child.type in _TYPES and is_behind:
                result = self.type(child)
            elif child.type in _TYPES:
                receiver = self.type(child)
        return receiver, result

    def _parameters(self, node: Node) -> list[tuple[str, Written, bool, Node | None]]:
        """Name, type, whether any number is taken, and the default."""
        found: list[tuple[str, Written, bool, Node | None]] = []
        is_rest = has_default = False
        for child in node.children:
            if child.type == "parameter_modifiers":
                is_rest = "vararg" in self.text(child)
            elif child.type in ("parameter", "class_parameter"):
                name, written = self._variable(child)
                is_rest = is_rest or _has(child, "vararg")
                default = child.children[-1] if any(one.type == "=" for one in child.children) else None
                found.append((name, UNKNOWN if written is None else written, is_rest, default))
                is_rest = has_default = False
            elif child.type == "=":
                has_default = True
            elif has_default and found and not child.is_extra:
                found[-1] = (*found[-1][:3], child)
                has_default = False
        return found

    def _parameters_of(self, method: Method, node: Node) -> None:
        found = self._parameters(node)
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
                    bounds = [part for part in one.named_children if part.type in _TYPES]
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
                self._walk(node)

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
        self._fill(number, node)

    def _fill(self, number: int, node: Node) -> None:
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
                        params = self._parameters(holder)
                        self._parameters_of(primary, holder)
                        for one in holder.named_children:
                            if one.type == "class_parameter" and any(
                                part.type in ("val", "var") for part in one.children
                            ):
                                name, written = self._variable(one)
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
                self._walk(child)

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
        return [node] if node.type in _TYPES else []

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
                            self._called(
                                part, "new", written_base, self.text(part.named_children[0]), part.named_children[1:]
                            )
                        elif part.type == "explicit_delegation":
                            for value in part.named_children[1:]:
                                self._walk(value)

    def _function(self, node: Node) -> None:
        with self.block():
            self._type_parameters(node)
            receiver, _ = self._receiver_and_result(node)
            receivers = self.receivers
            if receiver is not None:
                self.receivers = (("as", receiver), *receivers)
            for child in node.named_children:
                if child.type == "function_value_parameters":
                    for name, written, is_rest, default in self._parameters(child):
                        if default is not None:
                            self.expression(default)
                        self.bind(name, ("is", ("[]", written) if is_rest else written))
                elif child.type == "constructor_delegation_call":
                    word = "super" if any(one.type == "super" for one in child.children) else "this"
                    self._called(child, word, (word, self.kind, None), word, child.named_children)
                elif child.type == "function_body":
                    self._function_body(node, child)
                elif child.type == "block":
                    self._walk(child)
            self.receivers = receivers

    def _function_body(self, node: Node, body: Node) -> None:
        for child in body.named_children:
            if child.type == "block":
                self._walk(child)
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
            if child.type in _TYPES:
                self.receivers = (("as", self.type(child)), *receivers)
            elif child.type == "variable_declaration":
                name, _ = self._variable(child)
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
                            self._walk(part)
                        else:
                            found = self.expression(part)
                elif child.type == "identifier":
                    self.bind(self.text(child), UNKNOWN)
        return found

    # Types

    def type(self, node: Node) -> Written:
        """A type as written; whether it may be null does not matter."""
        if node.type in ("nullable_type", "parenthesized_type", "non_nullable_type"):
            inner = [one for one in node.named_children if one.type in _TYPES]
            return self.type(inner[0]) if inner else UNKNOWN
        if node.type == "function_type":
            return self._function_type(node)
        if node.type != "user_type":
            return UNKNOWN
        names = tuple(self.text(one).strip("`") for one in node.named_children if one.type == "identifier")
        arguments: list[Written] = []
        for child in node.named_children:
            if child.type == "type_arguments":
                for one in child.named_children:
                    inner = [part for part in one.named_children if part.type in _TYPES]
                    arguments.append(self.type(inner[0]) if inner else UNKNOWN)
        if names in (("Array",), ("kotlin", "Array")) and arguments:
            return ("[]", arguments[0])
        return self.named(names, arguments) if names else UNKNOWN

    def _function_type(self, node: Node) -> Written:
        params: list[Written] = []
        receiver: Written | None = None
        result: Written = UNKNOWN
        is_behind = False
        for child in node.named_children:
            if child.type == "function_type_parameters":
                is_behind = True
                for one in child.named_children:
                    if one.type in _TYPES:
                        params.append(self.type(one))
                    elif one.type == "parameter":
                        params.append(self._variable(one)[1] or UNKNOWN)
            elif child.type in _TYPES and is_behind:
                result = self.type(child)
            elif child.type in _TYPES:
                receiver = self.type(child)
        return ("fn", tuple(params), result, receiver)

    # Statements

    def _walk(self, node: Node | None) -> None:
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
                self._children(node)
        else:
            self._children(node)

    def _children(self, node: Node) -> None:
        for child in node.named_children:
            self._walk(child)

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
            elif child.type not in ("modifiers", "variable_declaration", "multi_variable_declaration", *_TYPES):
                found = self.expression(child)
        for child in node.named_children:
            if child.type == "variable_declaration":
                name, written = self._variable(child)
                self.bind(name, ("is", written) if written is not None else ("=", found))
            elif child.type == "multi_variable_declaration":
                self._destructure(child, found)

    def _destructure(self, node: Node, value: Expression) -> None:
        for position, child in enumerate(one for one in node.named_children if one.type == "variable_declaration"):
            name, written = self._variable(child)
            self.bind(name, ("is", written) if written is not None else ("part", value, position))

    def _for(self, node: Node) -> None:
        with self.block():
            children = [one for one in node.named_children if not one.is_extra]
            found = UNKNOWN
            for child in children[1:2]:
                found = self.expression(child)
            for child in children[:1]:
                if child.type == "multi_variable_declaration":
                    self.facts.bindings.append(("each", found))
                    self._destructure(child, ("v", len(self.facts.bindings) - 1))
                else:
                    name, written = self._variable(child)
                    self.bind(name, ("is", written) if written is not None else ("each", found))
            for child in children[2:]:
                self._walk(child)

    # Expressions

    def expression(self, node: Node) -> Expression:
        """An expression; calls in it are entered."""
        reader = self._expressions.get(node.type)
        if reader is not None:
            found: Expression = reader(node)
            return found
        if node.type == "string_literal":
            self._children(node)
            return ("k", "String")
        if node.type == "block":
            return self._block(node)
        self._walk(node)
        return UNKNOWN

    def _block(self, node: Node) -> Expression:
        """What the last statement of a block gives."""
        found: Expression = UNKNOWN
        with self.block():
            for child in node.named_children:
                if child.type in self._expressions or child.type == "string_literal":
                    found = self.expression(child)
                else:
                    found = UNKNOWN
                    self._walk(child)
        return found

    def _inner(self, node: Node) -> Expression:
        found = [
            self.expression(child) for child in node.named_children if not child.is_extra and child.type != "annotation"
        ]
        return found[0] if len(found) == 1 else UNKNOWN

    def _this(self, node: Node) -> Expression:
        label = next((self.text(one) for one in node.named_children if one.type == "identifier"), "")
        if label:
            return ("as", self.named((label,), ())) if label[:1].isupper() else UNKNOWN
        return self.receivers[0] if self.receivers else ("this", self.kind)

    def _super(self, node: Node) -> Expression:
        written = next((one for one in node.named_children if one.type in _TYPES), None)
        return ("super", self.kind, None if written is None else self.type(written))

    def _navigation(self, node: Node) -> Expression:
        children = [one for one in node.named_children if not one.is_extra]
        if len(children) < 2:
            return UNKNOWN
        base, name = self.expression(children[0]), self.text(children[-1]).strip("`")
        if any(child.type == "::" for child in node.children):
            if name == "class":
                return ("as", ("t", ("KClass",), (), -1))
            return ("ref", self.call(node, "ref", (".", base, name), None, name))
        return (".", base, name)

    def _reference(self, node: Node) -> Expression:
        name = next(
            (self.text(one).strip("`") for one in reversed(node.named_children) if one.type == "identifier"), ""
        )
        if not name:
            return UNKNOWN
        if len(node.named_children) > 1:
            base: Expression = ("as", self.type(node.named_children[0]))
            base = self.expression(node.named_children[0]) if base[1] == UNKNOWN else base
            return ("ref", self.call(node, "ref", (".", base, name), None, name))
        return ("ref", self.call(node, "ref", ("n", name, self.kind, self.receivers), None, name))

    def _call(self, node: Node) -> Expression:
        children = [one for one in node.named_children if not one.is_extra]
        if not children:
            return UNKNOWN
        target, rest = children[0], children[1:]
        if target.type == "call_expression" and rest and rest[0].type == "annotated_lambda":
            # A lambda behind the parentheses is an argument of the same call.
            inner = [one for one in target.named_children if not one.is_extra]
            if not any(one.type == "annotated_lambda" for one in inner):
                target, rest = inner[0], [*inner[1:], *rest]
        if target.type == "identifier":
            name = self.text(target).strip("`")
            callee = self.local(name)
            if callee[0] == "v":
                callee = ("vn", callee[1], ("n", name, self.kind, self.receivers))
            return self._called(node, "call", callee, name, rest)
        if target.type == "navigation_expression":
            parts = [one for one in target.named_children if not one.is_extra]
            if len(parts) >= 2 and not any(child.type == "::" for child in target.children):
                name = self.text(parts[-1]).strip("`")
                return self._called(node, "call", (".", self.expression(parts[0]), name), name, rest)
        return self._called(node, "call", ("?", self.expression(target)), "", rest)

    def _called(self, node: Node, kind: str, callee: Expression, name: str, rest: Iterable[Node]) -> Expression:
        number = self.call(node, kind, callee, (), name)
        args: list[Expression] = []
        labels: list[str] = []
        for child in rest:
            if child.type == "value_arguments":
                for one in child.named_children:
                    if one.type == "value_argument" and one.children:
                        # Words like `false` are no named nodes.
                        named = len(one.children) > 2 and any(part.type == "=" for part in one.children)
                        labels.append(self.text(one.children[0]).strip("`") if named else "")
                        args.append(self._argument(one.children[-1], number, len(args)))
            elif child.type == "annotated_lambda":
                labels.append("{")
                args.append(self._argument(child, number, len(args)))
        call = self.facts.calls[number]
        call.args, call.labels = tuple(args), tuple(labels) if any(labels) else ()
        return ("c", number)

    def _argument(self, node: Node, number: int, position: int) -> Expression:
        while node.type == "annotated_lambda" and node.named_children:
            node = node.named_children[-1]
        return self._lambda(node, (number, position)) if node.type == "lambda_literal" else self.expression(node)

    def _lambda(self, node: Node, argument: tuple[int, int] | None = None) -> Expression:
        receivers = self.receivers
        with self.block():
            numbers: list[int] = []
            params = next((one for one in node.named_children if one.type == "lambda_parameters"), None)

            def binding(position: int) -> Binding:
                return UNKNOWN if argument is None else ("lam", *argument, position)

            if params is None:
                numbers.append(self.bind("it", binding(0)))
            for position, child in enumerate(
                () if params is None else [one for one in params.named_children if not one.is_extra]
            ):
                if child.type == "multi_variable_declaration":
                    self.facts.bindings.append(binding(position))
                    numbers.append(len(self.facts.bindings) - 1)
                    self._destructure(child, ("v", numbers[-1]))
                else:
                    name, written = self._variable(child)
                    numbers.append(self.bind(name, ("is", written) if written is not None else binding(position)))
            if argument is not None:
                self.facts.bindings.append(("recv", *argument))
                self.receivers = (("v", len(self.facts.bindings) - 1), *receivers)
            result: Expression = UNKNOWN
            for child in node.named_children:
                if child.type == "lambda_parameters" or child.is_extra:
                    continue
                if child.type in self._expressions:
                    result = self.expression(child)
                else:
                    result = UNKNOWN
                    self._walk(child)
        self.receivers = receivers
        return ("lam", tuple(numbers) if params is not None else (), result)

    def _anonymous_function(self, node: Node) -> Expression:
        with self.block():
            numbers = []
            for child in node.named_children:
                if child.type == "function_value_parameters":
                    numbers = [self.bind(one[0], ("is", one[1])) for one in self._parameters(child)]
                elif child.type not in _TYPES:
                    self._walk(child)
        return ("lam", tuple(numbers), UNKNOWN)

    def _object(self, node: Node) -> Expression:
        qname = self.outline.scope_at(node.start_byte)
        number = self.add_kind(Kind("", qname, "anonymous", self.kind))
        self._fill(number, node)
        return ("as", ("cls", number, ()))

    def _as(self, node: Node) -> Expression:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None:
            self.expression(left)
        return UNKNOWN if right is None else ("as", self.type(right))

    def _is(self, node: Node) -> Expression:
        left = node.child_by_field_name("left")
        if left is not None:
            self.expression(left)
        return ("as", ("t", ("Boolean",), (), -1))

    def _index(self, node: Node) -> Expression:
        children = [one for one in node.named_children if not one.is_extra]
        found = [self.expression(one) for one in children]
        return ("ix", found[0]) if found else UNKNOWN

    def _assignment(self, node: Node) -> Expression:
        for field in ("left", "right"):
            child = node.child_by_field_name(field)
            if child is not None:
                self.expression(child)
        return UNKNOWN

    def _binary(self, node: Node) -> Expression:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = next((one.type for one in node.children if not one.is_named), "")
        first = UNKNOWN if left is None else self.expression(left)
        with self.block():
            if operator == "&&" and left is not None:
                self._narrow(left)
            second = UNKNOWN if right is None else self.expression(right)
        if operator == "?:":
            return ("or", (first, second))
        return ("k", "boolean") if operator in _BOOLEAN else UNKNOWN

    def _infix(self, node: Node) -> Expression:
        children = [one for one in node.named_children if not one.is_extra]
        if len(children) != 3:
            self._children(node)
            return UNKNOWN
        name = self.text(children[1]).strip("`")
        base = self.expression(children[0])
        number = self.call(node, "call", (".", base, name), (), name)
        self.facts.calls[number].args = (self._argument(children[2], number, 0),)
        return ("c", number)

    def _unary(self, node: Node) -> Expression:
        found = [self.expression(one) for one in node.named_children if not one.is_extra]
        return found[0] if found and any(one.type == "!!" for one in node.children) else UNKNOWN

    def _narrow(self, node: Node) -> None:
        """Names have the types that a condition, which holds, says."""
        if node.type == "is_expression" and not any(one.type == "!is" for one in node.children):
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and right is not None and left.type == "identifier":
                self.bind(self.text(left), ("is", self.type(right)))
        elif node.type == "parenthesized_expression" or (
            node.type == "binary_expression" and any(one.type == "&&" for one in node.children)
        ):
            for child in node.named_children:
                self._narrow(child)

    def _if(self, node: Node) -> Expression:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.expression(condition)
        branches = [one for one in node.named_children if one != condition and not one.is_extra]
        values: list[Expression] = []
        for position, branch in enumerate(branches):
            with self.block():
                if position == 0 and condition is not None:
                    self._narrow(condition)
                values.append(self.expression(branch))
        if (
            condition is not None
            and condition.type == "is_expression"
            and any(one.type == "!is" for one in condition.children)
        ):
            self._rest_of(condition, branches)
        return ("or", tuple(values))

    def _rest_of(self, condition: Node, branches: list[Node]) -> None:
        """After `if (x !is T) return`, x is a T."""
        last = branches[0] if branches else None
        while last is not None and last.type == "block" and last.named_children:
            last = last.named_children[-1]
        left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
        ends = last is not None and last.type in (
            "return_expression",
            "throw_expression",
            "continue_expression",
            "break_expression",
        )
        if ends and left is not None and right is not None and left.type == "identifier":
            self.bind(self.text(left), ("is", self.type(right)))

    def _when(self, node: Node) -> Expression:
        values: list[Expression] = []
        with self.block():
            subject = ""
            for child in node.named_children:
                if child.type == "when_subject":
                    subject = self._subject(child)
                elif child.type == "when_entry":
                    values.append(self._entry(child, subject))
        return ("or", tuple(values))

    def _subject(self, node: Node) -> str:
        found: Expression = UNKNOWN
        name, written = "", None
        for child in node.named_children:
            if child.type == "variable_declaration":
                name, written = self._variable(child)
            else:
                found = self.expression(child)
                if child.type == "identifier":
                    return self.text(child)
        if name:
            self.bind(name, ("is", written) if written is not None else ("=", found))
        return name

    def _entry(self, node: Node, subject: str) -> Expression:
        found: Expression = UNKNOWN
        conditions = node.children_by_field_name("condition")
        with self.block():
            for condition in conditions:
                if condition.type == "type_test":
                    written = [one for one in condition.named_children if one.type in _TYPES]
                    is_not = any(one.type == "!is" for one in condition.children)
                    if subject and written and len(conditions) == 1 and not is_not:
                        self.bind(subject, ("is", self.type(written[0])))
                else:
                    self.expression(condition)
                    if len(conditions) == 1:
                        self._narrow(condition)
            for child in node.named_children:
                if child not in conditions and not child.is_extra:
                    found = self.expression(child)
        return found

    def _try(self, node: Node) -> Expression:
        values: list[Expression] = []
        for child in node.named_children:
            if child.type == "catch_block":
                with self.block():
                    name = next((one for one in child.named_children if one.type == "identifier"), None)
                    written = next((one for one in child.named_children if one.type in _TYPES), None)
                    if name is not None:
                        self.bind(self.text(name), UNKNOWN if written is None else ("is", self.type(written)))
                    for part in child.named_children:
                        if part.type == "block":
                            values.append(self._block(part))
            elif child.type == "block":
                values.append(self._block(child))
            else:
                self._walk(child)
        return ("or", tuple(values))


def _has(node: Node, word: str) -> bool:
    return any(
        part.type == word
        for holder in node.named_children[:1]
        if holder.type == "modifiers"
        for child in holder.named_children
        for part in child.children
    )
