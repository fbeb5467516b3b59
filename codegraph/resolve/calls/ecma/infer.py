"""What expressions are: results of calls, parameters by what calls a function, type parameters by arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codegraph.resolve.calls.ecma import known
from codegraph.resolve.calls.ecma.facts import Call, EcmaFacts, Expression, Function
from codegraph.resolve.calls.ecma.members import Members, of_array
from codegraph.resolve.calls.ecma.types import Key, Type, Types, outside, substitute, union

_DEEPEST = 120
_PLAIN = frozenset(["string", "number", "boolean", "RegExp"])


class Inference(Members):
    def __init__(self, files: Mapping[str, EcmaFacts], configuration: Mapping[str, bytes]) -> None:
        super().__init__(files, configuration)
        self._expressions: dict[tuple[str, Expression], Types] = {}
        self._results: dict[tuple[str, int], Types] = {}
        for file, facts in files.items():
            for base, is_prototype, name, value in facts.assigned:
                self._assign(file, base, is_prototype, name, value)
        self._expressions.clear()
        self._results.clear()
        self._exports.clear()
        self._annotations.clear()

    def _assign(self, file: str, base: Expression, is_prototype: bool, name: str, value: Expression) -> None:
        for item in self.expression(file, base):
            kind = item[0]
            if is_prototype and kind in ("F", "K"):
                kind = "J" if kind == "F" else "I"
            elif is_prototype or kind not in ("F", "K", "I", "J") or (kind == "I" and self.of(item).kind != "object"):
                continue
            owner = (kind, item[1], item[2])
            self.assigned.setdefault(owner, {}).setdefault(name, []).append((file, value))
            receiver = (*owner, ()) if kind in ("I", "F") else owner
            if value[0] == "f":
                self.receivers.setdefault((file, value[1]), receiver)
            elif value[0] == "o" and not name:
                for members in self.files[file].classes[value[1]].members.values():
                    for member in members:
                        if member[0] == "f":
                            self.receivers.setdefault((file, member[1]), receiver)
                        elif member[0] == "=" and member[1][0] == "f":
                            self.receivers.setdefault((file, member[1][1]), receiver)

    def expression(self, file: str, expression: Expression) -> Types:
        if self.depth > _DEEPEST:
            return ()
        key = (file, expression)
        if key in self._expressions:
            return self._expressions[key]
        self._expressions[key] = ()  # What leads to itself adds nothing.
        self.depth += 1
        try:
            self._expressions[key] = self._expression(file, expression)
        finally:
            self.depth -= 1
        return self._expressions[key]

    def _expression(self, file: str, expression: Expression) -> Types:
        kind = expression[0]
        if kind == "n":
            return self.name(file, expression[1], expression[2])
        if kind == ".":
            return union(self.member(item, expression[2]) for item in self.expression(file, expression[1]))
        if kind in ("c", "new"):
            return self.called(file, expression[1])
        if kind == "f":
            return (("F", file, expression[1], ()),)
        if kind == "K":
            return (("K", file, expression[1]),)
        if kind == "o":
            return (("I", file, expression[1], ()),)
        if kind == "this":
            return self.this(file, expression[1])
        if kind == "super":
            return self.super(file, expression[1])
        if kind == "p":
            return self.parameter(file, expression[1], expression[2])
        if kind == "aw":
            return self.awaited(self.expression(file, expression[1]))
        if kind == "or":
            return union(self.expression(file, one) for one in expression[1])
        if kind == "el":
            return self.elements(self.expression(file, expression[1]))
        if kind == "ix":
            return self.index(self.expression(file, expression[1]), expression[2])
        if kind == "as":
            return self.type(file, expression[1])
        if kind == "imp":
            path = self.modules.find(file, expression[1])
            return () if path is None else self.exported(path, "*")
        if kind == "inst":
            return union(self.constructed(item) for item in self.expression(file, expression[1]))
        if kind == "guard":
            return self._guarded(file, expression)
        if kind == "arr":
            return self._array(file, expression[1])
        return outside(expression[1]) if kind == "k" and expression[1] in _PLAIN else ()

    def _guarded(self, file: str, expression: Expression) -> Types:
        found: list[Types] = []
        for item in self.expression(file, expression[1]):
            for one in self.signatures(item):
                predicate = self.function(one).predicate
                if predicate is not None and predicate[0] == expression[2]:
                    found.append(self.type(one[1], predicate[1]))
        kinds = tuple(item for item in union(found) if item[0] != "b" or item[2])
        return kinds or self.expression(file, expression[3])

    def _array(self, file: str, parts: tuple[Expression, ...]) -> Types:
        found = []
        for part in parts:
            if part[0] == "sp":
                found.append(self.elements(self.expression(file, part[1])))
            else:
                found.append(self.expression(file, part))
        if 0 < len(parts) <= 4 and not any(part[0] == "sp" for part in parts):
            return outside("Tuple", *found)
        return outside("Array", union(found))

    # this and super

    def _class_scope(self, file: str, scope: int) -> tuple[int, Function | None, int]:
        """The class whose `this` a scope has, or -1; the function that has it; the number of that function."""
        facts = self.files[file]
        while scope >= 0:
            one = facts.scopes[scope]
            if one.kind == "function" and not facts.functions[one.function].is_arrow:
                return facts.functions[one.function].owner, facts.functions[one.function], one.function
            if one.kind == "class" and one.owner >= 0 and facts.classes[one.owner].kind != "object":
                return one.owner, None, -1
            scope = one.parent
        return -1, None, -1

    def this(self, file: str, scope: int) -> Types:
        owner, function, number = self._class_scope(file, scope)
        if function is not None:
            typed = self.files[file].scopes[function.scope].names.get("this")
            if typed:
                return union(self.binding(file, one) for one in typed)
            if (file, number) in self.receivers:
                return (self.receivers[file, number],)
            if owner < 0 and function.context is not None and (found := self._wanted_this(file, function.context)):
                return found
        if owner >= 0:
            if function is not None and function.is_static:
                return (("K", file, owner),)
            if self.files[file].classes[owner].kind == "object":
                context = self.files[file].classes[owner].context
                wanted = () if context is None else self.expected(file, context)
                return tuple(one for one in wanted if one[0] in ("I", "T")) or (("I", file, owner, ()),)
            return (("T", file, owner, "this"),)
        return (("J", file, number),) if function is not None and function.own else ()

    def _wanted_this(self, file: str, context: tuple[Any, ...]) -> Types:
        """What `this` is in a function by the type that its place wants of it."""
        found: list[Types] = []
        for item in self.expected(file, context):
            for one in self.signatures(item):
                scope = self.files[one[1]].scopes[self.function(one).scope]
                typed = union(self.binding(one[1], binding) for binding in scope.names.get("this", ()))
                found.append(substitute(typed, dict(one[3])))
        return union(found)

    def super(self, file: str, scope: int) -> Types:
        owner, function, _ = self._class_scope(file, scope)
        if owner < 0:
            return ()
        if function is not None and function.is_static:
            return self.parents(("K", file, owner))
        return self.bases(("I", file, owner, ()))

    # Calls

    def called(self, file: str, number: int) -> Types:
        call = self.files[file].calls[number]
        callees = self.expression(file, call.callee)
        if call.is_new:
            return union(self._made(file, call, item) for item in callees)
        return union(self.outcome(file, call, item) for item in self.chosen(file, call, callees))

    def _made(self, file: str, call: Call, item: Type) -> Types:
        if item[0] == "g":
            name: str = item[1]
            args = tuple(self.type(file, one) for one in call.types)
            return outside(known.SAME.get(name, name), *args)
        if item[0] == "K":
            made = self.of(item)
            env: dict[Key, Types] = {}
            if made.type_params:
                for param, one in zip(made.type_params, call.types, strict=False):
                    env[item[1], made.scope, param] = self.type(file, one)
                if not env:
                    for binding in made.members.get("constructor", ()):
                        if binding[0] == "f":
                            self.learn(file, call, ("F", item[1], binding[1], ()), env)
            return tuple((*one[:3], tuple((key, types) for key, types in env.items() if types))
                         for one in self.instances(item))  # fmt: skip
        if item[0] in ("I", "T"):
            found = self.chosen(file, call, self.member(item, "new"))
            return union(self.outcome(file, call, one) for one in found if one[0] == "F")
        return self.constructed(item)

    def signatures(self, item: Type) -> Iterator[Type]:
        """The functions that a call of a value may call."""
        if item[0] == "F":
            yield item
        elif item[0] == "T":
            for one in self.limit(item):
                yield from self.signatures(one)
        elif item[0] == "I":
            yield from (one for one in self.member(item, "()") if one[0] == "F")
        elif item[0] == "M":
            yield from (one for one in self.exported(item[1], "=") if one[0] == "F")

    def chosen(self, file: str, call: Call, callees: Types) -> Types:
        """The first overload of each function that takes so many arguments, and what is no function."""
        groups: dict[tuple[Any, ...], list[Type]] = {}
        for item in callees:
            if item[0] in ("bm", "K", "g"):
                groups.setdefault(item, []).append(item)
            for one in self.signatures(item):
                function = self.function(one)
                key = (one[1], function.qname, function.owner) if function.qname else (one[1], function.owner, "()")
                if not function.qname and function.owner < 0:
                    key = one
                groups.setdefault(key, []).append(one)
        found: list[Type] = []
        for group in groups.values():
            signatures = [one for one in group if one[0] != "F" or not self.function(one).has_body] or group
            fitting = [one for one in signatures if one[0] != "F" or _takes(self.function(one), call)]
            found.append((fitting or signatures)[0])
        return tuple(found)

    def outcome(self, file: str, call: Call, item: Type) -> Types:
        """The result of a call of one function."""
        if item[0] == "F":
            result = self.result(item)
            function = self.function(item)
            if function.type_params and result:
                env: dict[Key, Types] = {}
                for name, one in zip(function.type_params, call.types, strict=False):
                    env[item[1], function.scope, name] = self.type(file, one)
                if not env:
                    self.learn(file, call, item, env)
                result = substitute(result, {key: types for key, types in env.items() if types})
            return result
        if item[0] == "bm":
            return self._outside_result(file, call, item[1], item[2])
        return ()

    def result(self, item: Type) -> Types:
        """What a function gives, before type parameters of its own are known."""
        if item[0] != "F":
            return ()
        return substitute(self._declared(item[1], item[2]), dict(item[3]))

    def _declared(self, file: str, number: int) -> Types:
        key = (file, number)
        if key in self._results:
            return self._results[key]
        self._results[key] = ()
        function = self.files[file].functions[number]
        wanted: Types = ()
        if function.result is None and function.context is not None and function.context[0] == "type":
            wanted = union(
                self.result(one) for item in self.expected(file, function.context) for one in self.signatures(item)
            )
        if function.result is not None:
            found = self.type(file, function.result)
        elif wanted:
            found = wanted
        else:
            found = union(self.expression(file, one) for one in function.returns)
            if function.is_async:
                found = outside("Promise", self.awaited(found))
            if function.is_generator:
                found = ()
        self._results[key] = found
        return found

    def learn(self, file: str, call: Call, item: Type, env: dict[Key, Types]) -> None:
        """Type parameters by the arguments of a call; those of callbacks last."""
        function = self.function(item)
        for late in (False, True):
            for at, argument in enumerate(call.args):
                if (argument[0] == "f") == late and argument[0] != "sp":
                    declared = self._declared_parameter(item, at)
                    if declared:
                        self.unify(declared, self.expression(file, argument), env, (item[1], function.scope))

    def unify(self, declared: Types, given: Types, env: dict[Key, Types], of: tuple[str, int], far: int = 0) -> None:
        if far > 6:
            return
        for item in declared:
            if item[0] == "T" and item[3] != "this":
                key = (item[1], item[2], item[3])
                others = tuple(one for one in given if one != item)
                if others:
                    env[key] = union([env.get(key, ()), others])
            elif item[0] == "b":
                for other in given:
                    if other[0] != "b":
                        continue
                    if other[1] == item[1]:
                        for left, right in zip(item[2], other[2], strict=False):
                            self.unify(left, right, env, of, far + 1)
                    elif item[1] in ("Array", "Iterable") and item[2]:
                        self.unify(item[2][0], self.elements((other,)), env, of, far + 1)
            elif item[0] == "I" and item[3]:
                for other in given:
                    for base in self.ancestors(other):
                        if base[1:3] == item[1:3]:
                            right_env = dict(base[3])
                            for key, types in item[3]:
                                self.unify(types, right_env.get(key, ()), env, of, far + 1)
                            break
            elif item[0] == "F":
                for other in given:
                    if other[0] == "F":
                        self.unify(self.result(item), self.result(other), env, of, far + 1)

    # Parameters

    def parameter(self, file: str, number: int, at: int) -> Types:
        function = self.files[file].functions[number]
        one = function.params[at]
        if one.annotation is not None:
            return self.type(file, one.annotation)
        found: Types = ()
        if function.context is not None:
            for item in self.expected(file, function.context):
                if item[0] == "cb":
                    found = union([found, item[1][at] if at < len(item[1]) else ()])
                for signature in self.signatures(item):
                    found = union([found, self._declared_parameter(signature, at)])
        if one.default is not None and not found:
            found = self.expression(file, one.default)
        return found

    def _declared_parameter(self, item: Type, at: int) -> Types:
        params = self.function(item).params
        if not params:
            return ()
        rest = at >= len(params) or params[at].is_rest
        if rest and not params[-1].is_rest:
            return ()
        one = params[-1] if rest else params[at]
        if one.annotation is None:
            return ()
        found = self.type(item[1], one.annotation)
        return substitute(self.index(found, at - len(params) + 1) if rest else found, dict(item[3]))

    def expected(self, file: str, context: tuple[Any, ...]) -> Types:
        """The type that the place of a function or an object wants of it."""
        if self.depth > _DEEPEST:
            return ()
        key = (file, ("expected", context))
        if key not in self._expressions:
            self._expressions[key] = ()
            self.depth += 1
            try:
                self._expressions[key] = self._expected(file, context)
            finally:
                self.depth -= 1
        return self._expressions[key]

    def _expected(self, file: str, context: tuple[Any, ...]) -> Types:
        facts = self.files[file]
        if context[0] == "type":
            return self.type(file, context[1])
        if context[0] == "member":
            outer = facts.classes[context[1]].context
            return () if outer is None else union(self.member(one, context[2]) for one in self.expected(file, outer))
        if context[0] == "ret":
            function = facts.functions[context[1]]
            if function.result is not None:
                found = self.type(file, function.result)
            elif function.context is not None:
                wanted = self.expected(file, function.context)
                found = union(self.result(one) for item in wanted for one in self.signatures(item))
            else:
                return ()
            return self.awaited(found) if function.is_async else found
        call: Call = facts.calls[context[1]]
        return self._argument(file, call, context[2])

    def _argument(self, file: str, call: Call, at: int) -> Types:
        found: list[Types] = []
        callees = self.expression(file, call.callee)
        if call.is_new:
            callees = union(self._constructors(item) for item in callees)
        for item in self.chosen(file, call, callees):
            if item[0] == "bm":
                found.append(self._callback(file, call, item[1], item[2], at))
            elif item[0] == "F":
                function = self.function(item)
                wanted = self._declared_parameter(item, at)
                env: dict[Key, Types] = {}
                for name, one in zip(function.type_params, call.types, strict=False):
                    env[item[1], function.scope, name] = self.type(file, one)
                if function.type_params and not env:
                    for other, argument in enumerate(call.args):
                        if other != at and argument[0] not in ("f", "sp", "o"):
                            declared = self._declared_parameter(item, other)
                            self.unify(declared, self.expression(file, argument), env, (item[1], function.scope))
                found.append(substitute(wanted, {key: types for key, types in env.items() if types}))
        return union(found)

    def _constructors(self, item: Type) -> Types:
        if item[0] == "K":
            made = self.of(item)
            own = tuple(("F", item[1], one[1], ()) for one in made.members.get("constructor", ()) if one[0] == "f")
            return own or union(self._constructors(one) for one in self.parents(item))
        return self.member(item, "new") if item[0] in ("I", "T") else ()

    def _callback(self, file: str, call: Call, name: str, item: Type, at: int) -> Types:
        """What an outside method calls its argument with."""
        if item[0] != "b":
            return ()
        args = item[2]
        if at == 0 and item[1] in ("Array", "Tuple") and name in known.CALLED_WITH_ELEMENT:
            return (("cb", (self.elements((item,)), (), (item,))),)
        if at == 0 and item[1] in ("Array", "Tuple") and name in ("sort", "toSorted"):
            return (("cb", (self.elements((item,)),) * 2),)
        if at == 0 and item[1] in ("Array", "Tuple") and name in ("reduce", "reduceRight"):
            first = self.expression(file, call.args[1]) if len(call.args) > 1 else self.elements((item,))
            if call.types:
                first = self.type(file, call.types[0])
            return (("cb", (first, self.elements((item,)))),)
        if at == 0 and name == "forEach" and args:
            return (("cb", (args[-1], args[0])),)
        if at == 0 and name == "then" and item[1] == "Promise" and args:
            return (("cb", (self.awaited(args[0]),)),)
        return ()

    def _outside_result(self, file: str, call: Call, name: str, item: Type) -> Types:
        first = self.expression(file, call.args[0]) if call.args else ()
        if item[0] == "g":
            if item[1] == "Object" and name in ("assign", "freeze", "seal", "create"):
                return first
            if item[1] == "Object" and name == "values":
                return outside("Array", self.elements(first))
            if item[1] == "Object" and name == "entries":
                return outside("Array", outside("Tuple", outside("string"), self.elements(first)))
            if item[1] == "Array" and name in ("from", "of"):
                return outside("Array", self.elements(first) if name == "from" else first)
            if item[1] == "Promise" and name == "resolve":
                return outside("Promise", self.awaited(first))
            if item[1] == "Promise" and name == "all":
                return outside("Promise", tuple(self._all(one) for one in first if one[0] == "b"))
            return ()
        results = union(self.result(one) for one in first if one[0] == "F")
        if item[1] == "Promise":
            if name == "then":
                return outside("Promise", self.awaited(results))
            return (item,) if name in ("catch", "finally") else ()
        if name in ("reduce", "reduceRight") and item[1] in ("Array", "Tuple"):
            return self.expression(file, call.args[1]) if len(call.args) > 1 else self.elements((item,))
        return of_array(name, item, results) or ()

    def _all(self, item: Type) -> Type:
        return (*item[:2], tuple(self.awaited(arg) for arg in item[2]))


def _takes(function: Function, call: Call) -> bool:
    if any(one[0] == "sp" for one in call.args):
        return True
    least = sum(1 for one in function.params if not one.is_optional)
    most = 1 << 16 if function.params and function.params[-1].is_rest else len(function.params)
    return least <= len(call.args) <= most
