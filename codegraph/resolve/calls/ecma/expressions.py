"""Expressions of a tree to those of `codegraph.resolve.calls.ecma.facts`: functions, objects and call sites."""

from __future__ import annotations

import tree_sitter

from codegraph.parse.languages.ecma import VALUES
from codegraph.resolve.calls.ecma import documented
from codegraph.resolve.calls.ecma.annotations import Annotations, first
from codegraph.resolve.calls.ecma.facts import UNKNOWN, Call, Expression, Function, Parameter

FUNCTIONS = frozenset(["arrow_function", "function_expression", "generator_function", "function"])
_LONGEST = 80
_CONSTANTS = {"string": "string", "template_string": "string", "number": "number", "regex": "RegExp",
              "true": "boolean", "false": "boolean"}  # fmt: skip


class Expressions(Annotations):
    def value(self, node: tree_sitter.Node | None, context: tuple[object, ...] | None = None) -> Expression:
        """The expression of a node. Whatever is called in it becomes a call site; `context` is that of a function."""
        if node is None:
            return UNKNOWN
        kind = node.type
        if kind in ("identifier", "shorthand_property_identifier", "undefined", "type_identifier"):
            return ("n", self.here, self.text(node))
        if kind in ("member_expression", "nested_identifier"):
            base = self.value(node.child_by_field_name("object"))
            return (".", base, self.text(node.named_children[-1]))
        if kind in ("call_expression", "new_expression"):
            return self._call(node)
        if kind in FUNCTIONS:
            return ("f", self._closure(node, context))
        if kind == "object":
            return self._object(node, context)
        if kind == "parenthesized_expression" and self.is_documented:
            return self._said_cast(node, context)
        if kind in ("parenthesized_expression", "non_null_expression", "instantiation_expression"):
            return self.value(first(node), context)
        if kind == "await_expression":
            return ("aw", self.value(first(node)))
        if kind == "this":
            return ("this", self.here)
        if kind == "super":
            return ("super", self.here)
        if kind in ("as_expression", "satisfies_expression"):
            return self._cast(node, context)
        if kind == "type_assertion":
            self.value(node.named_children[-1])
            return ("as", self.annotation(node.named_children[0].named_children[0]))
        if kind == "ternary_expression":
            return self._ternary(node, context)
        if kind == "binary_expression":
            return self._binary(node, context)
        if kind == "assignment_expression":
            return self.assignment(node)
        if kind == "array":
            return ("arr", tuple(self.value(child) for child in node.named_children if child.type != "comment"))
        if kind == "spread_element":
            return ("sp", self.value(first(node)))
        if kind == "subscript_expression":
            base, index = self.value(node.child_by_field_name("object")), node.child_by_field_name("index")
            if index is not None and index.type == "string":
                return (".", base, self.key(index))
            self.value(index)
            return ("ix", base, int(self.text(index)) if index is not None and self.text(index).isdecimal() else None)
        if kind == "class":
            return ("K", self.class_(node))
        if kind == "sequence_expression":
            return [self.value(child) for child in node.named_children][-1]
        if kind in ("jsx_element", "jsx_self_closing_element", "jsx_opening_element"):
            return self._jsx(node)
        if kind in _CONSTANTS:
            for child in node.named_children if kind == "template_string" else ():
                self.value(child)
            return ("k", _CONSTANTS[kind])
        for child in node.named_children:
            self.value(child)
        return UNKNOWN

    def class_(self, node: tree_sitter.Node) -> int:
        raise NotImplementedError

    def assignment(self, node: tree_sitter.Node) -> Expression:
        raise NotImplementedError

    def body(self, node: tree_sitter.Node | None) -> None:
        raise NotImplementedError

    def target(self, node: tree_sitter.Node, value: Expression, scope: int | None = None) -> None:
        raise NotImplementedError

    # Calls

    def _call(self, node: tree_sitter.Node) -> Expression:
        is_new = node.type == "new_expression"
        function = node.child_by_field_name("constructor" if is_new else "function")
        arguments = node.child_by_field_name("arguments")
        given = [] if arguments is None else [one for one in arguments.named_children if one.type != "comment"]
        if function is not None and function.type == "import":
            return ("imp", self.key(given[0])) if given and given[0].type == "string" else self._all(given)
        if function is None:
            return self._all(given)
        if self.text(function) == "require" and len(given) == 1 and given[0].type == "string":
            return ("imp", self.key(given[0]))
        callee = self.value(function)
        number = self._site(node, function, callee, is_new)
        call = self.facts.calls[number]
        call.types = self.arguments(node.child_by_field_name("type_arguments"))
        if arguments is not None and arguments.type == "template_string":
            self.value(arguments)
        else:
            call.args = tuple(self.value(one, ("arg", number, at)) for at, one in enumerate(given))
        return ("new" if is_new else "c", number)

    def _site(self, node: tree_sitter.Node, function: tree_sitter.Node, callee: Expression, is_new: bool) -> int:
        # The line is that of the name that is called: chains have one call on each line.
        last = function.child_by_field_name("property") if function.type == "member_expression" else None
        line = (last or function).start_point.row + 1
        text = " ".join(self.text(function).split())
        text = text if len(text) <= _LONGEST else text[-_LONGEST:]
        # A function may begin where its call begins: `function f() {}()`.
        arguments = node.child_by_field_name("arguments")
        caller = self.outline.scope_at((arguments or node).start_byte)
        self.facts.calls.append(Call(caller, line, callee, (), (), text, is_new))
        return len(self.facts.calls) - 1

    def _all(self, nodes: list[tree_sitter.Node]) -> Expression:
        for node in nodes:
            self.value(node)
        return UNKNOWN

    def _jsx(self, node: tree_sitter.Node) -> Expression:
        name = node.child_by_field_name("name")
        if name is not None and (name.type != "identifier" or self.text(name)[:1].isupper()):
            self._site(node, name, self.value(name), False)
        for child in node.named_children:
            if child != name and child.type != "jsx_closing_element":
                self.value(child)
        return UNKNOWN

    # Operators

    def _cast(self, node: tree_sitter.Node, context: tuple[object, ...] | None) -> Expression:
        kind = node.named_children[1] if node.named_child_count > 1 else None
        if kind is None:
            return self.value(node.named_children[0], context)
        annotation = self.annotation(kind)
        value = self.value(node.named_children[0], ("type", annotation))
        if node.type == "satisfies_expression":
            return value
        # A type that is not known here says less than the value: `as any` says that it is wrong.
        return ("as", annotation)

    def _said_cast(self, node: tree_sitter.Node, context: tuple[object, ...] | None) -> Expression:
        """`/** @type {T} */ (value)`."""
        value, before = self.value(first(node), context), node.prev_sibling
        if before is None or before.type != "comment":
            return value
        said = [kind for tag, kind, _ in documented.tags(self.text(before)) if tag == "type"]
        return ("as", self.written_type(said[0])) if said and said[0] != "const" else value

    def _ternary(self, node: tree_sitter.Node, context: tuple[object, ...] | None) -> Expression:
        condition = node.child_by_field_name("condition")
        self.value(condition)
        before = self.open("block")
        self.narrow(condition)
        then = self.value(node.child_by_field_name("consequence"), context)
        self.here = before
        return ("or", (then, self.value(node.child_by_field_name("alternative"), context)))

    def _binary(self, node: tree_sitter.Node, context: tuple[object, ...] | None) -> Expression:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        sign = "" if operator is None else operator.type
        first = self.value(left, context)
        if sign == "&&":
            before = self.open("block")
            self.narrow(left)
            second = self.value(right, context)
            self.here = before
            return second
        second = self.value(right, context)
        return ("or", (first, second)) if sign in ("||", "??") else UNKNOWN

    def narrow(self, condition: tree_sitter.Node | None) -> None:
        """Binds in the present scope the names that a condition says the class of."""
        if condition is None:
            return
        if condition.type == "parenthesized_expression":
            self.narrow(first(condition))
        elif condition.type == "call_expression":
            self._guard(condition)
        elif condition.type == "binary_expression":
            left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
            operator = condition.child_by_field_name("operator")
            sign = "" if operator is None else operator.type
            if sign == "&&":
                self.narrow(left)
                self.narrow(right)
            elif sign == "instanceof" and left is not None and left.type == "identifier" and right is not None:
                value = self._dotted(right)
                if value != UNKNOWN:
                    self.bind(self.text(left), ("=", ("inst", value)))

    def _guard(self, node: tree_sitter.Node) -> None:
        """`isA(x)` says the type of `x` if `isA` is declared with a type predicate."""
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None:
            return
        callee = self._dotted(function)
        if callee == UNKNOWN:
            return
        for at, one in enumerate(arguments.named_children):
            if one.type == "identifier":
                around = self.facts.scopes[self.here].parent
                self.bind(self.text(one), ("=", ("guard", callee, at, ("n", around, self.text(one)))))

    def _dotted(self, node: tree_sitter.Node) -> Expression:
        """A name or a path of names, which calls nothing."""
        if node.type == "identifier":
            return ("n", self.facts.scopes[self.here].parent, self.text(node))
        inner = node.child_by_field_name("object") if node.type == "member_expression" else None
        base = UNKNOWN if inner is None else self._dotted(inner)
        return base if base == UNKNOWN else (".", base, self.text(node.named_children[-1]))

    # Functions and objects

    def _closure(self, node: tree_sitter.Node, context: tuple[object, ...] | None) -> int:
        around = node.parent
        qname = self.qnames.get(node.id, "")
        if not qname and around is not None:
            field = VALUES.get(around.type)
            if field and around.child_by_field_name(field) == node:
                qname = self.qnames.get(around.id, "")
        number = self.function(node, qname)
        self.facts.functions[number].context = context
        return number

    def function(self, node: tree_sitter.Node, qname: str, owner: int = -1, is_static: bool = False) -> int:
        """Reads a function with its body, or a signature."""
        number = len(self.facts.functions)
        made = Function(qname, 0, owner=owner, is_static=is_static)
        self.facts.functions.append(made)
        before = self.open("function", number, owner)
        made.scope = self.here
        made.is_arrow = node.type == "arrow_function"
        made.is_async = any(child.type == "async" for child in node.children[:4])
        made.is_generator = any(child.type == "*" for child in node.children[:5])
        made.type_params = self.type_parameters(node)
        name = node.child_by_field_name("name")
        if node.type in FUNCTIONS and name is not None:
            self.bind(self.text(name), ("f", number))
        said = self.comment(node) if node.child_by_field_name("body") is not None else {}
        if said:
            for templated in documented.templates(self.comment_before(node)):
                made.type_params = (*made.type_params, templated)
                self.bind_type(templated, ("tp", None))
        single = node.child_by_field_name("parameter")
        found = node.child_by_field_name("parameters")
        children = [single] if single is not None else [] if found is None else found.named_children
        patterns = []
        params: list[Parameter] = []
        for child in children:
            if child.type in ("comment", "decorator"):
                continue
            pattern = child.child_by_field_name("pattern") or child.child_by_field_name("left") or child
            if pattern.type == "this":
                self.bind("this", (":", self.annotation(child.child_by_field_name("type")), None))
                continue
            kind = child.child_by_field_name("type")
            one = Parameter(None if kind is None else self.annotation(kind))
            inner = (
                pattern.named_children[0] if pattern.type == "rest_pattern" and pattern.named_child_count else pattern
            )
            if kind is None and ("param", self.text(inner)) in said:
                one.annotation = self.written_type(said["param", self.text(inner)])
            one.is_rest = pattern.type == "rest_pattern"
            one.is_optional = child.type in ("optional_parameter", "assignment_pattern") or one.is_rest
            params.append(one)
            default = child.child_by_field_name("value") or child.child_by_field_name("right")
            patterns.append((child, pattern, default))
        made.params = tuple(params)
        for at, (child, pattern, default) in enumerate(patterns):
            inner = pattern.named_children[0] if params[at].is_rest and pattern.named_child_count else pattern
            self.target(inner, ("p", number, at))
            if default is not None:
                limit = params[at].annotation
                params[at].default = self.value(default, None if limit is None else ("type", limit))
                params[at].is_optional = True
            modified = any(
                part.type in ("accessibility_modifier", "override_modifier", "readonly") for part in child.children
            )
            if owner >= 0 and modified and inner.type == "identifier":
                self.add_member(owner, self.text(inner), ("=", ("p", number, at)))
        result = node.child_by_field_name("return_type")
        if result is None and node.type in ("constructor_type", "construct_signature"):
            result = node.child_by_field_name("type")
        if result is not None:
            plain = result.type not in ("type_predicate_annotation", "asserts_annotation", "type_predicate", "asserts")
            made.result = self.annotation(result) if plain else ("k", "boolean")
            if result.type in ("type_predicate_annotation", "type_predicate"):
                self._predicate(result, made, [self.text(pattern) for _, pattern, _ in patterns])
        elif ("returns", "") in said:
            made.result = self.written_type(said["returns", ""])
        block = node.child_by_field_name("body")
        made.has_body = block is not None
        if block is not None and block.type == "statement_block":
            self.body(block)
        elif block is not None:
            made.returns.append(self.value(block, ("ret", number)))
        self.here = before
        return number

    def _predicate(self, node: tree_sitter.Node, made: Function, names: list[str]) -> None:
        inner = first(node) if node.type == "type_predicate_annotation" else node
        name, kind = (
            (None, None) if inner is None else (inner.child_by_field_name("name"), inner.child_by_field_name("type"))
        )
        if name is not None and kind is not None and self.text(name) in names:
            made.predicate = (names.index(self.text(name)), self.annotation(kind))

    def _object(self, node: tree_sitter.Node, context: tuple[object, ...] | None) -> Expression:
        number = self.new_class("object", "")
        before = self.open("class", owner=number)
        made = self.facts.classes[number]
        made.scope, made.context = self.here, context
        for child in node.named_children:
            if child.type == "pair":
                name = self.key(child.child_by_field_name("key"))
                value = self.value(child.child_by_field_name("value"), ("member", number, name))
                if value[0] == "f":
                    self.facts.functions[value[1]].owner = number
                if name:
                    self.add_member(number, name, ("=", value))
            elif child.type == "shorthand_property_identifier":
                self.add_member(number, self.text(child), ("=", ("n", before, self.text(child))))
            elif child.type == "method_definition":
                name = self.key(child.child_by_field_name("name"))
                kind = "get" if any(part.type == "get" for part in child.children[:3]) else "f"
                one = self.function(child, self.qnames.get(child.id, ""), number)
                self.facts.functions[one].context = ("member", number, name)
                if name and not any(part.type == "set" for part in child.children[:3]):
                    self.add_member(number, name, (kind, one))
            elif child.type == "spread_element":
                made.bases.append(self.value(first(child)))
        self.here = before
        return ("o", number)
