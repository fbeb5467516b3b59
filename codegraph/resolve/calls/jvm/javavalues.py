"""Types and expressions of Java, as facts. Statements and declarations are read by `java`."""

from __future__ import annotations

from collections.abc import Callable

from codegraph.parse.outline import Outline
from codegraph.resolve.calls.jvm.facts import UNKNOWN, Expression, Written
from codegraph.resolve.calls.jvm.scopes import Node, Scopes

_CONSTANTS = {
    "string_literal": "String", "character_literal": "char", "decimal_integer_literal": "int", "true": "boolean",
    "false": "boolean", "decimal_floating_point_literal": "double", "hex_integer_literal": "int",
    "null_literal": "null",
}  # fmt: skip
_COMPARISONS = frozenset(["==", "!=", "<", ">", "<=", ">=", "&&", "||"])
_PRIMITIVE = frozenset(["integral_type", "floating_point_type", "boolean_type", "void_type"])


class JavaValues(Scopes):
    """What a reader of Java says about types and expressions; calls in them are entered."""

    def __init__(self, source: bytes, outline: Outline) -> None:
        """Nothing read yet."""
        super().__init__(source, outline, "java")
        self._expressions: dict[str, Callable[[Node], Expression]] = {
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

    def walk(self, node: Node | None) -> None:
        """Reads a statement or declaration."""
        raise NotImplementedError

    def children(self, node: Node) -> None:
        """Reads all that is in a node."""
        for child in node.named_children:
            self.walk(child)

    def anonymous(self, body: Node, base: Written) -> int:
        """The number of the type that a body without a name declares."""
        raise NotImplementedError

    # Types

    def typed(self, node: Node, declarator: Node | None = None) -> Written:
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
            return (
                ("t", base[1], tuple(arguments), base[3])
                if base[0] == "t"
                else ((*base[:2], tuple(arguments)) if base[0] == "cls" else base)
            )
        if kind in ("scoped_type_identifier", "scoped_identifier"):
            names: list[str] = []
            self._path(node, names)
            return self.named(tuple(names), ())
        if kind == "wildcard":
            bounds = [child for child in node.named_children if not child.is_extra and "annotation" not in child.type]
            return self.type(bounds[-1]) if bounds else UNKNOWN
        if kind == "annotated_type":
            return self.type(node.named_children[-1])
        return UNKNOWN

    def _path(self, node: Node, names: list[str]) -> None:
        for child in node.named_children:
            if child.type in ("scoped_type_identifier", "generic_type", "scoped_identifier"):
                self._path(child, names)
            elif child.type in ("type_identifier", "identifier"):
                names.append(self.text(child))

    # Expressions

    def valued(self, node: Node, written: Written) -> Expression:
        """A value whose type is declared: a lambda learns its parameters from it."""
        found = self.expression(node)
        if found[0] == "lam":
            for position, number in enumerate(found[1]):
                if self.facts.bindings[number] == UNKNOWN:
                    self.facts.bindings[number] = ("of", written, position)
        return found

    def expression(self, node: Node) -> Expression:
        """An expression; calls in it are entered."""
        reader = self._expressions.get(node.type)
        if reader is not None:
            return reader(node)
        if node.type in _CONSTANTS:
            return ("k", self._constant(node))
        self.children(node)
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

    def arguments(self, node: Node) -> tuple[Expression, ...]:
        """The arguments of a call."""
        holder = node.child_by_field_name("arguments")
        return (
            () if holder is None else tuple(self.expression(one) for one in holder.named_children if not one.is_extra)
        )

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
        args = self.arguments(node)
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
                number = self.anonymous(child, kind)
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
            self.valued(value, kind)
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
                self.walk(child)
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
        self.walk(pattern)
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
                        numbers.append(self.bind(self.text(name), UNKNOWN if is_var else ("is", self.typed(one))))
            elif params is not None:
                names = [params] if params.type == "identifier" else params.named_children
                numbers = [self.bind(self.text(name), UNKNOWN) for name in names if name.type == "identifier"]
            body = node.child_by_field_name("body")
            result: Expression | None = None
            if body is not None and body.type == "block":
                self.walk(body)
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
                        self.walk(child)
        return ("or", tuple(values))

    def _labels(self, node: Node) -> None:
        for child in node.named_children:
            # Names of constants of an enum are no names of the scope.
            if child.type != "identifier":
                self.walk(child)
