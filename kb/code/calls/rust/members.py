"""Which method a receiver has: inherent ones, those of traits by implementations and bounds, through dereferences.

Source: Rust reference, "Method call expressions".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kb.code.calls.rust import library
from kb.code.calls.rust.crates import Definition
from kb.code.calls.rust.declared import ABSTRACT, Declared, Implementation, named
from kb.code.calls.rust.types import Bound, Known, Type, external, substitute

_STEPS = 8
_WANTED = frozenset(["Iterator", "Read", "Write", "BufRead", "Future", "Stream", "Error", "Deref", "Seek"])
"""Traits from outside that a type of the project has only by an `impl`."""
_NUMBERS = ("i32", "i64", "u32", "u64", "usize", "u8", "f64", "f32")


@dataclass(slots=True)
class Method:
    """A function of an `impl` or a trait. `how` is `impl`, `default` of a trait for a known type, or `bound`."""

    file: str
    function: int
    known: Known
    receiver: Type
    how: str


@dataclass(slots=True)
class Outside:
    """A method of a type of the standard library."""

    receiver: Type
    result: str


class Members:
    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._forwarding: dict[str, set[str]] = {}
        self._asked: set[tuple[Type, Definition]] = set()

    def method(self, item: Type, name: str, file: str, context: int) -> Method | Outside | None:
        """The method that `item.name()` calls in a place."""
        at, is_pinned = item, False
        for _ in range(_STEPS):
            if at is None:
                break
            found = self.own(at, name, file, context)
            if found is not None and (is_pinned or not self._is_pinned(found)):
                return found
            is_pinned = at[:2] == ("X", "Pin")
            at = self._declared.dereferenced(at, file, context)
        if name in library.ANY and item is not None:
            return Outside(item, library.ANY[name])
        return None

    def _is_pinned(self, found: Method | Outside) -> bool:
        """Whether a method takes `self: Pin<&mut Self>`, so its type is what a pin points at."""
        if isinstance(found, Outside):
            return False
        written = self._declared.files[found.file].functions[found.function].self_type
        return written is not None and written[0] == "path" and written[1][-1][0] == "Pin"

    def own(self, item: Type, name: str, file: str, context: int) -> Method | Outside | None:
        """The function `name` of a type itself."""
        if item is None or item[0] == "never":
            return None
        if item[0] in ABSTRACT and item[0] != "dyn":
            return self._bounded(item, name, file, context) or self._spread(item, name, file, context)
        found = self._inherent(item, name)
        if found is not None:
            return found
        if item[0] == "dyn" and (bounded := self._bounded(item, name, file, context)) is not None:
            return bounded
        if item[0] in ("X", "b", "[]", "ptr") and (outside := _outside(item, name)) is not None:
            return outside
        return (
            self._implemented(item, name, file, context)
            or self._spread(item, name, file, context)
            or self._iterated(item, name, file, context)
        )

    def of_trait(self, item: Type, trait: Definition, name: str, file: str, context: int) -> Method | None:
        """The function of a trait for a type: that of its implementation, else that of the trait."""
        own = self._declared.files[trait[1]].traits[trait[2]]
        if name not in own.functions:
            return None
        at = item
        for _ in range(_STEPS):
            if at is None or at[0] in ABSTRACT:
                break
            found = self._chosen(at, name, self._of(at, name, trait), file, context)
            if found is not None:
                return found
            at = self._declared.dereferenced(at, file, context)
        return Method(trait[1], own.functions[name], {("self", *trait[1:]): item}, item, "bound")

    def implements(self, item: Type, trait: Definition, file: str, context: int) -> bool:
        """Whether a type has a trait of the project."""
        if item is None or (item, trait) in self._asked or len(self._asked) > 20:
            return False
        self._asked.add((item, trait))
        try:
            if item[0] in ABSTRACT and any(bound[0] == trait for bound in self._declared.bounds(item, file, context)):
                return True
            if any(one.trait is not None and one.trait[0] == trait for one, _ in self._declared.of(item)):
                return True
            return any(
                one.trait is not None and one.trait[0] == trait and self._holds(one, item, file, context)
                for one in self._declared.blanket
            )
        finally:
            self._asked.discard((item, trait))

    def _bounded(self, item: Type, name: str, file: str, context: int) -> Method | Outside | None:
        bounds = self._declared.bounds(item, file, context)
        for trait, args, _ in bounds:
            if trait[0] == "trait":
                own = self._declared.files[trait[1]].traits[trait[2]]
                if name in own.functions:
                    known: Known = {("self", *trait[1:]): item}
                    known.update(zip(self._declared.parameters(trait[1], "trait", trait[2]), args, strict=False))
                    return Method(trait[1], own.functions[name], known, item, "bound")
        if self._declared.is_iterator(item, file, context) and name in library.METHODS["Iter"]:
            return self._iterated(item, name, file, context)
        for bound in bounds:
            table = library.TRAITS.get(named(bound), {})
            if name in table:
                return Outside(external(named(bound), *bound[1]), table[name])
        return None

    def _iterated(self, item: Type, name: str, file: str, context: int) -> Outside | None:
        if name not in library.METHODS["Iter"] or not self._declared.is_iterator(item, file, context):
            if name == "into_iter" and (element := self._declared.item(item, file, context)) is not None:
                return Outside(external("Iter", element), "self")
            return None
        return Outside(external("Iter", self._declared.item(item, file, context)), library.METHODS["Iter"][name])

    def _inherent(self, item: Type, name: str) -> Method | None:
        found = [
            (one, known) for one, known in self._declared.of(item) if one.trait is None and name in one.impl.functions
        ]
        return self._one(item, name, found)

    def _implemented(self, item: Type, name: str, file: str, context: int) -> Method | None:
        return self._chosen(item, name, self._of(item, name, None), file, context)

    def _of(self, item: Type, name: str, trait: Definition | None) -> list[tuple[Implementation, Known]]:
        """Implementations of traits that have a function, for a type."""
        found: list[tuple[Implementation, Known]] = []
        kinds = [item]
        if item is not None and item[0] == "b" and item[1].startswith("{"):
            kinds = [("b", name) for name in _NUMBERS if (name[0] == "f") == (item[1] == "{float}")]
        for kind in kinds:
            for one, known in self._declared.of(kind):
                if one.trait is None or (trait is not None and one.trait[0] != trait):
                    continue
                if name in one.impl.functions or self._default(one.trait, name) is not None:
                    found.append((one, known))
            if found:
                break
        return found

    def _default(self, bound: Bound, name: str) -> int | None:
        """The function of a trait of the project that its implementations need not have."""
        trait = bound[0]
        if trait[0] != "trait":
            return None
        number = self._declared.files[trait[1]].traits[trait[2]].functions.get(name)
        if number is None or not self._declared.files[trait[1]].functions[number].has_body:
            return None
        return number

    def _chosen(
        self, item: Type, name: str, found: list[tuple[Implementation, Known]], file: str, context: int
    ) -> Method | None:
        """Of several traits the one that is in scope; for types from outside only such."""
        assert item is not None
        if item[0] != "D" or len({one.trait[0] for one, _ in found if one.trait is not None}) > 1:
            seen = self._declared.crates.traits((file, self._declared.context(file, context).scope))
            own = self._declared.context(file, context).owner
            found = [
                (one, known)
                for one, known in found
                if one.trait is not None
                and (one.trait[0][0] == "ext" or one.trait[0] in seen or one.trait[0] == ("trait", file, own[1]))
            ]
        return self._one(item, name, found)

    def _one(self, item: Type, name: str, found: Iterable[tuple[Implementation, Known]]) -> Method | None:
        """The one function that is meant, or none if several may be."""
        methods: dict[tuple[str, str], Method] = {}
        for holds in (True, False):
            for one, known in found:
                if one.impl.holds is holds:
                    method = self._made(item, name, one, known)
                    if method is not None:
                        qname = self._declared.files[method.file].functions[method.function].qname
                        methods.setdefault((method.file, qname), method)
            if methods:
                break
        return next(iter(methods.values())) if len(methods) == 1 else None

    def _is_forwarding(self, one: Implementation, name: str) -> bool:
        """Whether a method of a type from outside calls one of its own name, which is the type's own then."""
        if one.type is None or one.type[0] != "X" or name not in one.impl.functions:
            return False
        if one.file not in self._forwarding:
            facts = self._declared.files[one.file]
            self._forwarding[one.file] = {
                call.caller
                for call in facts.calls
                if call.callee[0] == "m" and call.text == call.caller.rpartition(".")[2]
                and call.callee[1][0] == "v" and facts.bindings[call.callee[1][1]].source[0] == "self"
            }  # fmt: skip
        qname = self._declared.files[one.file].functions[one.impl.functions[name]].qname
        return qname in self._forwarding[one.file]

    def _made(self, item: Type, name: str, one: Implementation, known: Known) -> Method | None:
        if self._is_forwarding(one, name):
            return None
        if name in one.impl.functions:
            return Method(one.file, one.impl.functions[name], known, item, "impl")
        number = self._default(one.trait, name) if one.trait is not None else None
        if one.trait is None or number is None:
            return None
        trait, args, _ = one.trait
        given: Known = {("self", *trait[1:]): item}
        for parameter, arg in zip(self._declared.parameters(trait[1], "trait", trait[2]), args, strict=False):
            given[parameter] = substitute(arg, known, self._declared.project)
        return Method(trait[1], number, given, item, "default")

    def _spread(self, item: Type, name: str, file: str, context: int) -> Method | None:
        """By `impl<T: ...> Trait for T`, for traits in scope."""
        found: list[tuple[Implementation, Known]] = []
        seen: frozenset[Definition] | None = None
        for one in self._declared.blanket:
            if one.trait is None or one.trait[0][0] != "trait":
                continue
            if name not in one.impl.functions and self._default(one.trait, name) is None:
                continue
            if seen is None:
                seen = self._declared.crates.traits((file, self._declared.context(file, context).scope))
            if one.trait[0] in seen and self._holds(one, item, file, context):
                found.append((one, {one.type or (): item}))
        return self._one(item, name, found)

    def _holds(self, one: Implementation, item: Type, file: str, context: int) -> bool:
        """Whether a type has the bounds that an `impl` for all types wants."""
        if item is None or one.type is None or one.type[0] != "p":
            return False
        for subject, bounds in self._declared.predicates(one.file, -1, ("impl", one.type[3])):
            if subject != one.type:
                continue
            for bound in bounds:
                if bound[0][0] == "trait":
                    if not self.implements(item, bound[0], file, context):
                        return False
                elif not self._has(item, named(bound), file, context):
                    return False
        return True

    def _has(self, item: Type, trait: str, file: str, context: int) -> bool:
        assert item is not None
        if trait == "Iterator":
            return self._declared.is_iterator(item, file, context)
        if trait in library.FUNCTIONS:
            return self._declared.shape(item, file, context) is not None
        if trait not in _WANTED or item[0] not in ("D", *ABSTRACT):
            return trait not in _WANTED or item[0] == "X"
        if item[0] == "D":
            return self._declared.has(item, trait)
        return any(named(bound) == trait for bound in self._declared.bounds(item, file, context))


def _outside(item: Type, name: str) -> Outside | None:
    assert item is not None
    kind = library.name_of(item)
    if kind != "Iter" and library.iterated(kind) and name in library.METHODS["Iter"]:
        return None
    result = library.METHODS.get(kind, {}).get(name)
    if result is None:
        return None
    return Outside(item, result)
