"""Types of expressions, and the method or type that a call means. Each binding and call is worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb.code.calls.jvm import library
from kb.code.calls.jvm.facts import Binding, Call, Expression, JvmFacts, Written
from kb.code.calls.jvm.functions import Functions
from kb.code.calls.jvm.members import LAMBDA, Arguments, Found, Members, arrange
from kb.code.calls.jvm.names import Place
from kb.code.calls.jvm.types import Known, Type, substitute

DEPTH = 60
_RECEIVED = frozenset(["apply", "run"])
_GIVEN = frozenset(["let", "also", "takeIf", "takeUnless"])
_COLLECTIONS = {
    "listOf": "List",
    "mutableListOf": "MutableList", "setOf": "Set", "listOfNotNull": "List", "arrayListOf": "ArrayList",
    "sequenceOf": "Sequence", "mutableSetOf": "MutableSet",
}  # fmt: skip
_SAME = frozenset(["also", "apply", "takeIf", "takeUnless"])


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


class Inference:
    def __init__(self, files: Mapping[str, JvmFacts]) -> None:
        self.files = files
        self.members = Members(files)
        self.names = self.members.names
        self.functions = Functions(self.members)
        self._depth = 0
        self._bindings: dict[tuple[str, int], Type] = {}
        self._targets: dict[tuple[str, int], Target | None] = {}
        self._results: dict[tuple[str, int], Type] = {}

    # Values

    def binding(self, file: str, number: int) -> Type:
        """The type of a variable."""
        key = (file, number)
        if key not in self._bindings:
            self._bindings[key] = None
            if self._depth < DEPTH:
                self._depth += 1
                self._bindings[key] = self._bound(file, self.files[file].bindings[number])
                self._depth -= 1
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
            return self._returned(found, found.known)
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
        known = self._known(file, call, found, {argument}, target.base)
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
        if self._depth >= DEPTH:
            return None
        self._depth += 1
        try:
            return self._value(file, expression)
        finally:
            self._depth -= 1

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
            return self._returned(method, method.known)
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

    # Calls

    def arguments(self, file: str, call: Call) -> Arguments:
        """The types of the arguments."""
        if call.args is None:
            return Arguments(None)
        types = tuple(None if one == ("?",) else one for one in (self.value(file, arg) for arg in call.args))
        return Arguments(types, call.labels)

    def target(self, file: str, number: int) -> Target | None:
        """What a call means."""
        key = (file, number)
        if key not in self._targets:
            self._targets[key] = None
            if self._depth < DEPTH:
                self._depth += 1
                call = self.files[file].calls[number]
                self._targets[key] = self._target(file, call)
                self._depth -= 1
        return self._targets[key]

    def _target(self, file: str, call: Call) -> Target | None:
        if call.kind == "new":
            return self._made(file, call, self.made(file, call.callee))
        if call.kind in ("this", "super"):
            item = self.this(file, call.callee[1]) if call.kind == "this" else self._special(file, call.callee)
            return self._made(file, call, item)
        return self._called(file, call)

    def made(self, file: str, written: Written) -> Type:
        """The type behind `new`."""
        if written[0] == "in":
            outer = self.members.bound(self.value(file, written[1]))
            if outer is None or outer[0] != "C":
                return None
            place = self.names.member_type((outer[1], outer[2]), written[2])
            args = tuple(self.names.type(file, one) for one in written[3])
            return None if place is None else ("C", *place, args)
        return self.names.type(file, written)

    def _made(self, file: str, call: Call, item: Type) -> Target | None:
        if item is None or item[0] != "C":
            return None
        place: Place = (item[1], item[2])
        found = self._overload(
            self.names.kind(place).methods.get("<init>", ()), place, item, self.arguments(file, call)
        )
        return Target("constructor", found, place, item)

    def _overload(self, methods: Any, place: Place, item: Type, args: Arguments) -> Found | None:
        best: tuple[int, Found] | None = None
        known = self.members.known(item, place)
        for method in methods:
            score = self.members.fit(method, place[0], known, args)
            if score is not None and (best is None or score > best[0]):
                best = (score, Found(method, place, known))
        return None if best is None else best[1]

    def _called(self, file: str, call: Call) -> Target | None:
        callee = call.callee
        is_kotlin = self.files[file].language == "kotlin"
        if callee[0] == "n":
            return self._scoped(file, call, callee) if is_kotlin else self._plain(file, call, callee[1], callee[2])
        if callee[0] == "vn":
            item = self.binding(file, callee[1])
            found = self.members.method(item, "invoke", self.arguments(file, call))
            if found is not None:
                return Target("local" if found.place[0] == file else "return-type", found)
            return (
                self._scoped(file, call, callee[2]) if item is not None and item[0] in ("C", "X", "b", "tp") else None
            )
        if callee[0] != ".":
            return None
        name, args = callee[2], self.arguments(file, call)
        if callee[1][0] == "super":
            return self._super(file, callee[1], name, args)
        base = self.members.bound(self.value(file, callee[1]))
        found = self.members.method(base, name, args)
        if base is None or (found is None and not is_kotlin and base[0] != "K"):
            return None
        if found is not None:
            return Target(self._rule(file, callee[1], base, found), found)
        return self._beside(file, call, base, name, args)

    def _beside(self, file: str, call: Call, base: Type, name: str, args: Arguments) -> Target | None:
        """Behind a dot: members of the companion, types, functions of a package, extensions."""
        assert base is not None
        if base[0] == "K":
            companion = self._companion((base[1], base[2]))
            found = None if companion is None else self.members.method(("C", *companion, ()), name, args)
            if found is not None:
                return Target("local" if found.place[0] == file else "import", found)
            inner = self.names.member_type((base[1], base[2]), name)
            if inner is not None and self.files[file].language == "kotlin":
                return self._made(file, call, ("C", *inner, ()))
            if companion is not None:
                base = ("C", *companion, ())
        if self.files[file].language != "kotlin":
            return None
        if base[0] == "P":
            found = self.functions.of_package(base[1], name, args, file)
            return (
                Target("import", found)
                if found is not None
                else self._made(file, call, self.names.qualified(f"{base[1]}.{name}", file))
            )
        return self._extended(file, call, base, name, args) if base[0] in ("C", "X", "[]", "fn") else None

    def _extended(self, file: str, call: Call, base: Type, name: str, args: Arguments) -> Target | None:
        """An extension that a type around or the file sees."""
        kind = call.around
        while kind >= 0:
            companion = self._companion((file, kind))
            for place in (*self.members.lineage((file, kind)), *(() if companion is None else (companion,))):
                for method in self.names.kind(place).methods.get(name, ()):
                    if method.receiver is not None and self.functions.fit(method, place[0], args, base) is not None:
                        return Target(
                            _owned(place == (file, kind), place[0] == file), Found(method, place, {}), base=base
                        )
            kind = self.files[file].kinds[kind].around
        found = self.functions.function(file, name, args, base)
        if found is not None:
            return Target("local" if found.place[0] == file else "import", found, base=base)
        for one in self.files[file].imports:
            if one.name != name:
                continue
            # An extension that an object or a companion declares.
            outer, _, real = one.path.rpartition(".")
            owner = self.names.qualified(outer, file)
            if owner is not None and owner[0] == "C":
                place = (owner[1], owner[2])
                for method in self.names.kind(place).methods.get(real, ()):
                    if method.receiver is not None and self.functions.fit(method, place[0], args, base) is not None:
                        return Target("import", Found(method, place, {}), base=base)
        return None

    def _scoped(self, file: str, call: Call, callee: Expression) -> Target | None:
        """A plain name in Kotlin: receivers, types around, functions that the file sees, types."""
        _, name, kind, receivers = callee
        args = self.arguments(file, call)
        for receiver in receivers:
            item = self.members.bound(self.value(file, receiver))
            found = self.members.method(item, name, args) if item is not None and item[0] == "C" else None
            if found is not None:
                rule = "interface" if self.names.kind(found.place).kind == "interface" else "return-type"
                return Target("self" if receiver[0] == "as" else rule, found)
            if item is not None and (target := self._extended(file, call, item, name, args)) is not None:
                return target
        target = self._around(file, call, name, kind, args)
        if target is not None:
            return target
        found = self.functions.function(file, name, args)
        if found is not None:
            return Target("local" if found.place[0] == file else "import", found)
        for one in self.names.imports(file, name):
            owner = self.names.qualified(one.path.rpartition(".")[0] if one.name else one.path, file)
            found = self.members.method(owner, one.path.rpartition(".")[2] if one.name else name, args)
            if found is not None:
                return Target("import", found)
        item = self.names.named(file, name, kind)
        return None if item is None or item[0] != "C" else self._made(file, call, item)

    def _around(self, file: str, call: Call, name: str, kind: int, args: Arguments) -> Target | None:
        inner = kind
        while inner >= 0:
            item = self.this(file, inner)
            for place in self.members.lineage((file, inner)):
                companion = self._companion(place)
                own = self.members.method(item, name, args) if place == (file, inner) else None
                found = own or (None if companion is None else self.members.method(("C", *companion, ()), name, args))
                if found is not None:
                    is_own = found.place == (file, inner)
                    inherited = own is not None and not is_own
                    return Target("inherited" if inherited else "self" if inner == kind and is_own else "local", found)
            target = self._extended(file, call, item, name, args)
            if target is not None:
                return target
            inner = self.files[file].kinds[inner].around
        return None

    def _super(self, file: str, base: Expression, name: str, args: Arguments) -> Target | None:
        if base[2] is not None:
            item = self.names.type(file, base[2])
            if item is not None and item[0] == "C" and self.names.kind((item[1], item[2])).kind != "interface":
                found = self.members.method(item, name, args, above=True)
            else:
                found = self.members.method(item, name, args)
        else:
            found = self.members.method(self.this(file, base[1]), name, args, above=True)
        return None if found is None else Target("inherited", found)

    def _plain(self, file: str, call: Call, name: str, kind: int) -> Target | None:
        """A method of the innermost type around that has one of the name, or a static one that is imported."""
        facts = self.files[file]
        args = self.arguments(file, call)
        inner = kind
        while inner >= 0:
            if self.members.has_method((file, inner), name):
                item = self.this(file, inner)
                found = self.members.method(item, name, args)
                if found is None:
                    return None
                rule = (
                    "inherited"
                    if found.place != (file, inner)
                    else "local"
                    if found.method.static or inner != kind
                    else "self"
                )
                return Target(rule, found)
            if name in library.OBJECT:
                return None
            inner = facts.kinds[inner].around
        for one in self.names.imports(file, name):
            if one.static:
                owner = self.names.qualified(one.path.rpartition(".")[0] if one.name else one.path, file)
                found = self.members.method(owner, name, args)
                if found is not None and (found.method.static or self.files[found.place[0]].language == "kotlin"):
                    return Target("import", found)
        return None

    def _rule(self, file: str, base: Expression, item: Type, found: Found) -> str:
        assert item is not None
        if item[0] == "K" or self.names.kind(found.place).kind == "object":
            return (
                "inherited"
                if item[0] == "K" and found.place != (item[1], item[2])
                else "local"
                if found.place[0] == file
                else "import"
            )
        if base[0] == "this":
            return "self" if found.place == (item[1], item[2]) else "inherited"
        if self.names.kind(found.place).kind == "interface":
            return "interface"
        if found.place != (item[1], item[2]):
            return "inherited"
        if base[0] == "v":
            return "annotation" if self.files[file].bindings[base[1]][0] == "is" else "return-type"
        return "attribute-type" if base[0] in ("n", ".") else "annotation" if base[0] == "as" else "return-type"

    # Results

    def result(self, file: str, number: int) -> Type:
        """The type that a call gives."""
        key = (file, number)
        if key not in self._results:
            self._results[key] = None
            if self._depth < DEPTH:
                self._depth += 1
                self._results[key] = self._result(file, number)
                self._depth -= 1
        return self._results[key]

    def _result(self, file: str, number: int) -> Type:
        call = self.files[file].calls[number]
        target = self.target(file, number)
        if target is None:
            return self._library(file, call)
        if target.made is not None:
            return self._made_type(file, call, target)
        found = target.found
        if found is None:
            return None
        return self._returned(found, self._known(file, call, found, set(), target.base))

    def _returned(self, found: Found, known: Known) -> Type:
        """What a method gives."""
        written = found.method.result
        file = found.place[0]
        return substitute(self.value(file, written[1]) if written[0] == "=" else self.names.type(file, written), known)

    def _made_type(self, file: str, call: Call, target: Target) -> Type:
        """With the type arguments that `<>` leaves out, by the arguments of the constructor."""
        made = target.made
        if made is None or made[3] or target.place is None or target.found is None:
            return made
        params = self.names.kind(target.place).type_params
        if not params:
            return made
        known = self._known(file, call, Found(target.found.method, target.place, {}), set())
        return (*made[:3], tuple(known.get((target.place[0], param)) for param in params))

    def _known(self, file: str, call: Call, found: Found, without: set[int], base: Type = None) -> Known:
        """Type parameters of the method from its arguments; `without` are arguments that are not looked at."""
        known = dict(found.known)
        method = found.method
        own = set(method.type_params)
        if base is not None and method.receiver is not None:
            self.members.learn(self.names.type(found.place[0], method.receiver), base, known)
        if call.args is None or not method.params or not (own or method.name == "<init>"):
            return known
        later: list[tuple[Type, Expression]] = []
        places = arrange(method, len(call.args), call.labels)
        if places is None:
            return known
        for position, arg in enumerate(call.args):
            if position in without:
                continue
            declared = self.names.type(found.place[0], method.params[places[position]])
            if arg[0] in ("lam", "ref"):
                later.append((declared, arg))
                continue
            given = self.value(file, arg)
            if given is not None and given[0] == "b":
                given = ("X", given[1], ())
            if given is not None and given[0] not in ("K", "KX", "P", "?"):
                self.members.learn(declared, given, known)
        if not without:
            for declared, arg in later:
                shape = self.members.shape(declared)
                if shape is not None and shape[1] is not None:
                    self.members.learn(shape[1], self._lambda_result(file, arg), known)
        return known

    def _lambda_result(self, file: str, arg: Expression) -> Type:
        if arg[0] == "ref":
            return self.result(file, arg[1])
        if arg[0] != "lam":
            return None
        found = self.value(file, arg[2]) if arg[2] is not None else None
        return found if found is None or found[0] not in ("K", "KX", "P", "?", "b", "null") else None

    def _standard(self, file: str, call: Call) -> Type:
        """A function of Kotlin's library, or a constructor of elsewhere."""
        name, args = call.callee[1], call.args or ()
        if name in ("with", "run", "synchronized") and args:
            return self._lambda_result(file, args[-1])
        if name in _COLLECTIONS:
            return ("X", _COLLECTIONS[name], (self.value(file, args[0]) if args else None,))
        item = self.names.named(file, name, call.callee[2])
        return item if item is not None and item[0] == "X" else None

    def _library(self, file: str, call: Call) -> Type:
        callee = call.callee
        if call.kind == "new":
            return self.made(file, callee)
        args = call.args or ()
        if callee[0] == "n" and self.files[file].language == "kotlin":
            return self._standard(file, call)
        if callee[0] == "n" and args and callee[1].startswith("requireNonNull"):
            return self.value(file, args[0])
        if callee[0] != ".":
            return None
        base = self.members.bound(self.value(file, callee[1]))
        if base is None:
            return None
        if self.files[file].language == "kotlin":
            if callee[2] in _SAME:
                return base
            if callee[2] in ("let", "run", "use") and args:
                return self._lambda_result(file, args[-1])
        elif callee[2].startswith("get") and base[0] == "C":
            return self._field(base, (base[1], base[2]), f"{callee[2][3:4].lower()}{callee[2][4:]}")
        first = self.value(file, args[0]) if args and args[0][0] not in ("lam", "ref") else None
        if base[0] == "KX":
            return library.factory(base[1], callee[2], first)
        if callee[2] == "getClass":
            return ("X", "Class", (base,))
        mapped = self._lambda_result(file, args[0]) if args and args[0][0] in ("lam", "ref") else None
        return library.method(self._external(base), callee[2], mapped)


def _owned(is_own: bool, is_here: bool) -> str:
    """The rule for a member of a type around, or of its companion."""
    return "self" if is_own else "local" if is_here else "inherited"
