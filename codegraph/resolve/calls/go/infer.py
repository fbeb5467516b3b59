"""Types of Go expressions, and the function that a call means. Each binding, value and call is worked out once.

Source: https://go.dev/ref/spec#Selectors, #Type_inference
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegraph.resolve.calls.go.facts import Binding, Expression, Function, GoFacts
from codegraph.resolve.calls.go.packages import Key, Packages
from codegraph.resolve.calls.go.types import Parameter, Type, pointed, substitute, unify

_BASIC = frozenset([
    "bool", "string", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64",
    "uintptr", "byte", "rune", "float32", "float64", "complex64", "complex128", "error", "any", "comparable"
])  # fmt: skip
_RESULTS = {"len": "int", "cap": "int", "copy": "int", "recover": "any", "real": "float64", "imag": "float64"}
_SAME = frozenset([
    "slices.Clone", "slices.Compact", "slices.CompactFunc", "slices.Delete", "slices.DeleteFunc", "slices.Insert",
    "slices.Grow", "slices.Clip", "slices.Sorted", "slices.SortedFunc", "slices.Collect", "maps.Clone", "cmp.Or",
    "context.WithoutCancel"
])  # fmt: skip
"""Functions of the standard library that give the type of their first argument."""
_ELEMENT = frozenset(["slices.Max", "slices.Min", "slices.MaxFunc", "slices.MinFunc"])
_LOADS = frozenset(["Load", "Swap"])
DEPTH = 80


class Found:
    """A member of a type: a method or interface method (`file`, `qname`, its function type) or a field's type."""

    __slots__ = ("file", "qname", "type")

    def __init__(self, file: str, qname: str, kind: Type) -> None:
        self.file = file
        self.qname = qname
        self.type = kind


class Inference:
    def __init__(self, files: Mapping[str, GoFacts], configuration: Mapping[str, bytes]) -> None:
        self.files = files
        self.packages = Packages(files, configuration)
        self._depth = 0
        self._bindings: dict[tuple[str, int], Type] = {}
        self._values: dict[tuple[str, str], Type] = {}
        self._calls: dict[tuple[str, int], Type] = {}
        self._underlying: dict[tuple[Key, str], Type] = {}
        self._members: dict[tuple[Any, str, str], Found | None] = {}

    # Names

    def binding(self, file: str, number: int) -> Type:
        key = (file, number)
        if key not in self._bindings:
            self._bindings[key] = None
            self._bindings[key] = self._bound(file, self.files[file].bindings[number], number)
        return self._bindings[key]

    def _bound(self, file: str, binding: Binding, number: int) -> Type:
        kind = binding[0]
        if kind == "is":
            return self.type(file, binding[1])
        if kind == "type":
            return ("type", self.type(file, binding[1]))
        if kind == "param":
            return ("type", ("tp", file, number))
        if kind == "=":
            return _value(self.expression(file, binding[1]))
        if kind == "item":
            return self._item(file, binding)
        if kind == "range":
            return self._ranged(self.expression(file, binding[1]), binding[2])
        return None

    def _item(self, file: str, binding: Binding) -> Type:
        found = self.expression(file, binding[1])
        if found is not None and found[0] == "tuple":
            parts: tuple[Type, ...] = found[1]
            return parts[binding[2]] if binding[2] < len(parts) else None
        return found if binding[2] == 0 else ("b", "bool")

    def _ranged(self, item: Type, index: int) -> Type:
        shape = self.shape(item)
        if shape is None:
            return None
        if shape[0] == "*":
            shape = self.shape(shape[1])
        if shape is None:
            return None
        parts: dict[str, tuple[Type, ...]] = {
            "[]": (("b", "int"), shape[1]),
            "map": shape[1:],
            "chan": shape[1:],
            "X": shape[3] if shape[0] == "X" and shape[2] in ("Seq", "Seq2") else (),
        }
        if shape[0] in parts:
            found = parts[shape[0]]
            return found[index] if index < len(found) else None
        if shape[0] == "fn" and shape[1]:
            inner = self.shape(shape[1][0])
            return inner[1][index] if inner is not None and inner[0] == "fn" and index < len(inner[1]) else None
        return ("b", "int") if shape[0] == "b" and index == 0 else ("b", "rune")

    def name(self, file: str, name: str) -> Type:
        """A name of the package, of a dot import, an import, or of the language."""
        for key in (self.packages.key(file), *self.packages.dots(file)):
            if (found := self.member_of_package(key, name, file)) is not None:
                return found
        target = self.packages.imports(file).get(name)
        if target is not None:
            return ("pkg", target) if isinstance(target, tuple) else ("xpkg", target)
        return ("type", ("b", name)) if name in _BASIC else None

    def member_of_package(self, key: Key, name: str, caller: str) -> Type:
        if self.packages.types.get(key, {}).get(name):
            return ("type", self._named(key, name, caller))
        if found := self.packages.functions.get(key, {}).get(name):
            path, function = self.packages.choose(found, caller)
            return self.type(path, function.type)
        if files := self.packages.values.get(key, {}).get(name):
            path = self.packages.choose_file(files, caller)
            if (path, name) not in self._values:
                self._values[path, name] = None
                self._values[path, name] = self._bound(path, self.files[path].values[name], -1)
            return self._values[path, name]
        return None

    def _named(self, key: Key, name: str, caller: str) -> Type:
        declared = self.packages.type_of(key, name, caller)
        if declared is not None and declared[2][0] == "alias":
            return self.type(declared[0], declared[2][1])
        return ("N", key, name, ())

    def function(self, file: str, expression: Expression) -> tuple[str, Function] | None:
        """The function of a package that an expression names."""
        if expression[0] == "ix":
            return self.function(file, expression[1])
        keys: list[Key] = []
        name = str(expression[-1])
        if expression[0] == "n":
            keys = [self.packages.key(file), *self.packages.dots(file)]
        elif expression[0] == "." and expression[1][0] == "n":
            base = self.name(file, expression[1][1])
            keys = [base[1]] if base is not None and base[0] == "pkg" else []
        for key in keys:
            if found := self.packages.functions.get(key, {}).get(name):
                return self.packages.choose(found, file)
        return None

    # Types

    def type(self, file: str, expression: Expression) -> Type:
        """The type that an expression in the place of a type denotes."""
        found = self.expression(file, expression)
        if found is None:
            return None
        if found[0] == "type":
            inner: Type = found[1]
            return inner
        return None if found[0] in ("pkg", "xpkg", "tuple") else found

    def shape(self, item: Type) -> Type:
        """The underlying type."""
        for _ in range(8):
            if item is None or item[0] not in ("N", "tp"):
                return item
            if item[0] == "tp":
                constraint = self.constraint(item)
                shape = self.shape(constraint)
                if shape is not None and shape[0] == "iface" and not shape[1] and len(shape[2]) == 1:
                    item = shape[2][0]
                    continue
                return shape
            item = self._definition(item)
        return item

    def constraint(self, item: Any) -> Type:
        binding = self.files[item[1]].bindings[item[2]]
        return self.type(item[1], binding[2])

    def _definition(self, item: Any) -> Type:
        _, key, name, args = item
        declared = self.packages.type_of(key, name, self._any_file(key, name))
        if declared is None:
            return None
        if (key, name) not in self._underlying:
            self._underlying[key, name] = None
            self._underlying[key, name] = self.type(declared[0], declared[2])
        found = self._underlying[key, name]
        if args:
            found = substitute(
                found, {(declared[0], param): arg for param, arg in zip(declared[1], args, strict=False)}
            )
        return found

    def _any_file(self, key: Key, name: str) -> str:
        return self.packages.types[key][name][0]

    # Members

    def member(self, item: Type, name: str, caller: str) -> Found | None:
        """A field or method, through pointers and embedded types, the shallowest first."""
        key = (item, name, self.packages.constraints[caller][0])
        if key not in self._members:
            self._members[key] = self._member(item, name, caller)
        return self._members[key]

    def _member(self, item: Type, name: str, caller: str) -> Found | None:
        level: list[Type] = [pointed(item)]
        seen: set[Any] = set()
        for _ in range(8):
            following: list[Type] = []
            for part in level:
                if part is None or part in seen:
                    continue
                seen.add(part)
                if (found := self._direct(part, name, caller)) is not None:
                    return found
                shape = self.shape(part)
                if shape is None:
                    continue
                if shape[0] == "struct":
                    following.extend(pointed(kind) for _, kind, embedded in shape[1] if embedded)
                elif shape[0] == "iface":
                    following.extend(shape[2])
                elif shape[0] == "N" and part[0] == "tp":
                    following.append(shape)
            level = following
        return None

    def _direct(self, part: Any, name: str, caller: str) -> Found | None:
        if part[0] == "N":
            methods = self.packages.methods.get(part[1], {}).get(part[2], {}).get(name)
            if methods:
                path, function = self.packages.choose(methods, caller)
                kind = self.type(path, function.type)
                if part[3]:
                    params = {(path, param): arg for param, arg in zip(function.receiver_params, part[3], strict=False)}
                    kind = substitute(kind, params)
                return Found(path, f"{part[2]}.{name}", kind)
        shape = self.shape(part)
        if shape is None:
            return None
        if shape[0] == "struct":
            for field, kind, _ in shape[1]:
                if field == name:
                    return Found("", "", kind)
        if shape[0] == "iface":
            for method, kind in shape[1]:
                if method == name:
                    return self._interface_method(part, name, kind)
        return None

    def _interface_method(self, part: Any, name: str, kind: Type) -> Found:
        """A method of an interface belongs to the type that declares it, or to none for an interface in place."""
        if part[0] == "tp":
            constraint = self.constraint(part)
            if constraint is not None and constraint[0] == "N":
                part = constraint
        while part[0] == "N":
            declared = self.packages.type_of(part[1], part[2], self._any_file(part[1], part[2]))
            if declared is None:
                break
            if declared[2][0] == "iface":
                return Found(declared[0], f"{part[2]}.{name}", kind)
            inner = self.type(declared[0], declared[2])
            if inner is None or inner[0] != "N":
                break
            part = inner
        return Found("", "", kind)

    # Expressions

    def expression(self, file: str, expression: Expression) -> Type:
        if self._depth > DEPTH:
            return None
        self._depth += 1
        try:
            return self._expression(file, expression)
        finally:
            self._depth -= 1

    def _expression(self, file: str, expression: Expression) -> Type:
        kind = expression[0]
        if kind == "v":
            return self.binding(file, expression[1])
        if kind == "n":
            return self.name(file, expression[1])
        if kind == ".":
            return self._selected(file, expression)
        if kind == "c":
            return self.call(file, expression[1])
        if kind == "k":
            return ("b", expression[1])
        if kind == "*":
            return self._starred(self.expression(file, expression[1]))
        if kind == "&":
            inner = _value(self.expression(file, expression[1]))
            return None if inner is None else ("*", inner)
        if kind in ("lit", "as"):
            return self.type(file, expression[-1])
        if kind == "ix":
            return self._indexed(file, expression)
        if kind == "slice":
            return self._sliced(self.expression(file, expression[1]))
        if kind == "op":
            left, right = self.expression(file, expression[1]), self.expression(file, expression[2])
            return right if left is None or (left[0] == "b" and expression[1][0] == "k") else left
        if kind == "<-":
            shape = self.shape(self.expression(file, expression[1]))
            return shape[1] if shape is not None and shape[0] == "chan" else None
        return self._composed(file, expression)

    def _composed(self, file: str, expression: Expression) -> Type:
        kind = expression[0]
        if kind in ("[]", "chan"):
            return (kind, self.type(file, expression[1]))
        if kind == "map":
            return (kind, self.type(file, expression[1]), self.type(file, expression[2]))
        if kind == "fn":
            params = tuple(self.type(file, part) for part in expression[1])
            return (kind, params, tuple(self.type(file, part) for part in expression[2]), expression[3])
        if kind == "struct":
            fields = ((name, self.type(file, part), embedded) for name, part, embedded in expression[1])
            return (kind, tuple(fields))
        if kind == "iface":
            methods = tuple((name, self.type(file, part)) for name, part in expression[1])
            return (kind, methods, tuple(self.type(file, part) for part in expression[2]))
        return None

    def _starred(self, item: Type) -> Type:
        if item is None:
            return None
        if item[0] == "type":
            return ("type", ("*", item[1]))
        shape = item if item[0] == "*" else self.shape(item)
        return shape[1] if shape is not None and shape[0] == "*" else None

    def _sliced(self, item: Type) -> Type:
        shape = self.shape(item)
        if shape is not None and shape[0] == "*":
            return self.shape(shape[1])
        return item

    def _selected(self, file: str, expression: Expression) -> Type:
        base = self.expression(file, expression[1])
        name = expression[2]
        if base is None:
            return None
        if base[0] == "pkg":
            return self.member_of_package(base[1], name, file)
        if base[0] == "xpkg":
            return ("type", ("X", base[1], name, ())) if name[:1].isupper() else None
        if base[0] == "type":
            found = self.member(base[1], name, file)
            if found is None or found.type is None or found.type[0] != "fn":
                return None
            return ("fn", (base[1], *found.type[1]), *found.type[2:])
        found = self.member(base, name, file)
        return None if found is None else found.type

    def _indexed(self, file: str, expression: Expression) -> Type:
        base = self.expression(file, expression[1])
        if base is None:
            return None
        if base[0] == "type" and base[1] is not None and base[1][0] in ("N", "X"):
            args = tuple(self.type(file, part) for part in expression[2])
            return ("type", (*base[1][:3], args))
        if base[0] == "fn":
            found = self.function(file, expression[1])
            if found is None:
                return base
            path, function = found
            given = [self.type(file, part) for part in expression[2]]
            return substitute(base, dict(zip([(path, param) for param in function.type_params], given, strict=False)))
        shape = self.shape(base)
        if shape is not None and shape[0] == "*":
            shape = self.shape(shape[1])
        if shape is None:
            return None
        element: dict[str, Type] = {"[]": shape[1], "chan": shape[1], "map": shape[-1]}
        if shape[0] in element:
            return element[shape[0]]
        return ("b", "byte") if shape[0] == "b" else None

    # Calls

    def call(self, file: str, number: int) -> Type:
        key = (file, number)
        if key not in self._calls:
            self._calls[key] = None
            self._calls[key] = self._called(file, number)
        return self._calls[key]

    def _called(self, file: str, number: int) -> Type:
        call = self.files[file].calls[number]
        callee = call.callee
        found = self.expression(file, callee)
        if found is None:
            return self._built_in(file, call.callee, call.args)
        if found[0] == "type":
            if found[1] is not None and found[1][0] == "X":
                return self._outside(file, found[1], call.args)
            inner: Type = found[1]
            return inner
        shape = found if found[0] == "fn" else self.shape(found)
        if shape is None or shape[0] != "fn":
            return None
        known: dict[Parameter, Type] = {}
        named = self.function(file, callee)
        if named is not None and named[1].type_params and any(True for _ in shape[2]):
            self._learn(file, shape, call.args, known)
        results = tuple(substitute(part, known) for part in shape[2])
        return results[0] if len(results) == 1 else ("tuple", results)

    def _learn(self, file: str, shape: Any, args: tuple[Expression, ...], known: dict[Parameter, Type]) -> None:
        params = shape[1]
        for position, arg in enumerate(args):
            declared = params[position] if position < len(params) else params[-1] if params else None
            if shape[3] and position >= len(params) - 1 and declared is not None and declared[0] == "[]":
                declared = declared[1]
            given = self.expression(file, arg)
            if given is not None and declared is not None and given[0] == "N" and declared[0] not in ("N", "tp"):
                given = self.shape(given)
            unify(declared, given, known)

    def _built_in(self, file: str, callee: Expression, args: tuple[Expression, ...]) -> Type:
        if callee[0] == "." and callee[2] in _LOADS:
            base = pointed(self.expression(file, callee[1]))
            if base is not None and base[0] == "X" and base[2] == "Pointer" and base[3]:
                return ("*", base[3][0])
        if callee[0] != "n":
            return None
        name = callee[1]
        if name in _RESULTS:
            return ("b", _RESULTS[name])
        if not args:
            return None
        if name == "new":
            return ("*", self.type(file, args[0]))
        if name == "make":
            return self.type(file, args[0])
        if name in ("append", "min", "max"):
            return _value(self.expression(file, args[0]))
        return None

    def _outside(self, file: str, item: Any, args: tuple[Expression, ...]) -> Type:
        """What a function of another package gives, where it depends on its arguments, or a conversion."""
        name = f"{item[1]}.{item[2]}"
        if name in _SAME and args:
            return _value(self.expression(file, args[0]))
        if name in _ELEMENT and args:
            shape = self.shape(self.expression(file, args[0]))
            return shape[1] if shape is not None and shape[0] == "[]" else None
        return None


def _value(item: Type) -> Type:
    return None if item is not None and item[0] in ("type", "pkg", "xpkg") else item
