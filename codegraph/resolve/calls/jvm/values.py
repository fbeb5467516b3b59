"""Types of expressions and variables. What a call means and gives is said by `infer`."""

from __future__ import annotations

from collections.abc import Mapping

from codegraph.resolve.calls.jvm import library
from codegraph.resolve.calls.jvm.facts import Binding, Call, Expression, JvmFacts
from codegraph.resolve.calls.jvm.functions import Functions
from codegraph.resolve.calls.jvm.members import LAMBDA, Arguments, Found, Members, arrange
from codegraph.resolve.calls.jvm.names import Place
from codegraph.resolve.calls.jvm.types import Known, Type, substitute

DEPTH = 100
"""Steps from one expression to another; about 400 frames of the interpreter."""
_RECEIVED = frozenset(["apply", "run"])
_GIVEN = frozenset(["let", "also", "takeIf", "takeUnless"])


class Target:
    """What a call means: a method (`found`) or a type that is made (`place`), by a rule."""

    __slots__ = ("base", "found", "made", "place", "rule")

    def __init__(
        self, rule: str, found: Found | None = None, place: Place | None = None, made: Type = None, base: Type = None
    ) -> None:
        """`base` is what an extension is called on."""
        self.rule = rule
        self.base = base
        self.found = found
        self.place = place
        self.made = made


class Values:
    """Each binding is worked out once."""

    def __init__(self, files: Mapping[str, JvmFacts]) -> None:
        """`files` are the facts by path."""
        self.files = files
        self.members = Members(files)
        self.names = self.members.names
        self.functions = Functions(self.members)
        self.depth = 0
        self._bindings: dict[tuple[str, int], Type] = {}

    def target(self, file: str, number: int) -> Target | None:
        """What a call means."""
        raise NotImplementedError

    def result(self, file: str, number: int) -> Type:
        """The type that a call gives."""
        raise NotImplementedError

    def returned(self, found: Found, known: Known) -> Type:
        """What a method gives."""
        raise NotImplementedError

    def known(self, file: str, call: Call, found: Found, without: set[int], base: Type = None) -> Known:
        """Type parameters of a method from its arguments; `without` are arguments that are not looked at."""
        raise NotImplementedError

    # Values

    def binding(self, file: str, number: int) -> Type:
        """The type of a variable."""
        key = (file, number)
        if key not in self._bindings:
            self._bindings[key] = None
            if self.depth < DEPTH:
                self.depth += 1
                self._bindings[key] = self._bound(file, self.files[file].bindings[number])
                self.depth -= 1
        return self._bindings[key]

    def _bound(self, file: str, binding: Binding) -> Type:
        tag = binding[0]
        if tag == "is":
            return self.names.type(file, binding[1])
        if tag == "=":
            return self.value(file, binding[1])
        if tag == "each":
            return self.element(self.value(file, binding[1]))
        if tag == "of":
            return self._parameter(self.names.type(file, binding[1]), binding[2])
        if tag == "into":
            return self._parameter(self.value(file, binding[1]), binding[2])
        if tag == "lam":
            return self._given(file, *binding[1:])
        if tag == "recv":
            return self._received(file, *binding[1:])
        if tag == "part":
            return self._part(self.members.bound(self.value(file, binding[1])), binding[2])
        return None

    def _part(self, item: Type, position: int) -> Type:
        """A component of an object that is taken apart."""
        if item is None or item[0] not in ("C", "X"):
            return None
        if item[0] == "X":
            return (
                item[2][position] if len(item[2]) > position > 0 or len(item[2]) == 2 > position else self.element(item)
            )
        place: Place = (item[1], item[2])
        found = self.members.method(item, f"component{position + 1}", Arguments(()))
        if found is not None:
            return self.returned(found, found.known)
        for method in self.names.kind(place).methods.get("<init>", ()):
            if position < len(method.names):
                return self._field(item, place, method.names[position])
        return None

    def _received(self, file: str, number: int, argument: int) -> Type:
        """The implicit receiver of a lambda, from the function that it is an argument of."""
        call = self.files[file].calls[number]
        target = self.target(file, number)
        if target is None:
            if call.callee[0] == "." and call.callee[2] in _RECEIVED:
                return self.members.bound(self.value(file, call.callee[1]))
            if call.callee[0] == "n" and call.callee[1] == "with" and argument == 1 and call.args:
                return self.members.bound(self.value(file, call.args[0]))
            return None
        declared = self._declared(file, call, target, argument)
        return self.members.bound(declared[3]) if declared is not None and declared[0] == "fn" else None

    def _declared(self, file: str, call: Call, target: Target, argument: int) -> Type:
        """The type of the parameter that takes an argument."""
        found = target.found
        if found is None or not found.method.params:
            return None
        places = arrange(found.method, len(call.args or ()), call.labels)
        if places is None:
            return None
        known = self.known(file, call, found, {argument}, target.base)
        return substitute(self.names.type(found.place[0], found.method.params[places[argument]]), known)

    def _parameter(self, item: Type, position: int) -> Type:
        shape = self.members.shape(item)
        return shape[0][position] if shape is not None and position < len(shape[0]) else None

    def _given(self, file: str, number: int, argument: int, position: int) -> Type:
        """A parameter of a lambda, from the method that it is an argument of."""
        call = self.files[file].calls[number]
        target = self.target(file, number)
        if target is None:
            if call.kind == "call" and call.callee[0] == ".":
                base = self.members.bound(self.value(file, call.callee[1]))
                if call.callee[2] in _GIVEN and self.files[file].language == "kotlin":
                    return base
                return library.given(self._external(base), call.callee[2], position)
            return None
        return self.members.bound(self._parameter(self._declared(file, call, target, argument), position))

    def element(self, item: Type) -> Type:
        """What iteration gives."""
        item = self.members.bound(item)
        if item is not None and item[0] == "C":
            return library.element(self._external(item))
        return library.element(item)

    def _external(self, item: Type) -> Type:
        """The type of elsewhere that a type of the project inherits from and that has type arguments."""
        if item is None or item[0] != "C":
            return item
        for place in self.members.lineage((item[1], item[2])):
            for base in self.names.bases(place):
                if base is not None and base[0] == "X" and base[2]:
                    return substitute(base, self.members.known(item, place))
        return None

    def value(self, file: str, expression: Expression) -> Type:
        """The type of an expression; ("K", ...), ("KX", ...) or ("P", ...) where it is a type or package."""
        if self.depth >= DEPTH:
            return None
        self.depth += 1
        try:
            return self._value(file, expression)
        finally:
            self.depth -= 1

    def _value(self, file: str, expression: Expression) -> Type:
        tag = expression[0]
        if tag == "v":
            return self.binding(file, expression[1])
        if tag == "c":
            return self.result(file, expression[1])
        if tag == "n":
            return self.name(file, expression[1], expression[2], expression[3])
        if tag == ".":
            return self.member(file, self.value(file, expression[1]), expression[2])
        if tag == "this":
            return self.this(file, expression[1])
        if tag == "as":
            return self.names.type(file, expression[1])
        if tag == "ix":
            return self._indexed(self.value(file, expression[1]))
        if tag == "or":
            return self._first(file, expression[1])
        if tag == "k":
            name = expression[1]
            return ("X", "String", ()) if name == "String" else ("null",) if name == "null" else ("b", name)
        if tag == "plus":
            sides = [self.value(file, one) for one in expression[1:]]
            return next((one for one in sides if one == ("X", "String", ())), sides[0])
        return self._special(file, expression)

    def _special(self, file: str, expression: Expression) -> Type:
        tag = expression[0]
        if tag == "super" and expression[1] >= 0:
            bases = self.names.bases((file, expression[1]))
            return bases[0] if bases else None
        if tag == "lam":
            return (LAMBDA, len(expression[1]))
        if tag == "ref":
            return (LAMBDA, -1)
        return None

    def _first(self, file: str, expressions: tuple[Expression, ...]) -> Type:
        for one in expressions:
            found = self.value(file, one)
            if found is not None and found[0] != "null":
                return found
        return None

    def _indexed(self, base: Type) -> Type:
        base = self.members.bound(base)
        if base is not None and base[0] == "X" and len(base[2]) > 1:
            return library.method(base, "get", None)
        return self.element(base)

    def this(self, file: str, kind: int) -> Type:
        """The object inside of a type: its parameters stand for themselves."""
        if kind < 0:
            return None
        params = self.files[file].kinds[kind].type_params
        return ("C", file, kind, tuple(("tp", file, param) for param in params))

    def name(self, file: str, name: str, kind: int, receivers: tuple[Expression, ...] = ()) -> Type:
        """A name that is no local variable."""
        facts = self.files[file]
        inner = kind
        for receiver in receivers:
            item = self.members.bound(self.value(file, receiver))
            found = self._property(file, item, name) if item is not None and item[0] == "C" else None
            if found is not None:
                return found
        while inner >= 0:
            found = self._field(self.this(file, inner), (file, inner), name)
            if found is not None:
                return found
            inner = facts.kinds[inner].around
        found = self.top(file, name) or self._static(file, name)
        if found is not None:
            return found
        item = self.names.named(file, name, kind)
        if item is not None:
            return self.denoted(item)
        found = self.names.qualified(name, file)
        return found if found is not None and found[0] == "P" else ("P", name) if name[:1].islower() else None

    def top(self, file: str, name: str) -> Type:
        """A property that Kotlin declares outside of types."""
        found = self.functions.property(file, name) if self.files[file].language == "kotlin" else None
        return None if found is None else self.binding(*found) or ("?",)

    def denoted(self, item: Type) -> Type:
        """The type itself in place of one of its objects; an object of Kotlin is both."""
        if item is not None and item[0] == "C":
            if self.names.kind((item[1], item[2])).kind == "object":
                return item
            return ("K", item[1], item[2])
        return ("KX", item[1]) if item is not None and item[0] == "X" else item

    def _static(self, file: str, name: str) -> Type:
        for one in self.names.imports(file, name):
            if one.static:
                owner = self.names.qualified(one.path.rpartition(".")[0] if one.name else one.path, file)
                if owner is not None and owner[0] == "C":
                    found = self._field(owner, (owner[1], owner[2]), name)
                    if found is not None:
                        return found
        return None

    def _field(self, item: Type, place: Place, name: str) -> Type:
        found = self.members.member(place, name)
        if found is None:
            companion = self._companion(place)
            return None if companion is None else self._field(("C", *companion, ()), companion, name)
        owner, number = found
        return substitute(self.binding(owner[0], number), self.members.known(item, owner)) or ("?",)

    def _companion(self, place: Place) -> Place | None:
        number = self.names.kind(place).companion
        return None if number < 0 else (place[0], number)

    def _property(self, file: str, item: Type, name: str) -> Type:
        """A field or property of an object; for Kotlin also what a getter of Java or an extension gives."""
        if item is None or item[0] not in ("C", "K"):
            return None
        place: Place = (item[1], item[2])
        found = self._field(item if item[0] == "C" else ("C", *place, ()), place, name)
        if found is not None or self.files[file].language != "kotlin":
            return found
        getter = name if name.startswith("is") else f"get{name[:1].upper()}{name[1:]}"
        method = self.members.method(item, getter, Arguments(()))
        if method is not None:
            return self.returned(method, method.known)
        extension = self.functions.extension(file, name, item)
        return None if extension is None else self.binding(*extension)

    def member(self, file: str, base: Type, name: str) -> Type:
        """A field, type or package behind a dot."""
        base = self.members.bound(base)
        if base is None:
            return None
        if base[0] in ("C", "K"):
            place = (base[1], base[2])
            found = self._property(file, base, name)
            if found is not None:
                return found
            inner = self.names.member_type(place, name)
            if inner is None and name == "INSTANCE" and self.names.kind(place).kind == "object":
                return ("C", *place, ())
            return None if inner is None else self.denoted(("C", *inner, ()))
        if base[0] == "P":
            found = self.names.qualified(f"{base[1]}.{name}", file)
            if found is not None:
                return self.denoted(found)
            return ("KX", name) if name[:1].isupper() else ("P", f"{base[1]}.{name}")
        if base[0] == "KX":
            return ("KX", name) if name[:1].isupper() and not name.isupper() else None
        return ("b", "int") if base[0] == "[]" and name == "length" else None
