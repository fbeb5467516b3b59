"""Types of expressions, and the method or type that a call means. Each binding and call is worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegraph.resolve.calls.jvm import library
from codegraph.resolve.calls.jvm.facts import Call, Expression, JvmFacts, Written
from codegraph.resolve.calls.jvm.members import Arguments, Found, arrange
from codegraph.resolve.calls.jvm.names import Place
from codegraph.resolve.calls.jvm.types import Known, Type, substitute
from codegraph.resolve.calls.jvm.values import DEPTH, Target, Values

_COLLECTIONS = {
    "listOf": "List",
    "mutableListOf": "MutableList", "setOf": "Set", "listOfNotNull": "List", "arrayListOf": "ArrayList",
    "sequenceOf": "Sequence", "mutableSetOf": "MutableSet",
}  # fmt: skip
_SAME = frozenset(["also", "apply", "takeIf", "takeUnless"])


class Inference(Values):
    """Each call is worked out once."""

    def __init__(self, files: Mapping[str, JvmFacts]) -> None:
        """`files` are the facts by path."""
        super().__init__(files)
        self._targets: dict[tuple[str, int], Target | None] = {}
        self._results: dict[tuple[str, int], Type] = {}

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
            if self.depth < DEPTH:
                self.depth += 1
                call = self.files[file].calls[number]
                self._targets[key] = self._target(file, call)
                self.depth -= 1
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
            if self.depth < DEPTH:
                self.depth += 1
                self._results[key] = self._result(file, number)
                self.depth -= 1
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
        return self.returned(found, self.known(file, call, found, set(), target.base))

    def returned(self, found: Found, known: Known) -> Type:
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
        known = self.known(file, call, Found(target.found.method, target.place, {}), set())
        return (*made[:3], tuple(known.get((target.place[0], param)) for param in params))

    def known(self, file: str, call: Call, found: Found, without: set[int], base: Type = None) -> Known:
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
