"""Types and expressions of Kotlin, as facts. Statements and declarations are read by `kotlin`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codegraph.parse.outline import Outline
from codegraph.resolve.calls.jvm.facts import UNKNOWN, Binding, Expression, Kind, Written
from codegraph.resolve.calls.jvm.scopes import Node, Scopes

TYPES = frozenset(["user_type", "nullable_type", "function_type", "parenthesized_type", "non_nullable_type"])
_BOOLEAN = frozenset(["==", "!=", "===", "!==", "<", ">", "<=", ">=", "&&", "||", "in", "!in"])


class KotlinValues(Scopes):
    """What a reader of Kotlin says about types and expressions; calls in them are entered."""

    def __init__(self, source: bytes, outline: Outline) -> None:
        """Nothing read yet."""
        super().__init__(source, outline, "kotlin")
        self._expressions: dict[str, Callable[[Node], Expression]] = {
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

    def walk(self, node: Node | None) -> None:
        """Reads a statement or declaration."""
        raise NotImplementedError

    def fill(self, number: int, node: Node) -> None:
        """Bases, members and bodies of a type or an object."""
        raise NotImplementedError

    def children(self, node: Node) -> None:
        """Reads all that is in a node."""
        for child in node.named_children:
            self.walk(child)

    def variable(self, node: Node) -> tuple[str, Written | None]:
        """The name and the type of a variable or parameter."""
        written = next((one for one in node.named_children if one.type in TYPES), None)
        name = next((one for one in node.named_children if one.type == "identifier"), node)
        return self.text(name).strip("`"), None if written is None else self.type(written)

    def parameters(self, node: Node) -> list[tuple[str, Written, bool, Node | None]]:
        """Name, type, whether any number is taken, and the default."""
        found: list[tuple[str, Written, bool, Node | None]] = []
        is_rest = has_default = False
        for child in node.children:
            if child.type == "parameter_modifiers":
                is_rest = "vararg" in self.text(child)
            elif child.type in ("parameter", "class_parameter"):
                name, written = self.variable(child)
                is_rest = is_rest or has(child, "vararg")
                default = child.children[-1] if any(one.type == "=" for one in child.children) else None
                found.append((name, UNKNOWN if written is None else written, is_rest, default))
                is_rest = has_default = False
            elif child.type == "=":
                has_default = True
            elif has_default and found and not child.is_extra:
                found[-1] = (*found[-1][:3], child)
                has_default = False
        return found

    def destructure(self, node: Node, value: Expression) -> None:
        """Binds the variables that a value is taken apart into."""
        for position, child in enumerate(one for one in node.named_children if one.type == "variable_declaration"):
            name, written = self.variable(child)
            self.bind(name, ("is", written) if written is not None else ("part", value, position))

    # Types

    def type(self, node: Node) -> Written:
        """A type as written; whether it may be null does not matter."""
        if node.type in ("nullable_type", "parenthesized_type", "non_nullable_type"):
            inner = [one for one in node.named_children if one.type in TYPES]
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
                    inner = [part for part in one.named_children if part.type in TYPES]
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
                    if one.type in TYPES:
                        params.append(self.type(one))
                    elif one.type == "parameter":
                        params.append(self.variable(one)[1] or UNKNOWN)
            elif child.type in TYPES and is_behind:
                result = self.type(child)
            elif child.type in TYPES:
                receiver = self.type(child)
        return ("fn", tuple(params), result, receiver)

    # Expressions

    def expression(self, node: Node) -> Expression:
        """An expression; calls in it are entered."""
        reader = self._expressions.get(node.type)
        if reader is not None:
            found: Expression = reader(node)
            return found
        if node.type == "string_literal":
            self.children(node)
            return ("k", "String")
        if node.type == "block":
            return self._block(node)
        self.walk(node)
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
                    self.walk(child)
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
        written = next((one for one in node.named_children if one.type in TYPES), None)
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
            return self.called(node, "call", callee, name, rest)
        if target.type == "navigation_expression":
            parts = [one for one in target.named_children if not one.is_extra]
            if len(parts) >= 2 and not any(child.type == "::" for child in target.children):
                name = self.text(parts[-1]).strip("`")
                return self.called(node, "call", (".", self.expression(parts[0]), name), name, rest)
        return self.called(node, "call", ("?", self.expression(target)), "", rest)

    def called(self, node: Node, kind: str, callee: Expression, name: str, rest: Iterable[Node]) -> Expression:
        """Enters a call with its arguments."""
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
                    self.destructure(child, ("v", numbers[-1]))
                else:
                    name, written = self.variable(child)
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
                    self.walk(child)
        self.receivers = receivers
        return ("lam", tuple(numbers) if params is not None else (), result)

    def _anonymous_function(self, node: Node) -> Expression:
        with self.block():
            numbers = []
            for child in node.named_children:
                if child.type == "function_value_parameters":
                    numbers = [self.bind(one[0], ("is", one[1])) for one in self.parameters(child)]
                elif child.type not in TYPES:
                    self.walk(child)
        return ("lam", tuple(numbers), UNKNOWN)

    def _object(self, node: Node) -> Expression:
        qname = self.outline.scope_at(node.start_byte)
        number = self.add_kind(Kind("", qname, "anonymous", self.kind))
        self.fill(number, node)
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
            self.children(node)
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
                name, written = self.variable(child)
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
                    written = [one for one in condition.named_children if one.type in TYPES]
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
                    written = next((one for one in child.named_children if one.type in TYPES), None)
                    if name is not None:
                        self.bind(self.text(name), UNKNOWN if written is None else ("is", self.type(written)))
                    for part in child.named_children:
                        if part.type == "block":
                            values.append(self._block(part))
            elif child.type == "block":
                values.append(self._block(child))
            else:
                self.walk(child)
        return ("or", tuple(values))


def has(node: Node, word: str) -> bool:
    """Whether a declaration has a modifier."""
    return any(
        part.type == word
        for holder in node.named_children[:1]
        if holder.type == "modifiers"
        for child in holder.named_children
        for part in child.children
    )
