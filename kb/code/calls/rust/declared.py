"""What items declare, as types: what a written type means, bounds, implementations, and associated types. Each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kb.code.calls.rust import library
from kb.code.calls.rust.crates import Crates, Definition
from kb.code.calls.rust.facts import Context, Function, Generic, Impl, RustFacts, Trait, Where, Written
from kb.code.calls.rust.types import Bound, Known, Type, external, replaced, substitute, unify

Key = tuple[Any, ...]
Parameter = tuple[Any, ...]
ABSTRACT = frozenset(["p", "self", "proj", "dyn"])
"""Kinds of types that are known by their bounds."""
_MAPS = frozenset(["HashMap", "BTreeMap", "IndexMap"])
_CHARACTERS = {"Chars": ("b", "char"), "Bytes": ("b", "u8"), "Lines": ("b", "str"), "Split": ("b", "str"),
               "CharIndices": ("tuple", (("b", "usize"), ("b", "char")))}  # fmt: skip
_DEEP = 40
_BOUNDS = 60


@dataclass(slots=True)
class Implementation:
    """An `impl` with its types. `trait` is none for inherent ones."""

    file: str
    impl: Impl
    type: Type
    trait: Bound | None


class Declared:
    def __init__(self, files: Mapping[str, RustFacts], crates: Crates) -> None:
        self.files = files
        self.crates = crates
        self._depth = 0
        self._owners: dict[tuple[str, str, int], Type] = {}
        self._wheres: dict[tuple[str, int, tuple[str, int]], list[tuple[Type, tuple[Bound, ...]]]] = {}
        self._signatures: dict[tuple[str, int], tuple[tuple[Type, ...], Type]] = {}
        self._closures: dict[tuple[Type, str, int, tuple[str, int]], list[Bound]] = {}
        self.implementations: dict[Key, list[Implementation]] = {}
        self.blanket: list[Implementation] = []
        for file, facts in files.items():
            for index, impl in enumerate(facts.impls):
                self._add(file, index, impl)

    def _add(self, file: str, index: int, impl: Impl) -> None:
        kind = self.owner(file, ("impl", index))
        trait = self.bound(file, impl.context, impl.trait) if impl.trait is not None else None
        if kind is None or (impl.trait is not None and trait is None):
            return
        if trait is None and kind[0] == "X":
            return  # Of another build, in which the name is that of a type of the project.
        found = Implementation(file, impl, kind, trait)
        if kind[0] in ("p", "proj"):
            self.blanket.append(found)
        else:
            self.implementations.setdefault(key(kind), []).append(found)

    def context(self, file: str, number: int) -> Context:
        return self.files[file].contexts[number]

    # Types as they are written

    def type(self, file: str, context: int, written: Written) -> Type:
        """What a written type means where it stands."""
        kind = written[0]
        if self._depth > _DEEP:
            return None
        self._depth += 1
        try:
            if kind == "path":
                return self._path(file, context, written[1])
            if kind == "q":
                base = self.type(file, context, written[1])
                for name, _ in written[3]:
                    base = self.project(base, name, file, context)
                return base
            if kind == "tuple":
                return (kind, tuple(self.type(file, context, one) for one in written[1]))
            if kind in ("[]", "ptr"):
                return (kind, self.type(file, context, written[1]))
            if kind == "fn":
                params = tuple(self.type(file, context, one) for one in written[1])
                return (kind, params, self.type(file, context, written[2]))
            if kind == "dyn":
                return (kind, tuple(self._bounds(file, context, written[1])))
            return ("never",) if kind == "never" else None
        finally:
            self._depth -= 1

    def _path(self, file: str, context: int, segments: tuple[tuple[str, tuple[Written, ...]], ...]) -> Type:
        first = segments[0][0]
        where = self.context(file, context)
        base: Type
        if first == "Self":
            base, taken = self.owner(file, where.owner), 1
        elif (parameter := self.parameter(file, where, first)) is not None:
            base, taken = parameter, 1
        else:
            names = tuple(name for name, _ in segments)
            found = self.crates.find((file, where.scope), names, "t")
            if found is None:
                return None
            definition, taken = found
            given = segments[taken - 1][1] or (segments[taken - 2][1] if definition[0] == "variant" else ())
            base = self.defined(definition, tuple(self.type(file, context, one) for one in given if one[0] != "="))
        for name, _ in segments[taken:]:
            base = self.project(base, name, file, context)
        return base

    def defined(self, definition: Definition, args: tuple[Type, ...]) -> Type:
        """The type that a definition is, with type arguments."""
        kind = definition[0]
        if kind in ("data", "variant"):
            count = len(self.files[definition[1]].data[definition[2]].generics)
            return ("D", definition[1], definition[2], (args + (None,) * count)[:count])
        if kind == "alias":
            file, index = definition[1:]
            alias = self.files[file].aliases[index]
            names = [("p", file, "alias", index, name) for name, _ in alias.generics]
            known: Known = dict(zip(names, args + (None,) * len(names), strict=False))
            return substitute(self.type(file, alias.context, alias.type), known, self.project)
        if kind == "trait":
            return ("dyn", ((definition, args, ()),))
        if kind == "prim":
            return ("b", definition[1])
        return outside(definition[1], args) if kind == "ext" else None

    def owner(self, file: str, owner: tuple[str, int]) -> Type:
        """What `Self` is in an item."""
        kind, index = owner
        where = (file, kind, index)
        if where not in self._owners:
            self._owners[where] = None
            facts = self.files[file]
            if kind == "impl":
                self._owners[where] = self.type(file, facts.impls[index].context, facts.impls[index].type)
            elif kind == "trait":
                self._owners[where] = ("self", file, index)
            elif kind == "data":
                args = tuple(("p", file, kind, index, name) for name, _ in facts.data[index].generics)
                self._owners[where] = ("D", file, index, args)
        return self._owners[where]

    def parameter(self, file: str, where: Context, name: str) -> Type:
        """A type parameter that a name means."""
        for kind, index in (("fn", where.function), where.owner):
            if index >= 0 and any(one == name for one, _ in self._declared(file, kind, index)[0]):
                return ("p", file, kind, index, name)
        return None

    def _declared(self, file: str, kind: str, index: int) -> tuple[tuple[Generic, ...], tuple[Where, ...], int]:
        """Type parameters, predicates and the context of an item."""
        facts = self.files[file]
        if kind in ("data", "alias"):
            item = facts.data[index] if kind == "data" else facts.aliases[index]
            return item.generics, (), item.context
        full: Function | Impl | Trait
        full = facts.functions[index] if kind == "fn" else facts.impls[index] if kind == "impl" else facts.traits[index]
        return full.generics, full.wheres, full.context

    def parameters(self, file: str, kind: str, index: int) -> list[Parameter]:
        return [("p", file, kind, index, name) for name, _ in self._declared(file, kind, index)[0]]

    def signature(self, file: str, function: int) -> tuple[tuple[Type, ...], Type]:
        """The parameters without `self`, and the result."""
        where = (file, function)
        if where not in self._signatures:
            own = self.files[file].functions[function]
            result = self.type(file, own.context, own.result)
            params = tuple(self.type(file, own.context, one) for one in own.params)
            self._signatures[where] = params, external("Future", result) if own.is_async else result
        return self._signatures[where]

    # Bounds

    def bound(self, file: str, context: int, written: Written) -> Bound | None:
        """The trait that is written, its arguments, and associated types that are given."""
        if written[0] != "path":
            return None
        segments = written[1]
        where = self.context(file, context)
        found = self.crates.find((file, where.scope), tuple(name for name, _ in segments), "t")
        if found is None or found[1] != len(segments) or found[0][0] not in ("trait", "ext"):
            return None
        args = [self.type(file, context, one) for one in segments[-1][1] if one[0] != "="]
        given = [(one[1], self.type(file, context, one[2])) for one in segments[-1][1] if one[0] == "="]
        return found[0], tuple(args), tuple(given)

    def _bounds(self, file: str, context: int, written: tuple[Written, ...]) -> Iterator[Bound]:
        for one in written:
            if (found := self.bound(file, context, one)) is not None:
                yield found

    def predicates(self, file: str, function: int, owner: tuple[str, int]) -> list[tuple[Type, tuple[Bound, ...]]]:
        """The bounds of type parameters and what `where` says, in a function and the item around it."""
        where = (file, function, owner)
        if where not in self._wheres:
            found = self._wheres[where] = []
            for kind, index in (("fn", function), owner):
                if index < 0:
                    continue
                generics, wheres, context = self._declared(file, kind, index)
                for name, bounds in generics:
                    if bounds:
                        found.append((("p", file, kind, index, name), tuple(self._bounds(file, context, bounds))))
                for left, bounds in wheres:
                    found.append((self.type(file, context, left), tuple(self._bounds(file, context, bounds))))
        return self._wheres[where]

    def bounds(self, item: Type, file: str, context: int) -> list[Bound]:
        """The traits that an abstract type has by its bounds in a place, and those that these extend; nearest first.

        `context` -1 asks for what the item that declares a parameter says itself.
        """
        if item is None or item[0] not in ABSTRACT:
            return []
        where = Context(0, -1, ("", -1)) if context < 0 else self.context(file, context)
        place = (item, file, where.function, where.owner)
        if place in self._closures:
            return self._closures[place]
        self._closures[place] = []
        found = list(item[1]) if item[0] == "dyn" else self._direct(item, file, where, context)
        seen = {(bound[0], bound[1]) for bound in found}
        for bound in found:
            for other in self._supers(bound, item):
                if (other[0], other[1]) not in seen and len(found) < _BOUNDS:
                    seen.add((other[0], other[1]))
                    found.append(other)
        self._closures[place] = found
        return found

    def _direct(self, item: Type, file: str, where: Context, context: int) -> list[Bound]:
        assert item is not None
        found: list[Bound] = []
        sources = [(file, where.function, where.owner)] if context >= 0 else []
        if item[0] == "p":
            own = (item[3], ("", -1)) if item[2] == "fn" else (-1, (item[2], item[3]))
            if (item[1], *own) not in sources and not (sources and item[1] == file and where.owner == own[1]):
                sources.append((item[1], *own))
        elif item[0] == "self":
            found.append((("trait", *item[1:]), tuple(self.parameters(item[1], "trait", item[2])), ()))
        for source in sources:
            for subject, bounds in self.predicates(*source):
                if subject == item:
                    found += bounds
        if item[0] == "proj":
            for trait, args, _ in self.bounds(item[1], file, context):
                if trait[0] == "trait" and item[2] in (own_trait := self.files[trait[1]].traits[trait[2]]).types:
                    known: Known = {("self", *trait[1:]): item[1]}
                    known.update(zip(self.parameters(trait[1], "trait", trait[2]), args, strict=False))
                    for one in self._bounds(trait[1], own_trait.context, own_trait.types[item[2]]):
                        found.append(replaced(one, known, self.project))
        return found

    def _supers(self, bound: Bound, item: Type) -> Iterator[Bound]:
        trait, args, given = bound
        if trait[0] != "trait":
            return
        own = self.files[trait[1]].traits[trait[2]]
        known: Known = {("self", *trait[1:]): item}
        known.update(zip(self.parameters(trait[1], "trait", trait[2]), args, strict=False))
        found = list(self._bounds(trait[1], own.context, own.supers))
        for left, bounds in own.wheres:
            if left == ("path", (("Self", ()),)):
                found += self._bounds(trait[1], own.context, bounds)
        for one in found:
            other = replaced(one, known, self.project)
            yield other[0], other[1], (*other[2], *given)

    # Implementations

    def of(self, item: Type) -> list[tuple[Implementation, Known]]:
        """The implementations for a type that is no parameter, and what it says about their parameters."""
        found: list[tuple[Implementation, Known]] = []
        for one in self.implementations.get(key(item), ()) if item is not None else ():
            known: Known = {}
            if unify(one.type, item, known):
                found.append((one, known))
        return found

    def has(self, item: Type, trait: str) -> bool:
        """Whether a type has an implementation of a trait from outside."""
        return any(named(one.trait) == trait for one, _ in self.of(item))

    def project(self, item: Type, name: str, file: str = "", context: int = -1, trait: str = "") -> Type:
        """The associated type `name` of a type; of the trait whose name is `trait`, if given."""
        if item is None or self._depth > _DEEP:
            return None
        self._depth += 1
        try:
            if item[0] in ABSTRACT:
                for bound in self.bounds(item, file, context):
                    for given, kind in bound[2]:
                        if given == name:
                            return kind
                return ("proj", item, name)
            found = [
                substitute(self.type(one.file, one.impl.context, one.impl.types[name]), known, self.project)
                for one, known in self.of(item)
                if name in one.impl.types and one.impl.holds and (not trait or named(one.trait) == trait)
            ]
            if not found and name == "Item":
                return self.item(item, file, context)
            if not found and name == "Target":
                return self.dereferenced(item, file, context)
            if not found and name == "Output":
                return item[2] if item[0] == "fn" else item[2][0] if item[:2] == ("X", "Future") and item[2] else None
            return found[0] if found and all(one == found[0] for one in found) else None
        finally:
            self._depth -= 1

    def dereferenced(self, item: Type, file: str, context: int) -> Type:
        """What a pointer points at, or none."""
        if item is None:
            return None
        if item[0] == "X":
            if item[1] in library.POINTERS:
                return item[2][0] if item[2] else None
            if item[1] == "Vec":
                return ("[]", item[2][0] if item[2] else None)
            return ("b", "str") if item[1] == "String" else None
        if item[0] == "D":
            return self.project(item, "Target", trait="Deref") if self.has(item, "Deref") else None
        for trait, _, given in self.bounds(item, file, context):
            if trait[0] == "ext" and trait[1].endswith("::Deref"):
                return next((kind for name, kind in given if name == "Target"), None)
        return None

    def item(self, item: Type, file: str, context: int) -> Type:
        """What an iteration over a value gives."""
        if item is None or self._depth > _DEEP:
            return None
        kind = item[0]
        args: tuple[Type, ...]
        if kind == "[]":
            args = item[1:]
            return args[0]
        if kind == "X":
            args = item[2]
            if item[1] in _MAPS:
                return ("tuple", args[:2]) if len(args) > 1 else None
            if item[1] in _CHARACTERS:
                return _CHARACTERS[item[1]]
            if item[1] in library.POINTERS:
                return self.item(args[0], file, context) if args else None
            first = args[0] if args else None
            is_nested = item[1] not in ("Iter", "Vec", "Option") and library.iterated(item[1])
            if is_nested and first is not None and (first[0] == "X" or first[0] in ABSTRACT):
                return self.item(first, file, context) or first
            return first
        if kind == "D":
            self._depth += 1
            try:
                traits = {named(one.trait): one for one, _ in self.of(item) if "Item" in one.impl.types}
                for trait in ("IntoIterator", "Iterator"):
                    if trait in traits:
                        return self.project(item, "Item", trait=trait)
            finally:
                self._depth -= 1
            return None
        for bound in self.bounds(item, file, context):
            given = dict(bound[2])
            if named(bound) in ("Iterator", "IntoIterator", "DoubleEndedIterator", "ExactSizeIterator"):
                return given.get("Item", ("proj", item, "Item"))
        return None

    def is_iterator(self, item: Type, file: str, context: int) -> bool:
        """Whether a type has the methods of `Iterator`."""
        if item is None:
            return False
        if item[0] == "D":
            return self.has(item, "Iterator")
        if item[0] == "X":
            return item[1] == "Iter" or library.iterated(item[1])
        return any(
            named(bound) in ("Iterator", "DoubleEndedIterator", "ExactSizeIterator")
            for bound in self.bounds(item, file, context)
        )

    def shape(self, item: Type, file: str, context: int) -> Type:
        """The function type of a value that can be called, or none."""
        for _ in range(4):
            if item is None or item[0] == "fn":
                return item
            for bound in self.bounds(item, file, context):
                if named(bound) in library.FUNCTIONS and bound[1] and bound[1][0] is not None:
                    params = bound[1][0][1] if bound[1][0][0] == "tuple" else ()
                    return ("fn", params, dict(bound[2]).get("Output"))
            item = self.dereferenced(item, file, context)
        return None


def named(bound: Bound | None) -> str:
    """The plain name of a trait from outside; '' for one of the project or none."""
    if bound is None or bound[0][0] != "ext":
        return ""
    return str(bound[0][1]).rpartition("::")[2]


def key(item: Type) -> Key:
    """What implementations of a type are found by."""
    if item is None:
        return ("?",)
    kind = item[0]
    if kind == "D":
        return item[:3]
    if kind == "dyn":
        return (kind, item[1][0][0] if item[1] else None)
    return item[:2] if kind in ("X", "b") else (kind,)


def outside(path: str, args: tuple[Type, ...]) -> Type:
    """A type from outside of the project: by its plain name where that is of the standard library."""
    first, _, _ = path.partition("::")
    name = path.rpartition("::")[2]
    if first in library.STANDARD or name in ("Result", "HashMap", "HashSet", "IndexMap", "IndexSet"):
        return ("X", name, args)
    return ("X", path, args)
