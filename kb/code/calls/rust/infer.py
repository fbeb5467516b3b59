"""Types of expressions, and the function that a call means. Each binding and each call is worked out once."""

from __future__ import annotations

from collections.abc import Mapping

from kb.code.calls.rust import library
from kb.code.calls.rust.crates import Crates
from kb.code.calls.rust.declared import Declared, named
from kb.code.calls.rust.facts import Binding, Call, Expression, RustFacts, Written
from kb.code.calls.rust.members import Members, Method, Outside
from kb.code.calls.rust.paths import Paths, Target
from kb.code.calls.rust.types import Known, Type, external, merge, substitute, unify

_DEEP = 90
_STEPS = 8
STRING = external("String")


class Inference:
    def __init__(self, files: Mapping[str, RustFacts], configuration: Mapping[str, bytes]) -> None:
        self.files = files
        self.declared = Declared(files, Crates(files, configuration))
        self.members = Members(self.declared)
        self.paths = Paths(files, self.declared, self.members)
        self._depth = 0
        self._bindings: dict[tuple[str, int], Type] = {}
        self._targets: dict[tuple[str, int], Target | None] = {}
        self._calls: dict[tuple[str, int], Type] = {}
        self._partial: dict[tuple[str, int], Known] = {}

    # Names

    def binding(self, file: str, number: int) -> Type:
        place = (file, number)
        if place not in self._bindings:
            self._bindings[place] = None
            own = self.files[file].bindings[number]
            found = self._bindings[place] = self._stepped(file, own)
            for name, args in own.hints:
                if is_whole(found):
                    break
                found = self._bindings[place] = merge(found, self._hinted(file, found, name, args))
        return self._bindings[place]

    def _stepped(self, file: str, own: Binding) -> Type:
        found = self._source(file, own.source)
        for step in own.steps:
            found = self._step(file, found, step)
        return found

    def _source(self, file: str, source: Expression) -> Type:
        kind = source[0]
        if kind in ("is", "self"):
            return self.declared.type(file, source[1], source[2])
        if kind == "=":
            return self.expression(file, source[1])
        if kind == "said":
            found = self.declared.type(file, source[1], source[2])
            return found if is_whole(found) else merge(found, self.expression(file, source[3]))
        if kind == "each":
            return self.declared.item(self.expression(file, source[1]), file, -1)
        return self._given(file, *source[1:]) if kind == "given" else None

    def _hinted(self, file: str, found: Type, name: str, args: tuple[Expression, ...]) -> Type:
        """What later uses of a variable say about its type."""
        if name == "=":
            return self.expression(file, args[0])
        if name == "given":
            return self._taken(file, args[0][1], int(args[1][1]))
        if found is None or found[0] != "X":
            return None
        return external(found[1], *(self.expression(file, one) for one in args))

    def _taken(self, file: str, number: int, argument: int) -> Type:
        """The type that a function declares for an argument."""
        target = self.target(file, number)
        if target is None or target.method is None:
            return None
        method = target.method
        own = self.files[method.file].functions[method.function]
        params, _ = self.declared.signature(method.file, method.function)
        at = argument - (own.self_type is not None and not target.is_method)
        return substitute(params[at], method.known, self.declared.project) if 0 <= at < len(params) else None

    def _step(self, file: str, item: Type, step: Expression) -> Type:
        """A part of a value, as a pattern takes it apart."""
        while item is not None and item[0] == "X" and item[1] in library.POINTERS:
            item = self.declared.dereferenced(item, file, -1)
        if item is None:
            return None
        if step[0] == "item":
            inside = item[1] if item[0] == "tuple" else ()
            return inside[step[1]] if -len(inside) <= step[1] < len(inside) else None
        if step[0] == "slice":
            return self.declared.item(item, file, -1)
        if step[0] == "rest":
            return ("[]", self.declared.item(item, file, -1))
        return self._part(file, item, *step[1:])

    def _part(self, file: str, item: Type, context: int, path: Written, name: str | int) -> Type:
        assert item is not None
        last = path[1][-1][0] if path[0] == "path" else ""
        if item[0] == "X":
            place = {"Some": 0, "Ok": 0, "Err": 1, "Ready": 0, "Break": 0, "Continue": 1}.get(last)
            return item[2][place] if place is not None and place < len(item[2]) else None
        if item[0] != "D":
            return None
        variants = self.files[item[1]].data[item[2]].variants
        fields = variants.get(last) or variants.get("", {})
        if isinstance(name, int):
            name = str(name if name >= 0 else len(fields) + name)
        return self._field_of(item, fields, name)

    def _field_of(self, item: Type, fields: dict[str, Written], name: str) -> Type:
        assert item is not None
        if name not in fields:
            return None
        own = self.files[item[1]].data[item[2]]
        known: Known = dict(zip(self.declared.parameters(item[1], "data", item[2]), item[3], strict=False))
        return substitute(self.declared.type(item[1], own.context, fields[name]), known, self.declared.project)

    # Expressions

    def expression(self, file: str, item: Expression) -> Type:
        """The type of an expression, none if unknown."""
        if self._depth > _DEEP:
            return None
        self._depth += 1
        try:
            return self._typed(file, item)
        finally:
            self._depth -= 1

    def _typed(self, file: str, item: Expression) -> Type:
        match item[0]:
            case "v":
                return self.binding(file, item[1])
            case "c":
                return self.call(file, item[1])
            case "n":
                return self.paths.value(self.paths.target(file, item[1], item[2]))
            case ".":
                return self.field(file, self.expression(file, item[1]), item[2])
            case "k":
                return STRING if item[1] == "String" else ("b", item[1])
            case "is":
                return self.declared.type(file, item[1], item[2])
            case "lit":
                return self._literal(file, *item[1:])
            case "try":
                return self._tried(self.expression(file, item[1]))
            case "await":
                return self._awaited(file, self.expression(file, item[1]))
            case "async":
                return external("Future", self.expression(file, item[1]))
            case "*":
                inner = self.expression(file, item[1])
                if inner is not None and inner[0] == "ptr":
                    pointed: Type = inner[1]
                    return pointed
                return self.declared.dereferenced(inner, file, -1) or inner
            case "ix":
                return self._indexed(file, self.expression(file, item[1]), item[2])
            case "op":
                return self._operated(self.expression(file, item[1]))
            case "tuple":
                return ("tuple", tuple(self.expression(file, one) for one in item[1]))
            case "[]" | "vec":
                found: Type = None
                for one in item[1]:
                    found = merge(found, self.expression(file, one))
                return ("[]", found) if item[0] == "[]" else external("Vec", found)
            case "range":
                return external("Iter", self.expression(file, item[1][0]) if item[1] else None)
            case "any":
                found = None
                for one in item[1]:
                    found = merge(found, self.expression(file, one))
                    if is_whole(found):
                        break
                return found
            case "closure":
                params = tuple(self._source(file, one) for one in item[1])
                return ("fn", params, self.expression(file, item[2]))
            case "never":
                return ("never",)
        return None

    def _tried(self, item: Type) -> Type:
        return (
            item[2][0] if item is not None and item[0] == "X" and item[2] and item[1] in ("Option", "Result") else None
        )

    def _awaited(self, file: str, item: Type) -> Type:
        for _ in range(4):
            if item is None:
                return None
            if item[:2] == ("X", "Future"):
                return item[2][0] if item[2] else None
            if item[0] == "D":
                for name in ("Future", "IntoFuture"):
                    found = self.declared.project(item, "Output", trait=name)
                    if found is not None:
                        return found
                return None
            for bound in self.declared.bounds(item, file, -1):
                if bound[2]:
                    return bound[2][0][1]
            item = self.declared.dereferenced(item, file, -1)
        return None

    def _indexed(self, file: str, item: Type, index: Expression) -> Type:
        for _ in range(_STEPS):
            if item is None:
                return None
            if item[0] == "X" and item[1] in ("HashMap", "BTreeMap", "IndexMap"):
                return item[2][1] if len(item[2]) > 1 else None
            if item[0] == "[]" or (item[0] == "X" and item[1] in ("Vec", "VecDeque")):
                inside = self.declared.item(item, file, -1)
                return ("[]", inside) if index[0] == "range" else inside
            if item[0] == "D" and (found := self.declared.project(item, "Output", trait="Index")) is not None:
                return found
            if item == ("b", "str"):
                return item
            item = self.declared.dereferenced(item, file, -1)
        return None

    def _operated(self, item: Type) -> Type:
        if item is None or item[0] != "D":
            return item if item is not None and (item[0] == "b" or item == STRING) else None
        return self.declared.project(item, "Output")

    def _literal(self, file: str, context: int, written: Written, fields: tuple[tuple[str, Expression], ...]) -> Type:
        item = self.declared.type(file, context, written)
        if item is None or item[0] != "D" or is_whole(item):
            return item
        own = self.files[item[1]].data[item[2]]
        name = written[1][-1][0] if written[0] == "path" else ""
        declared = own.variants.get(name) or own.variants.get("", {})
        known: Known = {}
        for one, value in fields:
            if one in declared:
                unify(self.declared.type(item[1], own.context, declared[one]), self.expression(file, value), known)
        args = tuple(known.get(one) for one in self.declared.parameters(item[1], "data", item[2]))
        return merge(item, (*item[:3], args))

    def field(self, file: str, item: Type, name: str) -> Type:
        """The type of a field, through dereferences."""
        for _ in range(_STEPS):
            if item is None:
                return None
            if item[0] == "tuple" and name.isdigit():
                return item[1][int(name)] if int(name) < len(item[1]) else None
            if item[0] == "D":
                fields = self.files[item[1]].data[item[2]].variants.get("", {})
                if name in fields:
                    return self._field_of(item, fields, name)
            item = self.declared.dereferenced(item, file, -1)
        return None

    # Calls

    def target(self, file: str, number: int) -> Target | None:
        """What a call site calls."""
        place = (file, number)
        if place not in self._targets:
            self._targets[place] = None
            self._targets[place] = self._target(file, self.files[file].calls[number])
        return self._targets[place]

    def _target(self, file: str, call: Call) -> Target | None:
        callee = call.callee
        if callee[0] == "m":
            _, base, name, context, written = callee
            item = self.expression(file, base)
            found = self.members.method(item, name, file, context)
            given = tuple(self.declared.type(file, context, one) for one in written)
            if isinstance(found, Method):
                return Target(method=found, is_method=True, given=given)
            if isinstance(found, Outside):
                return Target(outside=found, is_method=True, given=given)
            return None
        if callee[0] == "n":
            target = self.paths.target(file, callee[1], callee[2])
            if target is not None and target.method is not None and target.method.how == "trait":
                return self._dispatched(file, callee[1], target.method, call)
            if target is not None and target.path and call.args and target.result is not None:
                method = self._overridden(target.result[1], call.text, self.expression(file, call.args[0]))
                return Target(method=method) if method is not None else target
            return target
        return Target(value=self.expression(file, callee))

    def _dispatched(self, file: str, context: int, method: Method, call: Call) -> Target:
        """`Trait::method(x)`: that of the type of x, if it is known."""
        own = self.files[method.file].functions[method.function]
        trait = ("trait", method.file, self.declared.context(method.file, own.context).owner[1])
        item = self.expression(file, call.args[0]) if call.args and own.self_type is not None else None
        if item is not None:
            found = self.members.of_trait(item, trait, own.name, file, context)
            if found is not None:
                return Target(method=found)
        return Target(method=method)

    def _overridden(self, trait: str, name: str, item: Type) -> Method | None:
        """The function of the project that `Trait::name(x)` calls, for a trait from outside."""
        found = [
            Method(one.file, one.impl.functions[name], known, item, "impl")
            for one, known in (self.declared.of(item) if item is not None and item[0] == "D" else ())
            if named(one.trait) == trait and name in one.impl.functions
        ]
        return found[0] if len(found) == 1 else None

    def _known(self, file: str, number: int, target: Target) -> Known:
        """What a call says about type parameters, closures aside."""
        place = (file, number)
        if place in self._partial:
            return self._partial[place]
        assert target.method is not None
        method, call = target.method, self.files[file].calls[number]
        known = self._partial[place] = dict(method.known)
        own = self.files[method.file].functions[method.function]
        if target.given:
            known.update(zip(self.declared.parameters(method.file, "fn", method.function), target.given, strict=False))
        owner = self.declared.context(method.file, own.context).owner
        if owner[0] == "trait" and method.receiver is not None:
            known.setdefault(("self", method.file, owner[1]), method.receiver)
        args = call.args
        if own.self_type is not None and not target.is_method and args:
            item = self.declared.type(method.file, own.context, own.self_type)
            unify(item, self.expression(file, args[0]), known)
            args = args[1:]
        params, _ = self.declared.signature(method.file, method.function)
        for param, arg in zip(params, args, strict=False):
            if arg[0] != "closure":
                self._learn(method, param, self.expression(file, arg), known)
        return known

    def _learn(self, method: Method, param: Type, given: Type, known: Known) -> None:
        """Type parameters from an argument; from the function that a bound wants, too."""
        unify(param, given, known)
        context = self.files[method.file].functions[method.function].context
        shape = self.declared.shape(param, method.file, context) if param is not None and param[0] != "fn" else None
        if shape is not None and given is not None and given[0] == "fn":
            unify(shape, given, known)
        elif param is not None and param[0] in ("p", "dyn"):
            for bound in self.declared.bounds(param, method.file, context):
                for name, kind in bound[2]:
                    if name in ("Item", "Output", "Target") and given is not None:
                        found = self.declared.project(given, name, method.file, context)
                        if found is not None and found[0] != "proj":
                            unify(kind, found, known)
                if bound[0][0] == "ext" and bound[1] and str(bound[0][1]).endswith(("::Into", "::AsRef", "::Borrow")):
                    unify(bound[1][0], given, {})

    def _given(self, file: str, number: int, argument: int, position: int) -> Type:
        """The type of a parameter of a closure, by what it is given to."""
        target = self.target(file, number)
        if target is None:
            return None
        if target.outside is not None:
            receiver = target.outside.receiver
            assert receiver is not None
            wanted = library.params(library.name_of(receiver), self.files[file].calls[number].text)
            return self._word(file, number, target, wanted[position]) if position < len(wanted) else None
        if target.method is not None:
            shape = self._wanted(file, number, target, argument)
            params = shape[1] if shape is not None else ()
            return params[position] if position < len(params) else None
        if target.value is not None and target.value[0] == "fn":
            return self._nested(target.value[1], argument, position)
        return None

    def _nested(self, params: tuple[Type, ...], argument: int, position: int) -> Type:
        inner = params[argument] if argument < len(params) else None
        return inner[1][position] if inner is not None and inner[0] == "fn" and position < len(inner[1]) else None

    def _wanted(self, file: str, number: int, target: Target, argument: int) -> Type:
        """The function type that a parameter of a method wants."""
        method = target.method
        assert method is not None
        own = self.files[method.file].functions[method.function]
        params, _ = self.declared.signature(method.file, method.function)
        at = argument - (own.self_type is not None and not target.is_method)
        if not 0 <= at < len(params):
            return None
        shape = self.declared.shape(params[at], method.file, own.context)
        return substitute(shape, self._known(file, number, target), self.declared.project)

    def call(self, file: str, number: int) -> Type:
        """The type of the result of a call."""
        place = (file, number)
        if place not in self._calls:
            self._calls[place] = None
            target = self.target(file, number)
            if target is not None:
                self._calls[place] = self._result(file, number, target)
        return self._calls[place]

    def _result(self, file: str, number: int, target: Target) -> Type:
        call = self.files[file].calls[number]
        if target.method is not None:
            return self._returned(file, number, target)
        if target.outside is not None:
            return library.read(target.outside.result, lambda word: self._word(file, number, target, word))
        if target.made is not None:
            return self._constructed(file, call, target)
        if target.path:
            return self._outer(file, call, target)
        shape = self.declared.shape(target.value, file, -1)
        return shape[2] if shape is not None else None

    def _returned(self, file: str, number: int, target: Target) -> Type:
        method, call = target.method, self.files[file].calls[number]
        assert method is not None
        known = dict(self._known(file, number, target))
        own = self.files[method.file].functions[method.function]
        params, result = self.declared.signature(method.file, method.function)
        offset = int(own.self_type is not None and not target.is_method)
        for at, arg in enumerate(call.args):
            if arg[0] == "closure" and 0 <= at - offset < len(params):
                shape = self.declared.shape(params[at - offset], method.file, own.context)
                if shape is not None:
                    unify(shape, self.expression(file, arg), known)
        own_self = ("self", method.file, self.declared.context(method.file, own.context).owner[1])
        if result == own_self and method.receiver is not None:
            return method.receiver
        return substitute(result, known, self.declared.project)

    def _constructed(self, file: str, call: Call, target: Target) -> Type:
        made = target.made
        assert made is not None
        known: Known = {}
        for param, arg in zip(target.fields, call.args, strict=False):
            unify(param, self.expression(file, arg), known)
        if made[0] == "X":
            count = 2 if made[1] == "Result" else 1
            return external(made[1], *(known.get(("p", "", made[1], 0, str(at))) for at in range(count)))
        args = tuple(known.get(one) for one in self.declared.parameters(made[1], "data", made[2]))
        return merge(made, (*made[:3], args)) if not is_whole(made) else made

    def _outer(self, file: str, call: Call, target: Target) -> Type:
        """What a function of another crate gives, as far as it can be said."""
        name, item = target.path.removeprefix("::"), target.result
        first = self.expression(file, call.args[0]) if call.args else None
        if item is None:
            if name in ("take", "replace", "swap", "black_box", "identity", "min", "max", "drop", "read"):
                return first
            return None
        kind = item[1]
        if item[0] == "b":
            return item if name.startswith("from_") and name != "from_str_radix" else None
        if item[0] == "X" and kind in library.WRAPPERS and name in ("new", "pin", "new_unchecked", "from"):
            return merge(item, external(kind, first))
        if item[0] == "X" and name in ("clone", "downgrade", "as_ref", "map"):
            if name == "map":
                return None
            return first if name != "downgrade" else external("Weak", *(first[2] if first and first[0] == "X" else ()))
        if kind == "Vec" and name in ("from", "from_iter"):
            return external("Vec", self.declared.item(first, file, -1))
        if name in ("new", "with_capacity", "default", "from", "from_iter", "clone", "with_hasher", "from_utf8_lossy"):
            return item
        return None

    def _word(self, file: str, number: int, target: Target, word: str) -> Type:
        """A part of the result of a method from outside; see `library`."""
        outside, call = target.outside, self.files[file].calls[number]
        assert outside is not None
        assert outside.receiver is not None
        receiver = outside.receiver
        args = receiver[2] if receiver[0] == "X" else receiver[1:2] if receiver[0] in ("[]", "ptr") else ()
        offset = 0 if target.is_method else 1
        base, _, rest = word.partition(".")
        found: Type = None
        if base == "self":
            found = receiver
        elif base.isdigit():
            found = args[int(base)] if int(base) < len(args) else None
        elif base == "t":
            found = target.given[0] if target.given else None
        elif base == "d":
            found = (self.declared.dereferenced(args[0], file, -1) or args[0]) if args else None
        elif base == "e":
            found = (
                self.declared.item(self.expression(file, call.args[offset]), file, -1) if call.args[offset:] else None
            )
        elif base[0] in "ac" and base[1:].isdigit() and int(base[1:]) + offset < len(call.args):
            found = self.expression(file, call.args[int(base[1:]) + offset])
            if base[0] == "c":
                found = found[2] if found is not None and found[0] == "fn" else None
        if rest == "e":
            return self.declared.item(found, file, -1)
        if rest:
            return found[2][int(rest)] if found is not None and found[0] == "X" and int(rest) < len(found[2]) else None
        return found


def is_whole(item: Type) -> bool:
    """Whether nothing of a type is unknown."""
    if item is None or (item[0] == "b" and item[1][0] == "{"):
        return False
    if item[0] == "D":
        return all(is_whole(one) for one in item[3])
    if item[0] == "X":
        wanted = {"Vec": 1, "Option": 1, "HashMap": 2, "Result": 2, "VecDeque": 1, "BTreeMap": 2, "HashSet": 1}.get(
            item[1], 0
        )
        return len(item[2]) >= wanted and all(is_whole(one) for one in item[2])
    if item[0] in ("tuple", "[]"):
        inner = item[1] if item[0] == "tuple" else item[1:]
        return all(is_whole(one) for one in inner)
    return True
