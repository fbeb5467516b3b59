"""A Go tree to the facts of its file: local names are found here, those of packages when all files are known."""

from __future__ import annotations

from collections.abc import Callable

import tree_sitter

from codegraph.resolve.calls.go import constraints
from codegraph.resolve.calls.go.facts import UNKNOWN, Binding, Call, Expression, Function, GoFacts

_CONSTANTS = {
    "int_literal": "int",
    "float_literal": "float64",
    "imaginary_literal": "complex128",
    "rune_literal": "rune",
    "interpreted_string_literal": "string",
    "raw_string_literal": "string",
    "true": "bool",
    "false": "bool",
}
_COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">=", "&&", "||"])
_BLOCKS = frozenset(["block", "expression_case", "default_case", "communication_case", "type_case"])


def read(tree: tree_sitter.Tree, source: bytes) -> GoFacts:
    """The facts of a file."""
    reader = Reader(source)
    reader.file(tree.root_node)
    return reader.facts


class Reader:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self.facts = GoFacts(build=constraints.written(source))
        self._caller = ""
        self._scopes: list[dict[str, int]] = []
        self._readers: dict[str, Callable[[tree_sitter.Node], Expression]] = {
            "identifier": self._name,
            "type_identifier": self._name,
            "package_identifier": self._name,
            "field_identifier": self._name,
            "selector_expression": self._selector,
            "qualified_type": self._selector,
            "call_expression": self._call,
            "type_conversion_expression": self._conversion,
            "index_expression": self._index,
            "generic_type": self._index,
            "type_instantiation_expression": self._index,
            "slice_expression": self._slice,
            "unary_expression": self._unary,
            "binary_expression": self._binary,
            "parenthesized_expression": self._inner,
            "parenthesized_type": self._inner,
            "type_elem": self._inner,
            "type_constraint": self._inner,
            "literal_element": self._inner,
            "type_assertion_expression": self._assertion,
            "composite_literal": self._literal,
            "func_literal": self._function_literal,
            "pointer_type": lambda node: ("*", self._inner(node)),
            "negated_type": self._inner,
            "slice_type": lambda node: ("[]", self._field(node, "element")),
            "array_type": lambda node: ("[]", self._field(node, "element")),
            "implicit_length_array_type": lambda node: ("[]", self._field(node, "element")),
            "map_type": lambda node: ("map", self._field(node, "key"), self._field(node, "value")),
            "channel_type": lambda node: ("chan", self._field(node, "value")),
            "function_type": self._signature,
            "struct_type": self._struct,
            "interface_type": self._interface,
        }
        self._statements: dict[str, Callable[[tree_sitter.Node], None]] = {
            "short_var_declaration": self._short,
            "var_declaration": self._variables,
            "const_declaration": self._variables,
            "type_declaration": self._types,
            "type_switch_statement": self._type_switch,
            "range_clause": self._range,
            "receive_statement": self._receive,
        }

    def _text(self, node: tree_sitter.Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")

    def _field(self, node: tree_sitter.Node, name: str) -> Expression:
        child = node.child_by_field_name(name)
        return UNKNOWN if child is None else self.expression(child)

    # Declarations

    def file(self, root: tree_sitter.Node) -> None:
        for node in root.named_children:
            kind = node.type
            if kind == "package_clause" and node.named_child_count:
                self.facts.package = self._text(node.named_children[0])
            elif kind == "import_declaration":
                self._imports(node)
            elif kind in ("function_declaration", "method_declaration"):
                self._function(node)
            elif kind in self._statements:
                self._statements[kind](node)
            elif kind == "ERROR":
                self.file(node)

    def _imports(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            if child.type == "import_spec_list":
                self._imports(child)
            elif child.type == "import_spec":
                name, path = child.child_by_field_name("name"), child.child_by_field_name("path")
                if path is not None:
                    self.facts.imports.append(("" if name is None else self._text(name), self._text(path).strip('"`')))

    def _function(self, node: tree_sitter.Node) -> None:
        name = node.child_by_field_name("name")
        self._scopes = [{}]
        receiver = ""
        params: tuple[int, ...] = ()
        holder = node.child_by_field_name("receiver")
        if holder is not None and holder.named_child_count:
            receiver, params = self._receiver(holder.named_children[0])
        type_params = self._type_parameters(node.child_by_field_name("type_parameters"))
        plain = "" if name is None else self._text(name)
        self._caller = f"{receiver}.{plain}" if holder is not None else plain
        kind = self._signature(node)
        self.facts.functions.append(Function(plain, receiver, params, type_params, kind))
        self._parameters(node)
        self._walk(node.child_by_field_name("body"))
        self._caller, self._scopes = "", []

    def _receiver(self, node: tree_sitter.Node) -> tuple[str, tuple[int, ...]]:
        """Binds the receiver; the name of its type and the bindings of the type's parameters."""
        kind, name = node.child_by_field_name("type"), node.child_by_field_name("name")
        base, pointer = kind, False
        while base is not None and base.type in ("pointer_type", "parenthesized_type") and base.named_child_count:
            pointer = pointer or base.type == "pointer_type"
            base = base.named_children[0]
        names: list[str] = []
        if base is not None and base.type == "generic_type":
            arguments = base.child_by_field_name("type_arguments")
            names = [self._text(child) for child in arguments.named_children] if arguments is not None else []
            base = base.child_by_field_name("type")
        plain = "" if base is None else self._text(base)
        params = tuple(self._bind(param, ("param", param, UNKNOWN)) for param in names)
        found: Expression = ("n", plain)
        if params:
            found = ("ix", found, tuple(("v", param) for param in params))
        if name is not None:
            self._bind(self._text(name), ("is", ("*", found) if pointer else found))
        return plain, params

    def _type_parameters(self, node: tree_sitter.Node | None) -> tuple[int, ...]:
        found: list[int] = []
        for child in () if node is None else node.named_children:
            constraint_node = child.child_by_field_name("type")
            names = child.children_by_field_name("name")
            found.extend(self._bind(self._text(name), ("param", self._text(name), UNKNOWN)) for name in names)
            written = UNKNOWN if constraint_node is None else self.expression(constraint_node)
            for name, number in zip(names, found[len(found) - len(names) :], strict=True):
                self.facts.bindings[number] = ("param", self._text(name), written)
        return tuple(found)

    def _parameters(self, node: tree_sitter.Node) -> None:
        """Binds the parameters and named results of a function in the innermost scope."""
        for holder in (node.child_by_field_name("parameters"), node.child_by_field_name("result")):
            if holder is None or holder.type != "parameter_list":
                continue
            for child in holder.named_children:
                kind = self._field(child, "type")
                if child.type == "variadic_parameter_declaration":
                    kind = ("[]", kind)
                for name in child.children_by_field_name("name"):
                    self._bind(self._text(name), ("is", kind))

    def _signature(self, node: tree_sitter.Node) -> Expression:
        params, variadic = self._types_of(node.child_by_field_name("parameters"))
        results, _ = self._types_of(node.child_by_field_name("result"))
        return ("fn", params, results, variadic)

    def _types_of(self, node: tree_sitter.Node | None) -> tuple[tuple[Expression, ...], bool]:
        if node is None:
            return (), False
        if node.type != "parameter_list":
            return (self.expression(node),), False
        found: list[Expression] = []
        variadic = False
        for child in node.named_children:
            if child.type == "comment":
                continue
            kind = self._field(child, "type")
            if child.type == "variadic_parameter_declaration":
                kind, variadic = ("[]", kind), True
            found.extend([kind] * max(1, len(child.children_by_field_name("name"))))
        return tuple(found), variadic

    def _types(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            name = child.child_by_field_name("name")
            if child.type not in ("type_spec", "type_alias") or name is None:
                continue
            plain = self._text(name)
            top = not self._scopes
            if top:
                self._scopes = [{}]
                params = self._type_parameters(child.child_by_field_name("type_parameters"))
                kind = self._field(child, "type")
                self.facts.types[plain] = (params, ("alias", kind) if child.type == "type_alias" else kind)
                self._scopes = []
            else:
                number = self._bind(plain, UNKNOWN)
                self.facts.bindings[number] = ("type", self._field(child, "type"))

    def _variables(self, node: tree_sitter.Node) -> None:
        last: tuple[Expression | None, list[Expression]] = (None, [])
        specs = [
            child
            for part in node.named_children
            for child in ([part] if "list" not in part.type else part.named_children)
        ]
        for child in specs:
            if child.type not in ("var_spec", "const_spec"):
                continue
            kind_node, value = child.child_by_field_name("type"), child.child_by_field_name("value")
            kind = None if kind_node is None else self.expression(kind_node)
            values = [] if value is None else [self.expression(item) for item in _plain(value)]
            if child.type == "const_spec" and value is None and kind is None:
                kind, values = last
            last = (kind, values)
            names = [name for name in child.children_by_field_name("name") if name.is_named]
            for position, name in enumerate(names):
                self._declare(self._text(name), _bound(kind, values, position, len(names)))

    def _declare(self, name: str, binding: Binding) -> None:
        if self._scopes:
            self._bind(name, binding)
        else:
            self.facts.values[name] = binding

    # Local names

    def _bind(self, name: str, binding: Binding) -> int:
        self.facts.bindings.append(binding)
        number = len(self.facts.bindings) - 1
        if name != "_" and self._scopes:  # a statement outside of all functions is an error of the source
            self._scopes[-1][name] = number
        return number

    def _local(self, name: str) -> Expression:
        for scope in reversed(self._scopes):
            if name in scope:
                return ("v", scope[name])
        return ("n", name)

    # Statements

    def _walk(self, node: tree_sitter.Node | None) -> None:
        if node is None:
            return
        kind = node.type
        if kind in self._statements:
            self._statements[kind](node)
        elif kind in self._readers:
            self.expression(node)
        elif kind in _BLOCKS or kind.endswith("_statement"):
            self._scopes.append({})
            for child in node.named_children:
                self._walk(child)
            self._scopes.pop()
            if kind == "labeled_statement":
                return
        else:
            for child in node.named_children:
                self._walk(child)

    def _short(self, node: tree_sitter.Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return
        values = [self.expression(item) for item in _plain(right)]
        names = _plain(left)
        for position, name in enumerate(names):
            plain = self._text(name)
            if len(names) == 1 or not self._scopes or plain not in self._scopes[-1]:
                self._bind(plain, _bound(None, values, position, len(names)))

    def _range(self, node: tree_sitter.Node) -> None:
        value = self._field(node, "right")
        left = node.child_by_field_name("left")
        if left is None:
            return
        is_new = any(child.type == ":=" for child in node.children)
        for position, name in enumerate(_plain(left)):
            if is_new:
                self._bind(self._text(name), ("range", value, position))
            else:
                self.expression(name)

    def _receive(self, node: tree_sitter.Node) -> None:
        value = self._field(node, "right")
        left = node.child_by_field_name("left")
        if left is not None and any(child.type == ":=" for child in node.children):
            for position, name in enumerate(_plain(left)):
                self._bind(self._text(name), ("=", value) if position == 0 else ("is", ("n", "bool")))
        elif left is not None:
            self._walk(left)

    def _type_switch(self, node: tree_sitter.Node) -> None:
        self._scopes.append({})
        first = node.child_by_field_name("initializer")
        self._walk(first)
        value = self._field(node, "value")
        alias = node.child_by_field_name("alias")
        for case in node.named_children:
            if case.type not in ("type_case", "default_case"):
                continue
            self._scopes.append({})
            kinds = case.children_by_field_name("type")
            if alias is not None:
                single = len(kinds) == 1 and self._text(kinds[0]) != "nil"
                binding: Binding = ("is", self.expression(kinds[0])) if single else ("=", value)
                self._bind(self._text(alias), binding)
            for child in case.named_children:
                if child not in kinds:
                    self._walk(child)
            self._scopes.pop()
        self._scopes.pop()

    # Expressions

    def expression(self, node: tree_sitter.Node) -> Expression:
        reader = self._readers.get(node.type)
        if reader is not None:
            return reader(node)
        if node.type in _CONSTANTS:
            return ("k", _CONSTANTS[node.type])
        self._children(node)
        return UNKNOWN

    def _children(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            if child.type in self._readers or child.type not in _CONSTANTS:
                self._walk(child)

    def _inner(self, node: tree_sitter.Node) -> Expression:
        found = [self.expression(child) for child in node.named_children if child.type != "comment"]
        return found[0] if len(found) == 1 else UNKNOWN

    def _name(self, node: tree_sitter.Node) -> Expression:
        return self._local(self._text(node))

    def _selector(self, node: tree_sitter.Node) -> Expression:
        children = [child for child in node.named_children if child.type != "comment"]
        if len(children) != 2:
            self._children(node)
            return UNKNOWN
        return (".", self.expression(children[0]), self._text(children[1]))

    def _call(self, node: tree_sitter.Node) -> Expression:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        callee = UNKNOWN if function is None else self.expression(function)
        types = node.child_by_field_name("type_arguments")
        if types is not None:
            callee = ("ix", callee, tuple(self.expression(child) for child in types.named_children))
        args = (
            ()
            if arguments is None
            else tuple(self.expression(child) for child in arguments.named_children if child.type != "comment")
        )
        text = "" if function is None else self._text(function)[-80:].rpartition(".")[2]
        self.facts.calls.append(Call(self._caller, node.start_point[0] + 1, callee, args, text))
        return ("c", len(self.facts.calls) - 1)

    def _conversion(self, node: tree_sitter.Node) -> Expression:
        """Also what the grammar takes for one: `f[T](x)` with a single argument is a call when `f` is a function."""
        kind, operand = self._field(node, "type"), self._field(node, "operand")
        if kind[0] != "ix":
            return ("lit", kind)
        call = Call(self._caller, node.start_point[0] + 1, kind, (operand,), str(kind[1][-1]))
        self.facts.calls.append(call)
        return ("c", len(self.facts.calls) - 1)

    def _index(self, node: tree_sitter.Node) -> Expression:
        children = [child for child in node.named_children if child.type != "comment"]
        if len(children) == 2 and children[1].type == "type_arguments":
            children = [children[0], *children[1].named_children]
        found = [self.expression(child) for child in children]
        return ("ix", found[0], tuple(found[1:])) if found else UNKNOWN

    def _slice(self, node: tree_sitter.Node) -> Expression:
        found = [self.expression(child) for child in node.named_children if child.type != "comment"]
        return ("slice", found[0]) if found else UNKNOWN

    def _unary(self, node: tree_sitter.Node) -> Expression:
        operator, inner = node.child_by_field_name("operator"), self._field(node, "operand")
        sign = "" if operator is None else operator.type
        return (sign, inner) if sign in ("*", "&", "<-") else ("k", "bool") if sign == "!" else inner

    def _binary(self, node: tree_sitter.Node) -> Expression:
        left, right = self._field(node, "left"), self._field(node, "right")
        operator = node.child_by_field_name("operator")
        if operator is not None and operator.type in _COMPARISONS:
            return ("k", "bool")
        return ("op", left, right)

    def _assertion(self, node: tree_sitter.Node) -> Expression:
        return ("as", self._field(node, "operand"), self._field(node, "type"))

    def _literal(self, node: tree_sitter.Node) -> Expression:
        kind = self._field(node, "type")
        body = node.child_by_field_name("body")
        if body is not None:
            self._children(body)
        return ("lit", kind)

    def _function_literal(self, node: tree_sitter.Node) -> Expression:
        kind = self._signature(node)
        self._scopes.append({})
        self._parameters(node)
        self._walk(node.child_by_field_name("body"))
        self._scopes.pop()
        return kind

    def _struct(self, node: tree_sitter.Node) -> Expression:
        fields: list[tuple[str, Expression, bool]] = []
        for holder in node.named_children:
            for child in holder.named_children:
                if child.type != "field_declaration":
                    continue
                kind = self._field(child, "type")
                names = child.children_by_field_name("name")
                for name in names:
                    fields.append((self._text(name), kind, False))
                if not names:
                    fields.append((_last_name(kind), kind, True))
                    if child.children[0].type == "*":
                        fields[-1] = (fields[-1][0], ("*", kind), True)
        return ("struct", tuple(fields))

    def _interface(self, node: tree_sitter.Node) -> Expression:
        methods: list[tuple[str, Expression]] = []
        embedded: list[Expression] = []
        for child in node.named_children:
            name = child.child_by_field_name("name")
            if child.type in ("method_elem", "method_spec") and name is not None:
                methods.append((self._text(name), self._signature(child)))
            elif child.type != "comment":
                embedded.append(self.expression(child))
        return ("iface", tuple(methods), tuple(embedded))


def _plain(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    if node.type != "expression_list":
        return [node]
    return [child for child in node.named_children if child.type != "comment"]


def _bound(kind: Expression | None, values: list[Expression], position: int, names: int) -> Binding:
    if kind is not None:
        return ("is", kind)
    if len(values) == names and position < len(values):
        return ("=", values[position])
    return ("item", values[0], position) if values else UNKNOWN


def _last_name(kind: Expression) -> str:
    while kind[0] in ("*", "ix"):
        kind = kind[1]
    return str(kind[-1]) if kind[0] in ("n", ".") else ""
