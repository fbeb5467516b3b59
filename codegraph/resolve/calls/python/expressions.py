"""Expressions of a Python tree to those of `facts`, with what may have bound each name last."""

from __future__ import annotations

from collections.abc import Callable

import tree_sitter

from codegraph.parse import parsing
from codegraph.resolve.calls.python.facts import UNKNOWN, Binding, Call, Expression, Parameter, PythonFacts, Scope

Environment = dict[str, tuple[int, ...]]
"""Name, or path as `self.x`, to the bindings that may hold at this place."""
_CONSTANTS = {
    "integer": "int",
    "float": "float",
    "true": "bool",
    "false": "bool",
    "none": "None",
    "comparison_operator": "bool",
    "not_operator": "bool",
}
_OPERATORS = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__",
    "@": "__matmul__", "&": "__and__", "|": "__or__", "^": "__xor__", "**": "__pow__", "<<": "__lshift__",
    ">>": "__rshift__",
}  # fmt: skip
_BINDINGS = 32
"""Of a name that is bound more often the first and the last count: generated tables have one name 10,000 times."""
_HELD = 200
"""Names that are followed by control flow; others of the same scope are found without."""
_COMPREHENSIONS = {
    "list_comprehension": "list",
    "set_comprehension": "set",
    "generator_expression": "Generator",
    "dictionary_comprehension": "dict",
}


class Loop:
    """A loop that is being read: names that its body used before it bound them, and the environments at `break`."""

    def __init__(self, before: Environment) -> None:
        self.before = before
        self.phis: dict[str, int] = {}
        self.breaks: list[Environment] = []


class Expressions:
    """Reads expressions into `facts`, in the scope `here` and the environment `env`."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.facts = PythonFacts()
        self.here = 0
        self.env: Environment = {}
        self.loops: list[Loop] = []
        self._paths: dict[str, set[str]] = {}
        self.globals: dict[int, dict[str, int]] = {}
        self._readers: dict[str, Callable[[tree_sitter.Node], Expression]] = {
            "identifier": self._identifier,
            "keyword_identifier": self._identifier,
            "attribute": self._attribute,
            "call": self._call,
            "subscript": self._subscript,
            "await": self._await,
            "parenthesized_expression": self._inner,
            "expression_statement": self._inner,
            "boolean_operator": self._boolean,
            "conditional_expression": self._conditional,
            "binary_operator": self._binary,
            "named_expression": self._walrus,
            "lambda": self._lambda,
            "dictionary": self._dictionary,
            "list": self._display,
            "tuple": self._display,
            "set": self._display,
            "expression_list": self._display,
            "list_splat": self._splat,
            "string": self._string,
            "concatenated_string": self._string,
            "yield": self._yield,
            "type": self._inner,
        }

    def text(self, node: tree_sitter.Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def expression(self, node: tree_sitter.Node | None) -> Expression:
        if node is None:
            return UNKNOWN
        kind = node.type
        reader = self._readers.get(kind)
        if reader is not None:
            return reader(node)
        if kind in _COMPREHENSIONS:
            return self._comprehension(node)
        for child in node.named_children:
            self.expression(child)
        return ("k", _CONSTANTS[kind]) if kind in _CONSTANTS else UNKNOWN

    def condition(self, node: tree_sitter.Node | None) -> tuple[Environment, Environment, Expression]:
        """Reads a condition; the environments where it holds and where it does not, and its value."""
        while node is not None and node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_children[0]
        if node is None:
            return self.env, dict(self.env), UNKNOWN
        if node.type == "not_operator":
            holds, fails, _ = self.condition(node.child_by_field_name("argument"))
            return fails, holds, ("k", "bool")
        if node.type == "boolean_operator":
            return self._both(node)
        value = self.expression(node)
        if node.type == "call":
            return (*self._isinstance(node), value)
        return self.env, dict(self.env), value

    # Names

    def bind(self, name: str, binding: Binding, key: str = "") -> int:
        """A new binding of `name` in this scope, the only one that holds from here on."""
        self.facts.bindings.append(binding)
        number = len(self.facts.bindings) - 1
        scope = self.here
        while self.facts.scopes[scope].kind == "comprehension" and binding[0] == "=":
            scope = self.facts.scopes[scope].parent  # a walrus binds around the comprehension
        target = self.globals.get(scope, {}).get(name)
        names = self.facts.scopes[scope if target is None else target].names
        known = names.get(name, ())
        names[name] = (*known[: _BINDINGS - 1], number)
        if target is None:
            self.hold(name, (number,))
        return number

    def hold(self, key: str, bindings: tuple[int, ...]) -> None:
        """From here on `key` is bound so; what was known of its attributes is not."""
        first = key.partition(".")[0]
        if first != key:
            self._paths.setdefault(first, set()).add(key)
        else:
            for path in self._paths.pop(key, ()):
                self.env.pop(path, None)
        if len(self.env) < _HELD or key in self.env:
            self.env[key] = bindings

    def add(self, binding: Binding) -> int:
        self.facts.bindings.append(binding)
        return len(self.facts.bindings) - 1

    def held(self, key: str) -> tuple[int, ...] | None:
        """What may have bound `key` here, or at the end of the loop's body on the way round."""
        ids = self.env.get(key)
        if ids is None:
            return None
        for loop in self.loops:
            if loop.before.get(key) is ids:
                if key not in loop.phis:
                    loop.phis[key] = self.add(("phi", ()))
                return (*ids, loop.phis[key])
        return ids

    def path(self, node: tree_sitter.Node) -> str:
        """`a.b.c` as text when it is names only, else ''."""
        if node.type == "identifier":
            return self.text(node)
        if node.type == "attribute":
            base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
            first = self.path(base) if base is not None else ""
            return f"{first}.{self.text(name)}" if first and name is not None else ""
        return ""

    def annotation(self, node: tree_sitter.Node | None) -> Expression | None:
        """A type as written; its names are found by scope, since it may name what comes later."""
        if node is None:
            return None
        kind = node.type
        if kind == "identifier":
            return ("n", self.here, self.text(node))
        if kind == "none":
            return ("k", "None")
        if kind == "string":
            return self._quoted(node)
        if kind in ("attribute", "member_type"):
            base, name = node.named_children[0], node.named_children[-1]
            return ("a", self.annotation(base) or UNKNOWN, self.text(name))
        children = [child for child in node.named_children if child.type != "comment"]
        if kind in ("type", "parenthesized_expression", "expression_statement") and children:
            return self.annotation(children[0])
        if kind in ("binary_operator", "union_type") and len(children) == 2:
            return ("or", tuple(self.annotation(child) or UNKNOWN for child in children))
        if kind == "generic_type" and len(children) == 2:
            arguments = tuple(self.annotation(child) or UNKNOWN for child in children[1].named_children)
            return ("s", self.annotation(children[0]), ("L", "tuple", arguments))
        if kind == "subscript" and children:
            arguments = tuple(self.annotation(child) or UNKNOWN for child in children[1:])
            if len(arguments) == 1 and arguments[0][:2] == ("L", "tuple"):
                arguments = arguments[0][2]
            return ("s", self.annotation(children[0]), ("L", "tuple", arguments))
        if kind in ("list", "tuple", "expression_list"):
            return ("L", "tuple", tuple(self.annotation(child) or UNKNOWN for child in children))
        return UNKNOWN

    def _quoted(self, node: tree_sitter.Node) -> Expression:
        content = [child for child in node.named_children if child.type == "string_content"]
        if len(content) != 1:
            return UNKNOWN
        text = self.text(content[0]).strip()
        if text.isidentifier():
            return ("n", self.here, text)
        source = self.source
        self.source = text.encode()
        try:
            tree = parsing.parse(self.source, "python")
            children = tree.root_node.named_children
            return (self.annotation(children[0]) if len(children) == 1 else None) or UNKNOWN
        except parsing.UnparsableError:
            return UNKNOWN
        finally:
            self.source = source

    # Kinds of expressions

    def _inner(self, node: tree_sitter.Node) -> Expression:
        children = [child for child in node.named_children if child.type != "comment"]
        found = [self.expression(child) for child in children]
        return found[0] if len(found) == 1 else ("L", "tuple", tuple(found)) if found else UNKNOWN

    def _identifier(self, node: tree_sitter.Node) -> Expression:
        name = self.text(node)
        ids = self.held(name)
        return ("n", self.here, name) if ids is None else ("v", ids)

    def _attribute(self, node: tree_sitter.Node) -> Expression:
        base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        found = self.expression(base)
        if name is None:
            return UNKNOWN
        path = self.path(node)
        if path in self.env:
            return ("v", self.held(path))
        return ("a", found, self.text(name))

    def _call(self, node: tree_sitter.Node) -> Expression:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        callee = self.expression(function)
        args: list[Expression] = []
        keywords: list[tuple[str, Expression]] = []
        if arguments is not None and arguments.type == "argument_list":
            for child in arguments.named_children:
                if child.type == "keyword_argument":
                    key = child.child_by_field_name("name")
                    value = self.expression(child.child_by_field_name("value"))
                    keywords.append(("" if key is None else self.text(key), value))
                elif child.type == "dictionary_splat":
                    self.expression(child)
                elif child.type != "comment":
                    args.append(self.expression(child))
        elif arguments is not None:
            args.append(self.expression(arguments))
        name = "" if function is None else self.text(function)[-80:].rpartition(".")[2]
        self.facts.calls.append(Call(self.here, node.start_point[0] + 1, callee, tuple(args), tuple(keywords), name))
        return ("c", len(self.facts.calls) - 1)

    def _subscript(self, node: tree_sitter.Node) -> Expression:
        children = [self.expression(child) for child in node.named_children if child.type != "comment"]
        if len(children) == 2:
            return ("s", children[0], children[1])
        return ("s", children[0], ("L", "tuple", tuple(children[1:]))) if children else UNKNOWN

    def _await(self, node: tree_sitter.Node) -> Expression:
        return ("aw", self._inner(node))

    def _splat(self, node: tree_sitter.Node) -> Expression:
        return ("star", self._inner(node))

    def _boolean(self, node: tree_sitter.Node) -> Expression:
        before = self.env
        value = self._both(node)[2]
        self.env = {**before, **{key: ids for key, ids in self.env.items() if key not in before}}
        return value

    def _both(self, node: tree_sitter.Node) -> tuple[Environment, Environment, Expression]:
        operator = node.child_by_field_name("operator")
        is_and = operator is not None and operator.type == "and"
        holds, fails, first = self.condition(node.child_by_field_name("left"))
        self.env = dict(holds if is_and else fails)
        holds2, fails2, second = self.condition(node.child_by_field_name("right"))
        self.env = merge([holds, fails, holds2])
        if is_and:
            return holds2, merge([fails, fails2]), second if second != UNKNOWN else first
        return merge([holds, holds2]), fails2, ("or", (first, second))

    def _isinstance(self, node: tree_sitter.Node) -> tuple[Environment, Environment]:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None or self.text(function) != "isinstance":
            return self.env, dict(self.env)
        children = [child for child in arguments.named_children if child.type != "comment"]
        subject = children[0] if len(children) == 2 else None
        if subject is not None and subject.type == "named_expression":
            subject = subject.child_by_field_name("name")
        key = self.path(subject) if subject is not None else ""
        if not key or subject is None:
            return self.env, dict(self.env)
        value, classes = self.expression(subject), self.expression(children[1])
        holds, fails = dict(self.env), dict(self.env)
        holds[key] = (self.add(("is", value, classes)),)
        fails[key] = (self.add(("not", value, classes)),)
        return holds, fails

    def _conditional(self, node: tree_sitter.Node) -> Expression:
        children = [child for child in node.named_children if child.type != "comment"]
        if len(children) != 3:
            return UNKNOWN
        before = self.env
        holds, fails, _ = self.condition(children[1])
        self.env = holds
        first = self.expression(children[0])
        self.env = fails
        second = self.expression(children[2])
        self.env = before
        return ("or", (first, second))

    def _binary(self, node: tree_sitter.Node) -> Expression:
        left = self.expression(node.child_by_field_name("left"))
        right = self.expression(node.child_by_field_name("right"))
        operator = node.child_by_field_name("operator")
        return ("op", left, right, _OPERATORS.get("" if operator is None else operator.type, ""))

    def _walrus(self, node: tree_sitter.Node) -> Expression:
        name, value = node.child_by_field_name("name"), self.expression(node.child_by_field_name("value"))
        if name is not None:
            self.bind(self.text(name), ("=", value))
        return value

    def _lambda(self, node: tree_sitter.Node) -> Expression:
        inner = self.enter("lambda", "", node)
        before, loops, self.loops = self.env, self.loops, []
        self.env = dict(before)
        self.parameters(node.child_by_field_name("parameters"), inner)
        self.facts.scopes[inner].returns.append(self.expression(node.child_by_field_name("body")))
        self.leave()
        self.env, self.loops = before, loops
        return ("f", inner)

    def enter(self, kind: str, name: str, node: tree_sitter.Node) -> int:
        around = self.facts.scopes[self.here]
        qname = f"{around.qname}.{name}" if around.qname and name else name or around.qname
        self.facts.scopes.append(Scope(kind, name, qname, self.here, node.start_point[0] + 1))
        self.here = len(self.facts.scopes) - 1
        return self.here

    def leave(self) -> None:
        self.here = self.facts.scopes[self.here].parent

    def parameters(self, node: tree_sitter.Node | None, scope: int) -> None:
        """Binds the parameters; their annotations and defaults are read already when this is a function's."""
        for position, parameter in enumerate(self.read_parameters(node)):
            self.facts.scopes[scope].params.append(parameter)
            self.bind(parameter.name, ("param", scope, position))

    def read_parameters(self, node: tree_sitter.Node | None) -> list[Parameter]:
        found: list[Parameter] = []
        keyword = False
        for child in () if node is None else node.named_children:
            name = child.child_by_field_name("name")
            inner = name or (child.named_children[0] if child.named_child_count else child)
            if child.type == "identifier":
                inner = child
            elif child.type == "keyword_separator":
                keyword = True
                continue
            elif child.type in ("positional_separator", "comment"):
                continue
            star = {"list_splat_pattern": "*", "dictionary_splat_pattern": "**"}
            sign = star.get(child.type) or star.get(inner.type, "")
            if inner.type in star and inner.named_child_count:
                inner = inner.named_children[0]
            kind = child.child_by_field_name("type")
            value = child.child_by_field_name("value")
            default = self.expression(value) if value is not None else None
            found.append(Parameter(self.text(inner), sign, self.annotation(kind), default, keyword and not sign))
            keyword = keyword or sign == "*"
        return found

    def _comprehension(self, node: tree_sitter.Node) -> Expression:
        self.enter("comprehension", "", node)
        before = self.env
        self.env = dict(before)
        body = node.child_by_field_name("body")
        for child in node.named_children:
            if child.type == "for_in_clause":
                value = self.expression(child.child_by_field_name("right"))
                left = child.child_by_field_name("left")
                is_async = child.child_count > 0 and child.children[0].type == "async"
                if left is not None:
                    self.target(left, ("for", value, is_async))
            elif child.type == "if_clause":
                self.env = dict(self.condition(child.named_children[0])[0])
        kind = _COMPREHENSIONS[node.type]
        key: Expression = UNKNOWN
        if body is not None and body.type == "pair":
            key = self.expression(body.child_by_field_name("key"))
            body = body.child_by_field_name("value")
        element = self.expression(body)
        self.leave()
        self.env = before
        return ("C", kind, element, key)

    def target(self, node: tree_sitter.Node, binding: Binding) -> None:
        """Binds a target of an assignment, a loop, a `with`."""
        kind = node.type
        if kind == "identifier":
            self.bind(self.text(node), binding)
        elif kind in ("pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"):
            whole = self.add(binding)
            children = [child for child in node.named_children if child.type != "comment"]
            for position, child in enumerate(children):
                if child.type in ("list_splat_pattern", "list_splat"):
                    self.target(child.named_children[0], ("=", ("L", "list", ())))
                    position -= len(children)
                else:
                    self.target(child, ("item", whole, position))
        elif kind == "attribute":
            self._attribute_target(node, binding)
        elif kind in ("parenthesized_expression", "as_pattern_target") and node.named_child_count:
            self.target(node.named_children[0], binding)
        else:
            self.expression(node)

    def _attribute_target(self, node: tree_sitter.Node, binding: Binding) -> None:
        base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        found = self.expression(base)
        number = self.add(binding)
        if base is None or name is None:
            return
        scope = self.facts.scopes[self.here]
        if base.type == "identifier" and scope.kind == "function" and scope.params and not scope.params[0].star:
            parent = self.facts.scopes[scope.parent]
            if parent.kind == "class" and self.text(base) == scope.params[0].name:
                held = parent.attributes
                held[self.text(name)] = (*held.get(self.text(name), ())[: _BINDINGS - 1], number)
        path = self.path(node)
        if path and found != UNKNOWN and binding != UNKNOWN:
            self.hold(path, (number,))

    def _dictionary(self, node: tree_sitter.Node) -> Expression:
        keys, values = [], []
        for child in node.named_children:
            if child.type == "pair":
                keys.append(self.expression(child.child_by_field_name("key")))
                values.append(self.expression(child.child_by_field_name("value")))
            else:
                self.expression(child)
        return ("D", tuple(keys), tuple(values))

    def _display(self, node: tree_sitter.Node) -> Expression:
        kind = "tuple" if node.type == "expression_list" else node.type
        elements = tuple(self.expression(child) for child in node.named_children if child.type != "comment")
        return ("L", kind, elements)

    def _string(self, node: tree_sitter.Node) -> Expression:
        plain = []
        for child in node.named_children:
            if child.type in ("interpolation", "string"):
                self.expression(child) if child.type == "string" else self._interpolation(child)
            elif child.type == "string_content":
                plain.append(self.text(child))
        prefix = self.source[node.start_byte : node.start_byte + 2].lower()
        return ("k", "bytes" if b"b" in prefix.split(b'"')[0].split(b"'")[0] else "str", "".join(plain)[:80])

    def _interpolation(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            if child.type == "format_specifier":
                for inner in child.named_children:
                    self._interpolation(inner)
            elif child.type != "type_conversion":
                self.expression(child)

    def _yield(self, node: tree_sitter.Node) -> Expression:
        value = self._inner(node) if node.named_child_count else UNKNOWN
        scope = self.facts.scopes[self.here]
        scope.is_generator = True
        if any(child.type == "from" for child in node.children):
            scope.yields.append(("star", value))
            return UNKNOWN
        scope.yields.append(value)
        return ("sent", self.here)


def merge(environments: list[Environment]) -> Environment:
    """What may hold after paths that meet."""
    first = dict(environments[0])
    for other in environments[1:]:
        for key, ids in other.items():
            known = first.get(key)
            if known is None:
                if "." not in key:
                    first[key] = ids
            elif known is not ids and known != ids:
                first[key] = tuple(dict.fromkeys((*known, *ids)))[-_BINDINGS:]
        for key in [key for key in first if "." in key and key not in other]:
            del first[key]
    return first
