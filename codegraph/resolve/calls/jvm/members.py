"""Members of types with what their type parameters stand for, and which overload fits the arguments.

Source: https://docs.oracle.com/javase/specs/jls/se21/html/jls-15.html#jls-15.12.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegraph.resolve.calls.jvm import library
from codegraph.resolve.calls.jvm.facts import JvmFacts, Method
from codegraph.resolve.calls.jvm.names import Names, Place
from codegraph.resolve.calls.jvm.types import Known, Type, substitute, unify

_TEXT = frozenset(["String", "CharSequence", "Object", "Comparable", "Any", "Serializable"])
_BOXED = {
    "int": "Integer", "long": "Long", "char": "Character", "boolean": "Boolean", "double": "Double", "float": "Float",
    "byte": "Byte", "short": "Short",
}  # fmt: skip
_WIDER = {
    "byte": "short int long float double", "short": "int long float double", "char": "int long float double",
    "int": "long float double", "long": "float double", "float": "double",
}  # fmt: skip
_WORDS = frozenset(["String", "Integer", "Long", "Character", "Boolean", "Double", "Float", "Byte", "Short", "Class"])
LAMBDA = "lambda"


@dataclass(frozen=True, slots=True)
class Found:
    """A method with the type it is declared in, and what the parameters of that type stand for."""

    method: Method
    place: Place
    known: Known


@dataclass(frozen=True, slots=True)
class Arguments:
    """Their types, None where their number is unknown, and their labels (`facts.Call`)."""

    types: tuple[Type, ...] | None
    labels: tuple[str, ...] = ()


def arrange(method: Method, count: int, labels: tuple[str, ...]) -> list[int] | None:
    """The parameter of each argument; None where they do not fit together."""
    found: list[int] = []
    last = len(method.params) - 1
    following = 0
    for position in range(count):
        label = labels[position] if labels else ""
        if label == "{":
            at = last
        elif label and method.names:
            if label not in method.names:
                return None
            at = method.names.index(label)
            following = at + 1
        else:
            at = following
            following += 0 if at == method.rest else 1
        if not 0 <= at <= last:
            return None
        found.append(at)
    given = set(found)
    wanted = all(at in given or at in method.optional or at == method.rest for at in range(last + 1))
    return found if wanted else None


class Members:
    def __init__(self, files: Mapping[str, JvmFacts]) -> None:
        self.names = Names(files)
        self._lines: dict[tuple[str, int], tuple[Place, ...]] = {}
        self._knowns: dict[tuple[str, int], dict[Place, Known]] = {}
        self._shapes: dict[Place, Found | None] = {}

    def lineage(self, place: Place) -> tuple[Place, ...]:
        """A type and all that it inherits from."""
        if place not in self._lines:
            self._lines[place] = tuple(self.names.ancestors(place))
        return self._lines[place]

    def full(self, place: Place) -> tuple[str, str]:
        """Package and qualified name of a type."""
        return self.names.files[place[0]].package, self.names.kind(place).qname

    def known(self, item: Type, place: Place) -> Known:
        """What the type parameters of `place`, which `item` is or inherits from, stand for in `item`."""
        if item is None or item[0] != "C":
            return {}
        own = (item[1], item[2])
        if own not in self._knowns:
            found: dict[Place, Known] = {own: {}}
            for one in self.lineage(own):
                for base in self.names.bases(one):
                    if base is not None and base[0] == "C":
                        params = self.names.kind((base[1], base[2])).type_params
                        given = [substitute(arg, found.get(one, {})) for arg in base[3]]
                        learned = {(base[1], param): arg for param, arg in zip(params, given, strict=False)}
                        found.setdefault((base[1], base[2]), learned)
            self._knowns[own] = found
        params = self.names.kind(own).type_params
        mine: Known = {(item[1], param): arg for param, arg in zip(params, item[3], strict=False)}
        if place == own:
            return mine
        return {param: substitute(arg, mine) for param, arg in self._knowns[own].get(place, {}).items()}

    def bound(self, item: Type) -> Type:
        """The bound of a type parameter, or the type itself."""
        for _ in range(8):
            if item is None or item[0] != "tp":
                return item
            item = self.names.type(item[1], self.names.files[item[1]].params[item[2]])
        return None

    def member(self, place: Place, name: str) -> tuple[Place, int] | None:
        """A field or property by its binding, and the type that has it."""
        for one in self.lineage(place):
            number = self.names.kind(one).members.get(name)
            if number is not None:
                return one, number
        return None

    def has_method(self, place: Place, name: str) -> bool:
        """Whether a type has a method of that name, inherited or not."""
        return any(name in self.names.kind(one).methods for one in self.lineage(place))

    def external(self, place: Place) -> Iterator[Type]:
        """The types of elsewhere that a type inherits from."""
        for one in self.lineage(place):
            yield from (base for base in self.names.bases(one) if base is not None and base[0] == "X")

    def method(self, item: Type, name: str, args: Arguments, above: bool = False) -> Found | None:
        """The overload that fits; of what a type inherits only, with `above`."""
        if item is None or item[0] not in ("C", "K"):
            return None
        own: Place = (item[1], item[2])
        best: tuple[int, Found] | None = None
        for one in self.lineage(own)[1 if above else 0 :]:
            for method in self.names.kind(one).methods.get(name, ()):
                if method.receiver is not None:
                    continue
                known = self.known(item if item[0] == "C" else ("C", *own, ()), one)
                score = self.fit(method, one[0], known, args)
                if score is not None and (best is None or score > best[0]):
                    best = (score, Found(method, one, known))
        return None if best is None else best[1]

    def fit(self, method: Method, file: str, known: Known, args: Arguments) -> int | None:
        """How well a method takes arguments; None where it cannot."""
        if args.types is None:
            return 0
        places = arrange(method, len(args.types), args.labels)
        if places is None:
            return None
        total = 0 if method.rest < 0 else -3
        for position, (at, arg) in enumerate(zip(places, args.types, strict=True)):
            declared = substitute(self.names.type(file, method.params[at]), known)
            score = self.accepts(declared, arg)
            if score is None and at == method.rest and arg is not None and position == len(places) - 1:
                score = self.accepts(("[]", declared), arg)
            if score is None:
                return None
            total += score
        return total

    def accepts(self, declared: Type, given: Type) -> int | None:
        """Whether a parameter takes an argument: more where it surely does, None where it surely does not."""
        if given is None or declared is None:
            return 0
        if given[0] == LAMBDA:
            return self._takes_lambda(declared, given)
        if declared[0] == "tp":
            bound = self.bound(declared)
            return 0 if bound is None else (None if self.accepts(bound, given) is None else 0)
        if given[0] == "tp":
            given = self.bound(given)
            if given is None:
                return 0 if declared[0] != "b" else None
        if given[0] == "null":
            return None if declared[0] == "b" else 0
        if declared == given:
            return 8
        if given[0] == "C" and declared[0] == "C":
            line = self.lineage((given[1], given[2]))
            place = (declared[1], declared[2])
            if place in line:
                return max(1, 8 - line.index(place))
            # One type may be declared for several platforms.
            full = self.full(place)
            return 1 if any(self.full(one) == full for one in line) else None
        if given[0] == "b":
            return self._takes_primitive(declared, given[1])
        if declared[0] == "b":
            return (
                -1
                if given[0] == "X" and given[1] == _BOXED.get(declared[1])
                else None
                if given[0] != "X" or given[1] in _WORDS
                else 0
            )
        if given[0] == "[]":
            if declared[0] == "[]":
                return self.accepts(declared[1], given[1])
            return 0 if declared[0] == "X" and declared[1] in ("Object", "Any", "Serializable", "Cloneable") else None
        if declared[0] == "[]":
            return None
        return self._takes_other(declared, given)

    def _takes_other(self, declared: Type, given: Type) -> int | None:
        assert declared is not None
        assert given is not None
        if declared[0] == "X" and given[0] == "X":
            if declared[1] == given[1]:
                return 8
            if given[1] == "String":
                return None if declared[1] not in _TEXT else 2 if declared[1] != "Object" else 0
            return None if declared[1] in _WORDS and given[1] in _WORDS else 0 if declared[1] == "Object" else 1
        if declared[0] == "X":
            return None if declared[1] in _WORDS else 0 if declared[1] == "Object" else 1
        return None if given[0] == "X" and given[1] in _WORDS else 0

    def _takes_primitive(self, declared: Type, name: str) -> int | None:
        assert declared is not None
        if declared[0] == "b":
            wider = _WIDER.get(name, "").split()
            return 7 - wider.index(declared[1]) if declared[1] in wider else None
        if declared[0] == "X":
            return (
                1 if declared[1] in (_BOXED.get(name), name.capitalize()) else 0 if declared[1] not in _WORDS else None
            )
        return None

    def _takes_lambda(self, declared: Type, given: Type) -> int | None:
        """`given` is ("lambda", number of parameters or -1)."""
        if declared is not None and declared[0] in ("b", "[]"):
            return None
        shape = self.shape(declared)
        assert given is not None
        if shape is not None:
            either = declared is not None and declared[0] == "fn" and given[1] == 0
            return 2 if given[1] in (-1, len(shape[0])) or either else None
        if declared is not None and declared[0] == "C":
            return None
        return None if declared is not None and declared[0] == "X" and declared[1] in _WORDS | {"Object"} else 0

    def single(self, item: Type) -> Found | None:
        """The one abstract method of an interface."""
        if item is None or item[0] != "C":
            return None
        place: Place = (item[1], item[2])
        if place not in self._shapes:
            self._shapes[place] = None
            if self.names.kind(place).kind == "interface":
                for one in self.lineage(place):
                    for methods in self.names.kind(one).methods.values():
                        for method in methods:
                            if method.abstract and method.name not in library.OBJECT and self._shapes[place] is None:
                                self._shapes[place] = Found(method, one, {})
        found = self._shapes[place]
        return None if found is None else Found(found.method, found.place, self.known(item, found.place))

    def shape(self, item: Type) -> tuple[tuple[Type, ...], Type] | None:
        """Parameters and result of a functional interface."""
        found = self.single(item)
        if found is None:
            if item is not None and item[0] == "C" and self.names.kind((item[1], item[2])).kind == "interface":
                for one in self.lineage((item[1], item[2])):
                    for base in self.names.bases(one):
                        shape = None if base is None or base[0] != "X" else library.shape(base)
                        if shape is not None:
                            own = self.known(item, one)
                            return tuple(substitute(part, own) for part in shape[0]), substitute(shape[1], own)
            return library.shape(item)
        file = found.place[0]
        params = tuple(substitute(self.names.type(file, one), found.known) for one in found.method.params)
        result = None if found.method.result[0] == "=" else self.names.type(file, found.method.result)
        return params, substitute(result, found.known)

    def learn(self, declared: Type, given: Type, known: Known) -> None:
        """Type parameters of a method from an argument, which may be of a type that inherits from the parameter's."""
        if declared is None or given is None or given[0] == LAMBDA:
            return
        if declared[0] == given[0] == "C" and declared[1:3] != given[1:3]:
            place = (declared[1], declared[2])
            if place in self.lineage((given[1], given[2])):
                learned = self.known(given, place)
                params = self.names.kind(place).type_params
                given = ("C", *place, tuple(learned.get((place[0], param)) for param in params))
        elif declared[0] == given[0] == "X" and declared[1] != given[1] and len(declared[2]) == len(given[2]) == 1:
            given = ("X", declared[1], given[2])
        elif declared[0] == "X" and given[0] == "C":
            for base in self.external((given[1], given[2])):
                if base is not None and base[1] == declared[1]:
                    given = base
        unify(declared, given, known)
