"""Types of expressions, bindings and calls. Each binding and each call is worked out once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from codegraph.resolve.calls.python import known
from codegraph.resolve.calls.python.annotations import Annotations
from codegraph.resolve.calls.python.facts import Binding, Call, Expression, Parameter, PythonFacts
from codegraph.resolve.calls.python.names import DEPTH
from codegraph.resolve.calls.python.types import LIMIT, SELF, Type, Types, argument, instance, substitute, unify, union

_TYPE_VARIABLES = frozenset(["TypeVar", "ParamSpec", "TypeVarTuple"])
_SENDING = (("b", "Generator"), ("b", "AsyncGenerator"))


class Inference(Annotations):
    """`arguments` are the types that un-annotated parameters were given at resolved calls, if they are known."""

    def __init__(self, files: Mapping[str, PythonFacts], configuration: Collection[str]) -> None:
        super().__init__(files, configuration)
        self.arguments: dict[tuple[str, int, int], Types] = {}
        self._calls: dict[tuple[str, int], Types] = {}
        self._results: dict[tuple[str, int], Types] = {}

    def forget(self) -> None:
        """Types are worked out anew: `arguments` has changed."""
        for kept in (self._bindings, self._exports, self._calls, self._results):
            kept.clear()

    # Bindings

    def binding_types(self, file: str, binding: Binding) -> Types:
        kind = binding[0]
        if kind == "def":
            return (("F", file, binding[1]),)
        if kind == "class":
            return (("K", file, binding[1]),)
        if kind in ("import", "from"):
            return self.imported(file, binding)
        if kind == "=":
            return self.expression(file, binding[1])
        if kind == ":":
            declared = self.annotation(file, binding[1])
            if declared or binding[2] is None:
                return declared
            return self.expression(file, binding[2])
        if kind == "param":
            return self._parameter(file, binding[1], binding[2])
        if kind == "for":
            return self.elements(self.expression(file, binding[1]), binding[2])
        if kind == "with":
            return self.entered(self.expression(file, binding[1]), binding[2])
        if kind == "item":
            return self._item(self.bound(file, binding[1]), binding[2])
        if kind == "except":
            return self._instances_of(file, binding[1])
        if kind in ("is", "not"):
            return self._narrowed(file, binding)
        if kind == "phi":
            return union(self.bound(file, number) for number in binding[1])
        if kind == "type":
            return (("A", file, binding[1]),)
        return ()

    def _instances_of(self, file: str, classes: Expression) -> Types:
        if classes[:2] == ("L", "tuple"):
            return union(self._instances_of(file, part) for part in classes[2])
        if classes[0] == "op":
            return union([self._instances_of(file, classes[1]), self._instances_of(file, classes[2])])
        found: list[Types] = []
        for item in self.expression(file, classes):
            if item[0] == "K":
                found.append((("I", item[1], item[2], ()),))
            elif item[0] == "x":
                name = item[1].rpartition(".")[2]
                found.append(instance(known.SAME.get(name, name)))
            elif item[:2] == ("b", "tuple"):
                found.extend((("I", inner[1], inner[2], ()),) for arg in item[2] for inner in arg if inner[0] == "K")
        return union(found)

    def _narrowed(self, file: str, binding: Binding) -> Types:
        before, classes = self.expression(file, binding[1]), self._instances_of(file, binding[2])
        if binding[0] == "not":
            return tuple(
                item for item in before if not any(self._is_a(item, other) for other in classes if other[0] == item[0])
            )
        if not classes:
            return ()
        narrower = tuple(item for item in before if any(self._is_a(item, other) for other in classes))
        if narrower:
            return narrower
        return classes

    def _is_a(self, item: Type, other: Type) -> bool:
        if item[0] == other[0] == "I":
            return self.is_subclass(item, other)
        return item[0] == other[0] == "b" and bool(item[1] == other[1])

    def _parameter(self, file: str, scope: int, position: int) -> Types:
        function = self.files[file].scopes[scope]
        parameter = function.params[position]
        declared = self.annotation(file, parameter.annotation)
        first = self._first(file, scope) if not declared and position == 0 and not parameter.star else ()
        if first:
            return first
        if parameter.star == "*":
            return instance("tuple", declared or self.arguments.get((file, scope, position), ()))
        if parameter.star == "**":
            return instance("dict", instance("str"), declared)
        if declared and parameter.annotation is not None:
            return self._bounded(file, scope, declared)
        given = self.arguments.get((file, scope, position), ())
        if parameter.default is not None:
            return union([given, self.expression(file, parameter.default)])
        return given

    def _bounded(self, file: str, scope: int, declared: Types) -> Types:
        """Inside of the function a type variable is its bound; one for `self` is the class."""
        found = substitute(declared, {})
        return tuple(item[1] if item[0] == "Y" and item[1][0] != "T" else item for item in found)

    def _first(self, file: str, scope: int) -> Types:
        """`self` or `cls`."""
        scopes = self.files[file].scopes
        function = scopes[scope]
        if function.kind != "function" or scopes[function.parent].kind != "class":
            return ()
        names = self.decorations(file, scope)
        if "staticmethod" in names:
            return ()
        if "classmethod" in names or function.name in ("__new__", "__init_subclass__", "__class_getitem__"):
            return (("K", file, function.parent, SELF),)
        if any(
            item == ("x", "builtins.type")
            for base in scopes[function.parent].bases
            for item in self.expression(file, base)
        ):
            return (("K", file, function.parent, SELF),)
        return (("I", file, function.parent, SELF),)

    def _item(self, types: Types, index: int) -> Types:
        parts: list[Types] = []
        for item in types:
            if item[:2] == ("b", "tuple") and len(item[2]) > 1:
                if item[2][-1] == (("x", "builtins.Ellipsis"),):
                    index = 0
                parts.append(argument(item, index))
            elif item[0] == "I" and (fields := self._fields(item)) is not None:
                parts.append(fields[index] if -len(fields) <= index < len(fields) else ())
            else:
                parts.append(self.elements((item,)))
        return union(parts)

    def _fields(self, item: Type) -> list[Types] | None:
        """The fields of a NamedTuple."""
        scope = self.scope(item)
        if not any(
            found == ("x", "typing.NamedTuple") for base in scope.bases for found in self.expression(item[1], base)
        ):
            return None
        bindings = self.files[item[1]].bindings
        return [self.bound(item[1], numbers[-1]) for numbers in scope.names.values() if bindings[numbers[-1]][0] == ":"]

    # Expressions

    def expression(self, file: str, expression: Expression) -> Types:
        if self.depth > DEPTH:
            return ()
        self.depth += 1
        try:
            return self._expression(file, expression)
        finally:
            self.depth -= 1

    def _expression(self, file: str, expression: Expression) -> Types:
        kind = expression[0]
        if kind == "v":
            return self.any_bound(file, expression[1])
        if kind == "n":
            return self.name(file, expression[1], expression[2])
        if kind == "a":
            return self.attribute(self.expression(file, expression[1]), expression[2])
        if kind == "c":
            return self.call(file, expression[1])
        if kind == "or":
            return union(self.expression(file, part) for part in expression[1])
        if kind == "aw":
            return self.awaited(self.expression(file, expression[1]))
        if kind == "s":
            return self._subscript(file, expression)
        if kind == "k":
            return () if expression[1] == "None" else instance(expression[1])
        if kind == "L":
            return self._display(file, expression)
        if kind == "D":
            keys = union(self.expression(file, key) for key in expression[1][:LIMIT])
            return instance("dict", keys, union(self.expression(file, value) for value in expression[2][:40]))
        if kind == "C":
            element = self.expression(file, expression[2])
            if expression[1] == "dict":
                return instance("dict", self.expression(file, expression[3]), element)
            return instance(expression[1], element)
        if kind == "op":
            return self._operator(file, expression)
        if kind == "sent":
            declared = self.annotation(file, self.files[file].scopes[expression[1]].annotation)
            return union(argument(item, 1) for item in declared if item[:2] in _SENDING)
        if kind == "f":
            return (("F", file, expression[1]),)
        return ()

    def _display(self, file: str, expression: Expression) -> Types:
        parts = [
            self.elements(self.expression(file, part[1])) if part[0] == "star" else self.expression(file, part)
            for part in expression[2][:40]
        ]
        if expression[1] == "tuple" and not any(part[0] == "star" for part in expression[2]):
            return instance("tuple", *parts)
        return instance(expression[1], union(parts))

    def _operator(self, file: str, expression: Expression) -> Types:
        _, left, right, method = expression
        found = self.expression(file, left)
        if any(item[0] in ("K", "x", "A") for item in found) and method == "__or__":
            return (("A", file, expression),)
        parts = [self.method_result(item, method) if method and item[0] == "I" else (item,) for item in found]
        if not found and method:
            other = "__r" + method[2:]
            parts = [self.method_result(item, other) for item in self.expression(file, right) if item[0] == "I"]
        return union(parts)

    def _subscript(self, file: str, expression: Expression) -> Types:
        parts: list[Types] = []
        for item in self.expression(file, expression[1]):
            if item[0] == "K" and self.is_enum(item[1], item[2]):
                parts.append((("I", item[1], item[2], ()),))
            elif item[0] in ("K", "A", "x"):
                parts.append((("A", file, expression),))
            elif item[0] == "b":
                index = expression[2]
                if item[1] == "dict":
                    parts.append(argument(item, 1))
                elif index == ("?",) and item[1] in ("list", "tuple"):
                    parts.append((item,))  # a slice
                else:
                    parts.append(self.elements((item,)) if item[1] == "tuple" else argument(item, 0))
            elif item[0] == "I":
                found = self.method_result(item, "__getitem__")
                parts.append(found or self._outside_base(item))
        return union(parts)

    def attribute(self, types: Types, name: str) -> Types:
        return union(self._attribute(item, name) for item in types)

    def _attribute(self, item: Type, name: str) -> Types:
        kind = item[0]
        if kind == "I":
            if name == "__class__":
                return (("K", *item[1:3]),)
            found, owner = self.member(item, name)
            if owner is None:
                getter, owner = self.member(item, "__getattr__")
                return self.method_result(item, "__getattr__") if owner is not None and getter else ()
            return found
        if kind == "K":
            found, owner = self.member(item, name)
            is_value = owner is not None and not any(inner[0] in ("F", "M", "K") for inner in found)
            return (("I", item[1], item[2], ()),) if is_value and self.is_enum(item[1], item[2]) else found
        if kind == "S":
            return self.member(item[3], name, (item[1], item[2]))[0]
        if kind == "m":
            return self.export(item[1], name)
        if kind == "x":
            return (("x", f"{item[1]}.{name}"),)
        if kind == "b":
            return (("bm", name, item),)
        if kind == "A":
            return self.attribute(self.expression(item[1], item[2][1]) if item[2][0] == "s" else (), name)
        if kind == "F" and name == "__wrapped__":
            return (item,)
        if kind == "P" and name == "func":
            return tuple(item[1])
        return ()

    # Calls

    def call(self, file: str, number: int) -> Types:
        """What a call gives."""
        key = (file, number)
        if key in self._calls:
            return self._calls[key]
        self._calls[key] = ()
        call = self.files[file].calls[number]
        found = union(self._called(file, call, item) for item in self.expression(file, call.callee))
        self._calls[key] = found
        return found

    def _called(self, file: str, call: Call, item: Type) -> Types:
        kind = item[0]
        if kind == "F":
            return self._returned(file, call, item, None)
        if kind == "M":
            return self._returned(file, call, item, item[3])
        if kind == "K":
            return self._made(file, call, item)
        if kind == "I":
            found, _ = self.member(item, "__call__")
            return union(self._called(file, call, method) for method in found if method[0] == "M")
        if kind in ("R", "P"):
            return item[1] if kind == "R" else union(self._called(file, call, inner) for inner in item[1])
        if kind == "A":
            return self.annotation(item[1], item[2])
        if kind == "bm":
            return self._built_in_method(item)
        if kind == "x":
            return self._outside_call(file, call, item[1])
        return ()

    def _made(self, file: str, call: Call, item: Type) -> Types:
        if len(item) == 4:
            return (("I", item[1], item[2], SELF),)
        names = self.type_names(item[1], item[2])
        if not names:
            return (("I", item[1], item[2], ()),)
        learned: dict[str, Types] = {}
        for method in self.member(("I", *item[1:3], ()), "__init__")[0]:
            if method[0] == "M":
                self._learn(file, call, self.scope(method).params[1:], method[1], learned)
        return (("I", item[1], item[2], tuple(learned.get(name, ()) for name in names)),)

    def _returned(self, file: str, call: Call, item: Type, receiver: Type | None) -> Types:
        function = self.scope(item)
        found = self.result(item[1], item[2])
        params = function.params
        if receiver is not None:
            found = self.to_self(found, receiver)
            params = params[1:]
        if any(_mentions_variable(inner) for inner in found):
            learned: dict[str, Types] = {}
            if receiver is not None and function.params and function.params[0].annotation is not None:
                self._learn_one(self.annotation(item[1], function.params[0].annotation), (receiver,), learned)
            if receiver is not None and receiver[0] == "I" and receiver[3] not in ((), SELF):
                learned.update(zip(self.type_names(receiver[1], receiver[2]), receiver[3], strict=False))
            self._learn(file, call, params, item[1], learned)
            found = substitute(found, learned)
            found = tuple(item[1] if item[0] == "Y" else item for item in found)
        return found

    def _learn(self, file: str, call: Call, params: list[Parameter], owner: str, learned: dict[str, Types]) -> None:
        for parameter, value in match(call, params):
            if parameter.annotation is not None:
                self._learn_one(self.annotation(owner, parameter.annotation), self.expression(file, value), learned)

    def _learn_one(self, declared: Types, given: Types, learned: dict[str, Types]) -> None:
        for item in declared:
            if item[0] == "Y" and item[1][0] == "T":
                classes = tuple(("I", *other[1:3], ()) for other in given if other[0] == "K")
                unify((item[1],), classes, learned)
            elif item[0] == "R":
                results = union(
                    self.result(other[1], other[2]) if other[0] in ("F", "M") else (("I", *other[1:3], ()),)
                    for other in given
                    if other[0] in ("F", "M", "K")
                )
                unify(item[1], results, learned)
        unify(declared, given, learned)

    def result(self, file: str, scope: int) -> Types:
        """What a function gives when it is called: its annotation, or what its `return` statements say."""
        key = (file, scope)
        if key in self._results:
            return self._results[key]
        self._results[key] = ()
        function = self.files[file].scopes[scope]
        names = self.decorations(file, scope)
        if function.annotation is not None:
            found = self.annotation(file, function.annotation)
            if function.is_async and not function.is_generator:
                found = instance("Coroutine", found)
        elif function.is_generator:
            kind = "AsyncGenerator" if function.is_async else "Generator"
            found = instance(kind, union(self._yielded(file, value) for value in function.yields))
        else:
            found = union(self.expression(file, value) for value in function.returns[:40])
            if function.is_async:
                found = instance("Coroutine", found)
        if names & known.MANAGER_DECORATORS:
            found = union(instance("ContextManager", argument(item, 0)) for item in found if item[0] == "b")
        self._results[key] = found
        return found

    def _yielded(self, file: str, value: Expression) -> Types:
        if value[0] == "star":
            return self.elements(self.expression(file, value[1]))
        return self.expression(file, value)

    def _built_in_method(self, item: Type) -> Types:
        _, name, receiver = item
        table = known.METHODS.get(receiver[1], {})
        how = table.get(name)
        if how is None:
            return ()
        if isinstance(how, int):
            return argument(receiver, how)
        word, _, index = how.partition(" ")
        if word == "self":
            return (receiver,)
        if word == "of":
            return instance("list", argument(receiver, int(index)))
        if word == "await":
            return instance("Coroutine", argument(receiver, int(index)))
        pair = instance("tuple", argument(receiver, 0), argument(receiver, 1))
        return pair if word == "pair" else instance("list", pair)

    def _outside_call(self, file: str, call: Call, name: str) -> Types:
        short = name.removeprefix("builtins.")
        last = name.rpartition(".")[2]
        args = call.args

        def arg(index: int) -> Types:
            return self.expression(file, args[index]) if index < len(args) else ()

        if name in known.PASSES:
            return arg(known.PASSES[name])
        if last == "cast" and name.startswith("typing") and len(args) == 2:
            return self.annotation(file, args[0])
        if last in _TYPE_VARIABLES:
            return self._variable(file, call)
        if short == "super":
            return self._super(file, call)
        if short == "type" and len(args) == 1:
            return tuple(("K", *item[1:3], *((SELF,) if item[3] == SELF else ())) for item in arg(0) if item[0] == "I")
        if short == "getattr" and len(args) >= 2 and args[1][0] == "k" and len(args[1]) == 3:
            return union([self.attribute(arg(0), args[1][2]), arg(2)])
        if short in ("dict", "collections.OrderedDict"):
            values = union(self.expression(file, value) for _, value in call.keywords)
            copied = tuple(item for item in arg(0) if item[:2] == ("b", "dict"))
            return copied or instance("dict", instance("str"), values)
        if last == "defaultdict":
            made = union(self._called(file, call, item) for item in arg(0) if item[0] in ("K", "F", "x"))
            return instance("dict", (), made)
        if short in ("next", "min", "max", "anext"):
            found = self.elements(arg(0)) if len(args) == 1 or short == "next" else union([arg(0), arg(1)])
            return union([found, arg(1)]) if short == "next" else found
        if short == "enumerate":
            return instance("list", instance("tuple", instance("int"), self.elements(arg(0))))
        if last in ("zip", "zip_longest", "product"):
            return instance("list", instance("tuple", *(self.elements(arg(index)) for index in range(len(args)))))
        if short == "filter":
            return instance("list", self.elements(arg(1)))
        if short == "map":
            results = union(self._called(file, call, item) for item in arg(0) if item[0] in ("K", "F", "M"))
            return instance("list", results)
        if last in known.COPIES and name.split(".")[0] in ("builtins", "collections", "itertools"):
            return instance("list" if short in ("sorted", "reversed", "iter", "tuple") else last, self.elements(arg(0)))
        if last == "chain":
            return instance("list", union(self.elements(arg(index)) for index in range(len(args))))
        if last in ("partial", "partialmethod"):
            return (("P", arg(0)),)
        if last in ("wraps", "lru_cache"):
            return (("x", "copy.copy"),)
        if last in ("create_task", "ensure_future", "run"):
            return self.awaited(arg(0)) if last == "run" else instance("Task", self.awaited(arg(0)))
        if last == "gather":
            return instance("Future", instance("tuple", *(self.awaited(arg(index)) for index in range(len(args)))))
        if last in ("closing", "nullcontext"):
            return instance(last, arg(0))
        if last in ("ref", "WeakMethod") and name.startswith("weakref"):
            return (("R", arg(0)),)
        if last in ("field", "ib", "attrib"):
            return self._field(file, call)
        if (last[:1].isupper() and last not in ("Any",)) or short in ("set", "str", "int", "bytes", "float"):
            return instance(known.SAME.get(last, last))
        return ()

    def _field(self, file: str, call: Call) -> Types:
        for key, value in call.keywords:
            if key in ("default_factory", "factory"):
                return union(self._called(file, call, item) for item in self.expression(file, value))
            if key == "default":
                return self.expression(file, value)
        return ()

    def _variable(self, file: str, call: Call) -> Types:
        if not call.args or len(call.args[0]) != 3:
            return ()
        bound: Types = ()
        for key, value in call.keywords:
            if key == "bound":
                bound = self.annotation(file, value)
        if len(call.args) > 1:
            bound = union(self.annotation(file, value) for value in call.args[1:])
        return (("T", call.args[0][2], bound),)

    def _super(self, file: str, call: Call) -> Types:
        own = self.own_class(file, call.scope)
        if own is None:
            return ()
        after = own
        if len(call.args) == 2:
            for item in self.expression(file, call.args[0]):
                if item[0] == "K":
                    after = (item[1], item[2])
        scopes = self.files[file].scopes
        scope = call.scope
        while scopes[scope].parent != own[1]:
            scope = scopes[scope].parent
        receiver = ("K", *own) if self._first(file, scope)[:1] == (("K", *own, SELF),) else ("I", *own, SELF)
        return (("S", *after, receiver),)


def match(call: Call, params: list[Parameter]) -> list[tuple[Parameter, Expression]]:
    """The arguments of a call with the parameters that take them; unpacked ones are left out."""
    found: list[tuple[Parameter, Expression]] = []
    named = {parameter.name: parameter for parameter in params if not parameter.star}
    positional = [parameter for parameter in params if not parameter.keyword and parameter.star != "**"]
    for position, value in enumerate(call.args):
        if value[0] == "star":
            break
        if position < len(positional) and not positional[position].star:
            found.append((positional[position], value))
        elif positional and positional[-1].star == "*":
            found.append((positional[-1], value))
    found.extend((named[key], value) for key, value in call.keywords if key in named)
    return found


def _mentions_variable(item: Type) -> bool:
    if item[0] in ("T", "Y"):
        return True
    if item[0] in ("b", "I") and item[-1] != SELF:
        return any(_mentions_variable(inner) for arg in item[-1] for inner in arg)
    return item[0] in ("R", "P") and any(_mentions_variable(inner) for inner in item[1])
