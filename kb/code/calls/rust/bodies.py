"""Reads the bodies of functions: local variables by their scopes, expressions and call sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tree_sitter

from kb.code.calls.rust import patterns
from kb.code.calls.rust.facts import UNKNOWN, Binding, Call, Expression, RustFacts, Written
from kb.code.calls.rust.written import arguments, parts, text, written

Node = tree_sitter.Node
Declare = Callable[[Iterable[Node], int, str], int]
"""Adds the items of a block: nodes, context and the name around -> the context of the block."""
_CONSTANTS = {
    "string_literal": "str", "raw_string_literal": "str", "char_literal": "char", "boolean_literal": "bool",
    "integer_literal": "{integer}", "float_literal": "{float}",
}  # fmt: skip
_COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">=", "&&", "||"])
_NEVER = frozenset(["panic", "unreachable", "todo", "unimplemented", "bail", "compile_error"])
_STRINGS = frozenset(["format", "stringify", "concat", "file", "env", "include_str"])
_PATHS = frozenset(["scoped_identifier", "generic_function", "generic_type_with_turbofish"])
_LISTS = {"tuple_expression": "tuple", "range_expression": "range", "array_expression": "[]"}
_FIRST = frozenset(["parenthesized_expression", "reference_expression"])
_HINTS = frozenset(["push", "push_back", "push_front", "insert", "replace", "set"])
_MOST = 20
"""Calls that are asked for the type of a variable that they are given."""
NEVER: Expression = ("never",)
UNIT: Expression = ("tuple", ())


class Bodies:
    def __init__(self, facts: RustFacts, source: bytes, within: dict[int, tuple[Node, ...]], declare: Declare) -> None:
        self.facts = facts
        self.source = source
        self._within = within
        self._declare = declare
        self._names: list[dict[str, int]] = [{}]
        self._breaks: list[list[Expression]] = []
        self._context = -1
        self._caller = ""
        self._readers: dict[str, Callable[[Node], Expression]] = {
            "identifier": self._name, "self": self._name, "call_expression": self._call,
            "field_expression": self._field, "index_expression": self._index, "unary_expression": self._unary,
            "try_expression": lambda node: ("try", self._first(node)),
            "await_expression": lambda node: ("await", self._first(node)),
            "binary_expression": self._binary, "assignment_expression": self._assignment,
            "compound_assignment_expr": self._all, "type_cast_expression": self._cast,
            "struct_expression": self._literal, "closure_expression": self._closure, "block": self._block,
            "unsafe_block": self._first, "const_block": self._first, "try_block": self._all,
            "async_block": lambda node: ("async", self._first(node)), "gen_block": self._all,
            "if_expression": self._if, "match_expression": self._match, "while_expression": self._while,
            "loop_expression": self._loop, "for_expression": self._for, "let_condition": self._condition,
            "let_declaration": self._let, "let_chain": self._all, "return_expression": self._leave,
            "break_expression": self._break, "continue_expression": lambda node: NEVER,
            "macro_invocation": self._macro, "unit_expression": lambda node: UNIT,
            "expression_statement": self._statement, "macro_definition": lambda node: UNKNOWN,
        }  # fmt: skip

    def function(
        self, body: Node, context: int, qname: str, self_type: Written | None, params: list[tuple[Node, Written]]
    ) -> None:
        """Reads the body of a function. `params` are its patterns with their types."""
        around = self._names, self._breaks, self._context, self._caller
        self._names, self._breaks, self._context, self._caller = [{}], [], context, qname
        if self_type is not None:
            self._bind("self", Binding(("self", context, self_type)))
        for pattern, kind in params:
            self._pattern(pattern, ("is", context, kind))
        self.expression(body)
        self._names, self._breaks, self._context, self._caller = around

    def value(self, node: Node | None, context: int, caller: str) -> None:
        """Reads the value of a constant, static or default."""
        if node is not None:
            around = self._names, self._context, self._caller
            self._names, self._context, self._caller = [{}], context, caller
            self.expression(node)
            self._names, self._context, self._caller = around

    def expression(self, node: Node) -> Expression:
        """What the node stands for; its calls and names are noted."""
        reader = self._readers.get(node.type)
        if reader is not None:
            return reader(node)
        if node.type in _CONSTANTS:
            return ("k", _CONSTANTS[node.type])
        if node.type in _PATHS:
            return ("n", self._context, written(node, self.source))
        if node.type in _LISTS:
            return (_LISTS[node.type], tuple(self.expression(child) for child in parts(node)))
        if node.type in _FIRST:
            return self._first(node)
        return self._all(node)

    # Names

    def _bind(self, name: str, binding: Binding) -> None:
        self.facts.bindings.append(binding)
        self._names[-1][name] = len(self.facts.bindings) - 1

    def _pattern(self, node: Node, source: Expression) -> None:
        for name, steps, _ in list(patterns.names(node, self.source, self._context)):
            self._bind(name, Binding(source, steps))

    def _local(self, name: str) -> int | None:
        return next((names[name] for names in reversed(self._names) if name in names), None)

    def _name(self, node: Node) -> Expression:
        number = self._local(text(self.source, node))
        return ("v", number) if number is not None else ("n", self._context, written(node, self.source))

    # Statements

    def _all(self, node: Node) -> Expression:
        for child in node.named_children:
            self.expression(child)
        return UNKNOWN

    def _first(self, node: Node) -> Expression:
        found = [self.expression(child) for child in parts(node)]
        return found[-1] if found else UNKNOWN

    def _statement(self, node: Node) -> Expression:
        found = self._first(node)
        return found if node.children[-1].type != ";" or found == NEVER else UNIT

    def _block(self, node: Node) -> Expression:
        around = self._context
        self._context = self._declare(node.named_children, around, self._caller)
        self._names.append({})
        found: Expression = UNIT
        is_over = False
        for child in parts(node):
            if child.type == "label":
                continue
            if child.type.endswith("_item") or child.type in ("attribute_item", "use_declaration"):
                continue
            found = self.expression(child)
            is_over = is_over or found == NEVER
            if child.type in ("let_declaration", "empty_statement"):
                found = UNIT
        self._names.pop()
        self._context = around
        return NEVER if is_over and found == UNIT else found

    def _let(self, node: Node) -> Expression:
        value = node.child_by_field_name("value")
        kind = node.child_by_field_name("type")
        found = self.expression(value) if value is not None else UNKNOWN
        otherwise = node.child_by_field_name("alternative")
        if otherwise is not None:
            self.expression(otherwise)
        pattern = node.child_by_field_name("pattern")
        if pattern is None:
            return UNIT
        if kind is None:
            self._pattern(pattern, ("=", found))
        else:
            said = written(kind, self.source)
            self._pattern(pattern, ("said", self._context, said, found))
        return UNIT

    def _condition(self, node: Node) -> Expression:
        value, pattern = node.child_by_field_name("value"), node.child_by_field_name("pattern")
        found = self.expression(value) if value is not None else UNKNOWN
        if pattern is not None:
            self._pattern(pattern, ("=", found))
        return ("k", "bool")

    def _if(self, node: Node) -> Expression:
        self._names.append({})
        found: list[Expression] = []
        for name in ("condition", "consequence"):
            child = node.child_by_field_name(name)
            if child is not None:
                found.append(self.expression(child))
        self._names.pop()
        otherwise = node.child_by_field_name("alternative")
        if otherwise is None:
            return UNIT
        return _any([*found[1:], self._first(otherwise)])

    def _match(self, node: Node) -> Expression:
        value, body = node.child_by_field_name("value"), node.child_by_field_name("body")
        matched = self.expression(value) if value is not None else UNKNOWN
        found: list[Expression] = []
        for arm in body.named_children if body is not None else ():
            pattern, result = arm.child_by_field_name("pattern"), arm.child_by_field_name("value")
            if arm.type != "match_arm" or pattern is None:
                continue
            self._names.append({})
            self._pattern(pattern, ("=", matched))
            guard = pattern.child_by_field_name("condition")
            if guard is not None:
                self.expression(guard)
            if result is not None:
                found.append(self.expression(result))
            self._names.pop()
        return _any(found)

    def _while(self, node: Node) -> Expression:
        self._names.append({})
        self._breaks.append([])
        for name in ("condition", "body"):
            child = node.child_by_field_name(name)
            if child is not None:
                self.expression(child)
        self._breaks.pop()
        self._names.pop()
        return UNIT

    def _loop(self, node: Node) -> Expression:
        self._breaks.append([])
        body = node.child_by_field_name("body")
        if body is not None:
            self.expression(body)
        found = self._breaks.pop()
        return _any(found) if found else NEVER

    def _for(self, node: Node) -> Expression:
        value, pattern = node.child_by_field_name("value"), node.child_by_field_name("pattern")
        found = self.expression(value) if value is not None else UNKNOWN
        self._names.append({})
        self._breaks.append([])
        if pattern is not None:
            self._pattern(pattern, ("each", found))
        body = node.child_by_field_name("body")
        if body is not None:
            self.expression(body)
        self._breaks.pop()
        self._names.pop()
        return UNIT

    def _break(self, node: Node) -> Expression:
        found = [self.expression(child) for child in parts(node) if child.type != "label"]
        if self._breaks:
            self._breaks[-1].append(found[0] if found else UNIT)
        return NEVER

    def _leave(self, node: Node) -> Expression:
        self._all(node)
        return NEVER

    # Expressions

    def _field(self, node: Node) -> Expression:
        value, name = node.child_by_field_name("value"), node.child_by_field_name("field")
        base = self.expression(value) if value is not None else UNKNOWN
        return (".", base, text(self.source, name)) if name is not None else UNKNOWN

    def _index(self, node: Node) -> Expression:
        found = [self.expression(child) for child in parts(node)]
        return ("ix", *found) if len(found) == 2 else UNKNOWN

    def _unary(self, node: Node) -> Expression:
        inner = self._first(node)
        return ("*", inner) if node.children[0].type == "*" else ("op", inner, inner)

    def _binary(self, node: Node) -> Expression:
        # Binary operators nest to the left, as deep as a long sum or string of conditions.
        right: list[Node] = []
        at: Node = node
        while at.type == "binary_expression":
            ends = at.child_by_field_name("left"), at.child_by_field_name("right")
            if ends[0] is None or ends[1] is None:
                break
            right.append(ends[1])
            at = ends[0]
        found = self.expression(at) if at.type != "binary_expression" else UNKNOWN
        for child in reversed(right):
            found = ("op", found, self.expression(child))
        operator = node.child_by_field_name("operator")
        return ("k", "bool") if operator is not None and operator.type in _COMPARISONS else found

    def _assignment(self, node: Node) -> Expression:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        found = self.expression(right) if right is not None else UNKNOWN
        target = self.expression(left) if left is not None else UNKNOWN
        if target[0] == "v":
            self.facts.bindings[target[1]].hints.append(("=", (found,)))
        return UNIT

    def _cast(self, node: Node) -> Expression:
        value, kind = node.child_by_field_name("value"), node.child_by_field_name("type")
        if value is not None:
            self.expression(value)
        return ("is", self._context, written(kind, self.source))

    def _literal(self, node: Node) -> Expression:
        kind = written(node.child_by_field_name("name"), self.source)
        fields: list[tuple[str, Expression]] = []
        body = node.child_by_field_name("body")
        for child in parts(body) if body is not None else ():
            value, name = child.child_by_field_name("value"), child.child_by_field_name("field")
            if value is not None and name is not None:
                fields.append((text(self.source, name), self.expression(value)))
            elif child.type == "shorthand_field_initializer" and child.named_children:
                inner = child.named_children[-1]
                fields.append((text(self.source, inner), self._name(inner)))
            else:
                self._all(child)
        return ("lit", self._context, kind, tuple(fields))

    def _closure(self, node: Node, call: int = -1, argument: int = -1) -> Expression:
        self._names.append({})
        around, self._breaks = self._breaks, []
        params = node.child_by_field_name("parameters")
        given: list[Expression] = []
        for position, child in enumerate(parts(params) if params is not None else ()):
            source: Expression = ("given", call, argument, position) if call >= 0 else UNKNOWN
            pattern = child
            if child.type == "parameter":
                source = ("is", self._context, written(child.child_by_field_name("type"), self.source))
                pattern = child.child_by_field_name("pattern") or child
            given.append(source)
            self._pattern(pattern, source)
        result = node.child_by_field_name("return_type")
        body = node.child_by_field_name("body")
        found = self.expression(body) if body is not None else UNKNOWN
        if result is not None:
            found = ("is", self._context, written(result, self.source))
        if any(child.type == "async" for child in node.children):
            found = ("async", found)
        self._breaks = around
        self._names.pop()
        return ("closure", tuple(given), found)

    def _call(self, node: Node) -> Expression:
        function, holder = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None:
            return UNKNOWN
        index = len(self.facts.calls)
        call = Call(self._caller, function.start_point.row + 1, UNKNOWN, (), "")
        self.facts.calls.append(call)
        given: tuple[Written, ...] = ()
        inner: Node | None = function
        if function.type == "generic_function":
            inner = function.child_by_field_name("function")
            if inner is not None and inner.type == "field_expression":
                given = arguments(function.child_by_field_name("type_arguments"), self.source)
        name = inner.child_by_field_name("field") if inner is not None and inner.type == "field_expression" else None
        if inner is not None and name is not None and name.type == "field_identifier":
            value = inner.child_by_field_name("value")
            base = self.expression(value) if value is not None else UNKNOWN
            call.text = text(self.source, name)
            call.callee = ("m", base, call.text, self._context, given)
            call.line = name.start_point.row + 1
        else:
            call.callee = self.expression(function)
            call.text = text(self.source, function)[-80:].rpartition("::")[2]
        args = [child for child in parts(holder) if child.type != "attribute_item"] if holder is not None else []
        call.args = tuple(
            self._closure(child, index, position) if child.type == "closure_expression" else self.expression(child)
            for position, child in enumerate(args)
        )
        for position, arg in enumerate(call.args):
            if arg[0] == "v" and len(hints := self.facts.bindings[arg[1]].hints) < _MOST:
                hints.append(("given", (("c", index), ("k", str(position)))))
        if call.callee[0] == "m" and call.callee[1][0] == "v" and call.text in _HINTS:
            self.facts.bindings[call.callee[1][1]].hints.append((call.text, call.args))
        return ("c", index)

    def _macro(self, node: Node) -> Expression:
        macro = node.child_by_field_name("macro")
        name = text(self.source, macro).rpartition("::")[2] if macro is not None else ""
        tokens = node.named_children[-1] if node.named_children else node
        inner = self._within.get(tokens.start_byte, ())
        self._names.append({})
        found = tuple(self.expression(child) for child in inner)
        self._names.pop()
        if name == "vec":
            return ("vec", found)
        if name in _NEVER:
            return NEVER
        if name in _STRINGS:
            return ("k", "String")
        if name == "matches":
            return ("k", "bool")
        return found[0] if name == "dbg" and found else UNKNOWN


def _any(found: list[Expression]) -> Expression:
    """One of several values; those that never come are left out."""
    some = tuple(one for one in found if one != NEVER)
    if not some:
        return NEVER if found else UNIT
    return some[0] if len(some) == 1 else ("any", some)
