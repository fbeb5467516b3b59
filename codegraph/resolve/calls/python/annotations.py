"""What annotations say: the types of the values that they allow."""

from __future__ import annotations

from codegraph.resolve.calls.python import known
from codegraph.resolve.calls.python.facts import Expression
from codegraph.resolve.calls.python.names import Names
from codegraph.resolve.calls.python.types import SELF, Type, Types, argument, instance, substitute, unify, union


class Annotations(Names):
    def annotation(self, file: str, expression: Expression | None) -> Types:
        if expression is None or self.depth > 60:
            return ()
        self.depth += 1
        try:
            return self._annotation(file, expression)
        finally:
            self.depth -= 1

    def _annotation(self, file: str, expression: Expression) -> Types:
        kind = expression[0]
        if kind == "or":
            return union(self.annotation(file, part) for part in expression[1])
        if kind == "op":
            return union([self.annotation(file, expression[1]), self.annotation(file, expression[2])])
        if kind == "s":
            return self._generic(file, expression)
        if kind == "k":
            if expression[1] == "str" and len(expression) == 3 and expression[2].isidentifier():
                return self.annotation(file, ("n", 0, expression[2]))
            return ()
        return union(self._instances(file, item, expression) for item in self.expression(file, expression))

    def _instances(self, file: str, item: Type, expression: Expression) -> Types:
        kind = item[0]
        if kind == "K":
            return (("I", item[1], item[2], ()),)
        if kind == "A":
            return self.annotation(item[1], item[2])
        if kind == "T":
            return (item,)
        if kind == "x":
            name = item[1].rpartition(".")[2]
            if name == "Self":
                return self._self(file, expression)
            if name in ("Any", "None", "NoReturn", "Never", "object"):
                return ()
            return instance(known.SAME.get(name, name))
        return ()

    def _self(self, file: str, expression: Expression) -> Types:
        scope = expression[1] if expression[0] == "n" else 0
        if scope and self.files[file].scopes[scope].kind == "class":
            return (("I", file, scope, SELF),)
        own = self.own_class(file, scope) if scope else None
        return (("I", *own, SELF),) if own is not None else ()

    def _generic(self, file: str, expression: Expression) -> Types:
        index = expression[2]
        arguments: tuple[Expression, ...] = index[2] if index[:2] == ("L", "tuple") else (index,)
        parts: list[Types] = []
        for item in self.expression(file, expression[1]):
            if item[0] == "K":
                args = tuple(self.annotation(file, part) for part in arguments)
                parts.append((("I", item[1], item[2], args),))
            elif item[0] == "x":
                parts.append(self._outside(file, item[1].rpartition(".")[2], arguments))
            elif item[0] == "A":
                parts.append(self.annotation(item[1], item[2]))
        return union(parts)

    def _outside(self, file: str, name: str, arguments: tuple[Expression, ...]) -> Types:
        if name in ("Union", "Optional"):
            return union(self.annotation(file, part) for part in arguments)
        if name in known.WRAPPERS:
            return self.annotation(file, arguments[0]) if arguments else ()
        if name in ("Type", "type"):
            return union(_class_of(item) for part in arguments for item in self.annotation(file, part))
        if name in ("Callable", "AsyncCallable"):
            return (("R", self.annotation(file, arguments[-1])),)
        if name == "Literal":
            return ()
        args = tuple(self.annotation(file, part) for part in arguments)
        return (("b", known.SAME.get(name, name), args),)

    def elements(self, types: Types, is_async: bool = False) -> Types:
        """What iteration over a value gives."""
        return union(self._elements(item, is_async) for item in types)

    def _elements(self, item: Type, is_async: bool) -> Types:
        if item[0] == "b":
            if item[1] == "tuple":
                return union(item[2])
            return argument(item, 0) if item[1] in known.ELEMENTS or len(item[2]) == 1 else ()
        if item[0] == "I":
            name = "__aiter__" if is_async else "__iter__"
            found = self.method_result(item, name)
            following = "__anext__" if is_async else "__next__"
            parts = [
                self.awaited(self.method_result(inner, following)) if is_async else self.method_result(inner, following)
                for inner in found
                if inner[0] == "I"
            ]
            parts.append(self.elements(tuple(inner for inner in found if inner[0] == "b"), is_async))
            if not found:
                parts.append(self.method_result(item, "__getitem__") or self._outside_base(item))
            return union(parts)
        if item[0] == "K" and self.is_enum(item[1], item[2]):
            return (("I", item[1], item[2], ()),)
        return ()

    def _outside_base(self, item: Type) -> Types:
        """Elements of a class that extends a collection from outside of the project, as `class A(list[B])`."""
        for path, number, _ in self.ancestors(item[1], item[2]):
            for base in self.files[path].scopes[number].bases:
                for found in self.annotation(path, base):
                    if found[0] == "b" and found[2]:
                        return self.elements((found,))
        return ()

    def awaited(self, types: Types) -> Types:
        """What `await` gives; a value that is no awaitable of a known kind is passed through."""
        parts: list[Types] = []
        for item in types:
            if item[0] == "b" and item[1] in known.AWAITED:
                parts.append(argument(item, -1) if item[1] != "Generator" else argument(item, 2))
            elif item[0] == "I" and self.member(item, "__await__")[1] is not None:
                parts.append(self.awaited(self.method_result(item, "__await__")))
        return union(parts)

    def entered(self, types: Types, is_async: bool = False) -> Types:
        """What `with` binds."""
        parts: list[Types] = []
        for item in types:
            if item[0] == "b":
                parts.append(argument(item, 0) if item[1] in known.MANAGERS else ())
            elif item[0] == "I":
                name = "__aenter__" if is_async else "__enter__"
                if self.member(item, name)[1] is None:
                    parts.append((item,))
                else:
                    found = self.method_result(item, name)
                    parts.append(self.awaited(found) if is_async else found)
        return union(parts)

    def method_result(self, item: Type, name: str) -> Types:
        """What a method of an instance gives when it is called without arguments that matter."""
        found, _ = self.member(item, name)
        return union(self.of_receiver(method, item) for method in found if method[0] in ("M", "F"))

    def of_receiver(self, method: Type, receiver: Type) -> Types:
        """The result of a method with `self`, and a type variable that stands for it, replaced by the receiver."""
        result = self.to_self(self.result(method[1], method[2]), receiver)
        params = self.scope(method).params
        known_args: dict[str, Types] = {}
        if params and params[0].annotation is not None:
            unify(self.annotation(method[1], params[0].annotation), (receiver,), known_args)
        if receiver[0] == "I" and receiver[3] not in ((), SELF):
            known_args.update(zip(self.type_names(receiver[1], receiver[2]), receiver[3], strict=False))
        return substitute(result, known_args)


def _class_of(item: Type) -> Types:
    if item[0] == "I":
        return (("K", *item[1:3], SELF),) if item[3] == SELF else (("K", *item[1:3]),)
    return (("Y", item),) if item[0] == "T" else ()
