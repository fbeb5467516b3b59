"""Reads the tree of a Java file into facts. The outline says what each declaration is called."""

from __future__ import annotations

import tree_sitter

from kb.code.calls.jvm.facts import UNKNOWN, Expression, Import, JvmFacts, Kind, Method, Written
from kb.code.calls.jvm.scopes import Node, Scopes
from kb.code.outline import outline

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
_CONSTANTS = {
    "string_literal": "String", "character_literal": "char", "decimal_integer_literal": "int", "true": "boolean",
    "false": "boolean", "decimal_floating_point_literal": "double", "hex_integer_literal": "int",
    "null_literal": "null",
}  # fmt: skip
_COMPARISONS = frozenset(["==", "!=", "<", ">", "<=", ">=", "&&", "||"])
_PRIMITIVE = frozenset(["integral_type", "floating_point_type", "boolean_type", "void_type"])
_SKIPPED = frozenset([
    "line_comment", "block_comment", "package_declaration", "import_declaration", "marker_annotation", "annotation"
])  # fmt: skip


def read(tree: tree_sitter.Tree, source: bytes) -> JvmFacts:
    """The facts of a file. Raises RecursionError for a source that is nested too deep."""
    return _Reader(tree, source).facts


class _Reader(Scopes):
    def __init__(self, tree: tree_sitter.Tree, source: bytes) -> None:
        found = outline(tree, source, "java")
        super().__init__(source, found, "java")
        self._qnames = {one.node.id: one.qname for one in found.declarations}
        self._expressions = {
            "identifier": lambda node: self.local(self.text(node)),
            "this": lambda _: ("this", self.kind),
            "super": lambda _: ("super", self.kind, None),
            "field_access": self._field_access,
            "scoped_identifier": self._scoped,
            "method_invocation": self._invocation,
            "object_creation_expression": self._creation,
            "explicit_constructor_invocation": self._constructor_call,
            "method_reference": self._reference,
            "parenthesized_expression": self._inner,
            "cast_expression": self._cast,
            "ternary_expression": self._ternary,
            "array_access": self._array_access,
            "array_creation_expression": self._array,
            "assignment_expression": self._assignment,
            "binary_expression": self._binary,
            "instanceof_expression": self._instanceof,
            "lambda_expression": self._lambda,
            "switch_expression": self._switch,
            "class_literal": lambda node: ("as", ("t", ("Class",), (self.type(node.named_children[0]),), -1)),
        }
        for child in tree.root_node.named_children:
            if child.type == "package_declaration":
                self.facts.package = self._dotted(child.named_children[-1])
            elif child.type == "import_declaration":
                self._import(child)
        with self.block():
            for child in tree.root_node.named_children:
                self._walk(child)

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
        heads = [child for child in node.children if child.type in ("superclass", "super_interfaces", "extends_interfaces")]
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

    def _anonymous(self, body: Node, base: Written) -> int:
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
                written = self._typed(child)
                self._member(kind, self.text(name), ("is", written))
                accessor = Method(self.text(name), "", result=written)
                kind.methods.setdefault(self.text(name), []).append(accessor)
        for child in self._members(body):
            if child.type in ("field_declaration", "constant_declaration"):
                for declarator in child.children_by_field_name("declarator"):
                    name = declarator.child_by_field_name("name")
                    if name is not None:
                        self._member(kind, self.text(name), ("is", self._typed(child, declarator)))
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
            ("cls", self.kind, ()) if is_constructor else self._typed(node),
            type_params,
            len(params) - 1 if variadic else -1,
            static=_has(node, "static"),
            abstract=(kind.kind == "interface" and not any(_has(node, word) for word in ("static", "default", "private")))
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
                    self._arguments(child)
                    inner = child.child_by_field_name("body")
                    if inner is not None:
                        self._anonymous(inner, ("cls", number, ()))
                else:
                    with self.block():
                        self._walk(child)

    def _method(self, node: Node) -> None:
        with self.block():
            self._type_parameters(node)
            if node.type == "compact_constructor_declaration":
                kind = self.facts.kinds[self.kind]
                for name, binding in kind.members.items():
                    self.names[-1][name] = binding
            self._bind_parameters(node)
            for field in ("body", "value"):
                self._walk(node.child_by_field_name(field))

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
            else [one for one in params.named_children if one.type in ("formal_parameter", "spread_parameter")]
        )

    def _parameter_types(self, node: Node) -> tuple[tuple[Written, ...], bool]:
        found: list[Written] = []
        variadic = False
        for one in self._parameters(node):
            if one.type == "spread_parameter":
                variadic = True
                found.append(self._spread(one))
            else:
                found.append(self._typed(one))
        return tuple(found), variadic

    def _spread(self, node: Node) -> Written:
        """The element type of a variable number of arguments."""
        for child in node.named_children:
            if child.type not in ("modifiers", "variable_declarator") and not child.is_extra:
                return self.type(child)
        return UNKNOWN

    def _bind_parameters(self, node: Node) -> None:
        for one in self._parameters(node):
            if one.type == "spread_parameter":
                for child in one.named_children:
                    name = child.child_by_field_name("name")
                    if child.type == "variable_declarator" and name is not None:
                        self.bind(self.text(name), ("is", ("[]", self._spread(one))))
            else:
                name = one.child_by_field_name("name")
                if name is not None:
                    self.bind(self.text(name), ("is", self._typed(one)))

    # Types

    def _typed(self, node: Node, declarator: Node | None = None) -> Written:
        """The declared type of a variable, parameter or method, with the brackets behind its name."""
        child = node.child_by_field_name("type")
        found = UNKNOWN if child is None else self.type(child)
        brackets = (node if declarator is None else declarator).child_by_field_name("dimensions")
        for _ in range(0 if brackets is None else self.text(brackets).count("[")):
            found = ("[]", found)
        return found

    def type(self, node: Node) -> Written:
        """A type as written."""
        kind = node.type
        if kind in ("type_identifier", "identifier"):
            return self.named((self.text(node),), ())
        if kind in _PRIMITIVE:
            return ("b", self.text(node))
        if kind == "array_type":
            inner, brackets = node.child_by_field_name("element"), node.child_by_field_name("dimensions")
            found = UNKNOWN if inner is None else self.type(inner)
            for _ in range(0 if brackets is None else self.text(brackets).count("[")):
                found = ("[]", found)
            return found
        if kind == "generic_type":
            arguments: list[Written] = []
            base = UNKNOWN
            for child in node.named_children:
                if child.type == "type_arguments":
                    arguments = [self.type(one) for one in child.named_children if not one.is_extra]
                elif not child.is_extra:
                    base = self.type(child)
            return ("t", base[1], tuple(arguments), base[3]) if base[0] == "t" else (
                (*base[:2], tuple(arguments)) if base[0] == "cls" else base
            )
        if kind in ("scoped_type_identifier", "scoped_identifier"):
            names: list[str] = []
            self._path(node, names)
            return self.named(tuple(names), ())
        if kind == "wildcard":
            bounds = [child for child in node.named_children if not child.is_extra and "annotation" not in child.type]
            bound = self.type(bounds[-1]) if bounds else UNKNOWN
            return bound
        if kind == "annotated_type":
            return self.type(node.named_children[-1])
        return UNKNOWN

    def _path(self, node: Node, names: list[str]) -> None:
        for child in node.named_children:
            if child.type in ("scoped_type_identifier", "generic_type", "scoped_identifier"):
                self._path(child, names)
            elif child.type in ("type_identifier", "identifier"):
                names.append(self.text(child))

    # Statements

    def _walk(self, node: Node | None) -> None:
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
                self._children(node)
        else:
            self._children(node)

    def _children(self, node: Node) -> None:
        for child in node.named_children:
            self._walk(child)

    def _field_values(self, node: Node) -> None:
        written = node.child_by_field_name("type")
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            if value is not None:
                self._valued(value, UNKNOWN if written is None else self.type(written))

    def _valued(self, node: Node, written: Written) -> Expression:
        """A value whose type is declared: a lambda learns its parameters from it."""
        found = self.expression(node)
        if found[0] == "lam":
            for position, number in enumerate(found[1]):
                if self.facts.bindings[number] == UNKNOWN:
                    self.facts.bindings[number] = ("of", written, position)
        return found

    def _variables(self, node: Node) -> None:
        written = node.child_by_field_name("type")
        is_var = written is not None and self.text(written) == "var"
        for declarator in node.children_by_field_name("declarator"):
            name, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
            kind = self._typed(node, declarator)
            found = UNKNOWN if value is None else self._valued(value, kind)
            if name is not None:
                self.bind(self.text(name), ("=", found) if is_var else ("is", kind))

    def _for_each(self, node: Node) -> None:
        with self.block():
            value, name = node.child_by_field_name("value"), node.child_by_field_name("name")
            found = UNKNOWN if value is None else self.expression(value)
            written = node.child_by_field_name("type")
            if name is not None:
                is_var = written is not None and self.text(written) == "var"
                self.bind(self.text(name), ("each", found) if is_var else ("is", self._typed(node)))
            self._walk(node.child_by_field_name("body"))

    def _resource(self, node: Node) -> None:
        name, value, written = (node.child_by_field_name(field) for field in ("name", "value", "type"))
        found = UNKNOWN if value is None else self.expression(value)
        if name is not None:
            is_var = written is None or self.text(written) == "var"
            self.bind(self.text(name), ("=", found) if is_var else ("is", self._typed(node)))
        elif value is None:
            self._children(node)

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
            self._children(node)

    # Expressions

    def expression(self, node: Node) -> Expression:
        """An expression; calls in it are entered."""
        reader = self._expressions.get(node.type)
        if reader is not None:
            found: Expression = reader(node)
            return found
        if node.type in _CONSTANTS:
            return ("k", self._constant(node))
        self._children(node)
        return UNKNOWN

    def _constant(self, node: Node) -> str:
        last = self.source[node.end_byte - 1 : node.end_byte].lower()
        kind = _CONSTANTS[node.type]
        if kind == "int":
            return "long" if last == b"l" else kind
        return "float" if kind == "double" and last == b"f" else kind

    def _inner(self, node: Node) -> Expression:
        found = [self.expression(child) for child in node.named_children if not child.is_extra]
        return found[0] if len(found) == 1 else UNKNOWN

    def _field_access(self, node: Node) -> Expression:
        base, name = node.child_by_field_name("object"), node.child_by_field_name("field")
        if base is None or name is None:
            return UNKNOWN
        if name.type == "this":
            return ("as", self._type_of(base))
        if any(child.type == "super" for child in node.children[1:]):
            return (".", ("as", self._type_of(base)), self.text(name))
        return (".", self.expression(base), self.text(name))

    def _type_of(self, node: Node) -> Written:
        return self.named(tuple(part.strip() for part in self.text(node).split(".")), ())

    def _scoped(self, node: Node) -> Expression:
        scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
        if scope is None or name is None:
            return UNKNOWN
        return (".", self.expression(scope), self.text(name))

    def _arguments(self, node: Node) -> tuple[Expression, ...]:
        holder = node.child_by_field_name("arguments")
        return () if holder is None else tuple(self.expression(one) for one in holder.named_children if not one.is_extra)

    def _invocation(self, node: Node) -> Expression:
        base, name = node.child_by_field_name("object"), node.child_by_field_name("name")
        if name is None:
            return UNKNOWN
        plain = self.text(name)
        if base is None:
            callee: Expression = ("n", plain, self.kind, ())
        elif any(child.type == "super" for child in node.children[1:]):
            callee = (".", ("super", self.kind, self._type_of(base)), plain)
        else:
            callee = (".", self.expression(base), plain)
        return self._called(node, "call", callee, plain)

    def _called(self, node: Node, kind: str, callee: Expression, name: str) -> Expression:
        number = self.call(node, kind, callee, (), name)
        args = self._arguments(node)
        self.facts.calls[number].args = args
        for position, arg in enumerate(args):
            if arg[0] == "lam":
                for parameter, binding in enumerate(arg[1]):
                    if self.facts.bindings[binding] == UNKNOWN:
                        self.facts.bindings[binding] = ("lam", number, position, parameter)
        return ("c", number)

    def _creation(self, node: Node) -> Expression:
        written = node.child_by_field_name("type")
        if written is None:
            return UNKNOWN
        kind = self.type(written)
        first = node.named_children[0]
        if node.children[0].type != "new" and first.type != "new":
            outer = self.expression(first)
            kind = ("in", outer, kind[1][-1], kind[2]) if kind[0] == "t" else kind
        found = self._called(node, "new", kind, self.text(written).partition("<")[0].rpartition(".")[2])
        for child in node.named_children:
            if child.type == "class_body":
                number = self._anonymous(child, kind)
                return ("as", ("cls", number, ()))
        return found

    def _constructor_call(self, node: Node) -> Expression:
        target = node.child_by_field_name("constructor")
        word = "super" if target is None else target.type
        return self._called(node, word, (word, self.kind), word)

    def _reference(self, node: Node) -> Expression:
        children = [child for child in node.named_children if not child.is_extra and child.type != "type_arguments"]
        if not children:
            return UNKNOWN
        if node.children[-1].type == "new":
            kind = self.type(children[0])
            return ("ref", self.call(node, "new", kind, None, self.text(children[0])))
        if len(children) < 2:
            return UNKNOWN
        base = self._reference_base(children[0])
        name = self.text(children[-1])
        return ("ref", self.call(node, "ref", (".", base, name), None, name))

    def _reference_base(self, node: Node) -> Expression:
        if node.type in ("generic_type", "scoped_type_identifier", "type_identifier"):
            return ("as", self.type(node))
        if node.type == "array_type":
            return UNKNOWN
        return self.expression(node)

    def _cast(self, node: Node) -> Expression:
        value, written = node.child_by_field_name("value"), node.child_by_field_name("type")
        kind = UNKNOWN if written is None else self.type(written)
        if value is not None:
            self._valued(value, kind)
        return ("as", kind)

    def _ternary(self, node: Node) -> Expression:
        found: list[Expression] = []
        for field in ("condition", "consequence", "alternative"):
            child = node.child_by_field_name(field)
            found.append(UNKNOWN if child is None else self.expression(child))
        return ("or", tuple(found[1:]))

    def _array_access(self, node: Node) -> Expression:
        base, index = node.child_by_field_name("array"), node.child_by_field_name("index")
        found = UNKNOWN if base is None else self.expression(base)
        if index is not None:
            self.expression(index)
        return ("ix", found)

    def _array(self, node: Node) -> Expression:
        written = node.child_by_field_name("type")
        found = UNKNOWN if written is None else self.type(written)
        for child in node.named_children:
            if child.type == "dimensions_expr":
                found = ("[]", found)
            elif child.type == "dimensions":
                for _ in range(self.text(child).count("[")):
                    found = ("[]", found)
            if child != written:
                self._walk(child)
        return ("as", found)

    def _assignment(self, node: Node) -> Expression:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        target = UNKNOWN if left is None else self.expression(left)
        value = UNKNOWN if right is None else self.expression(right)
        if value[0] == "lam":
            for position, number in enumerate(value[1]):
                if self.facts.bindings[number] == UNKNOWN:
                    self.facts.bindings[number] = ("into", target, position)
        return target

    def _binary(self, node: Node) -> Expression:
        for field in ("left", "right"):
            child = node.child_by_field_name(field)
            if child is not None:
                found = self.expression(child)
                if field == "left":
                    left = found
        operator = node.child_by_field_name("operator")
        sign = "" if operator is None else operator.type
        if sign in _COMPARISONS:
            return ("k", "boolean")
        if sign == "+":
            return ("plus", left, found)
        return left

    def _instanceof(self, node: Node) -> Expression:
        left, right, name = (node.child_by_field_name(field) for field in ("left", "right", "name"))
        if left is not None:
            self.expression(left)
        if right is not None and name is not None:
            self.bind(self.text(name), ("is", self.type(right)))
        pattern = node.child_by_field_name("pattern")
        self._walk(pattern)
        return ("k", "boolean")

    def _lambda(self, node: Node) -> Expression:
        with self.block():
            params = node.child_by_field_name("parameters")
            numbers: list[int] = []
            if params is not None and params.type == "formal_parameters":
                for one in params.named_children:
                    name, written = one.child_by_field_name("name"), one.child_by_field_name("type")
                    if name is not None:
                        is_var = written is None or self.text(written) == "var"
                        numbers.append(self.bind(self.text(name), UNKNOWN if is_var else ("is", self._typed(one))))
            elif params is not None:
                names = [params] if params.type == "identifier" else params.named_children
                numbers = [self.bind(self.text(name), UNKNOWN) for name in names if name.type == "identifier"]
            body = node.child_by_field_name("body")
            result: Expression | None = None
            if body is not None and body.type == "block":
                self._walk(body)
                result = UNKNOWN
            elif body is not None:
                result = self.expression(body)
        return ("lam", tuple(numbers), result)

    def _switch(self, node: Node) -> Expression:
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        if condition is not None:
            self.expression(condition)
        values: list[Expression] = []
        for rule in () if body is None else body.named_children:
            with self.block():
                for child in rule.named_children:
                    if child.type == "switch_label":
                        self._labels(child)
                    elif rule.type == "switch_rule" and child.type == "expression_statement" and child.named_children:
                        values.append(self.expression(child.named_children[0]))
                    else:
                        self._walk(child)
        return ("or", tuple(values))

    def _labels(self, node: Node) -> None:
        for child in node.named_children:
            # Names of constants of an enum are no names of the scope.
            if child.type != "identifier":
                self._walk(child)


def _has(node: Node, word: str) -> bool:
    return any(
        child.type == word for holder in node.children[:1] if holder.type == "modifiers" for child in holder.children
    )
