"""Members of values: of classes with what they extend, of objects, modules, and of collections from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegraph.resolve.calls.ecma import known
from codegraph.resolve.calls.ecma.facts import Binding, EcmaFacts, Expression
from codegraph.resolve.calls.ecma.names import Names
from codegraph.resolve.calls.ecma.types import Type, Types, outside, substitute, union

_MOST = 60
"""Classes that are searched for one member."""


class Members(Names):
    def __init__(self, files: Mapping[str, EcmaFacts], configuration: Mapping[str, bytes]) -> None:
        super().__init__(files, configuration)
        self.assigned: dict[tuple[str, str, int], dict[str, list[tuple[str, Expression]]]] = {}
        """(kind, file, number) of a class, function or object to what is given to its properties elsewhere."""
        self.receivers: dict[tuple[str, int], Type] = {}
        """(file, function) to what `this` is in it."""

    def member(self, item: Type, name: str) -> Types:
        return self._member(item, name, item, set())

    def _member(self, item: Type, name: str, receiver: Type, seen: set[Type]) -> Types:
        """`seen` are the types that were searched: many ways may lead to one ancestor."""
        kind = item[0]
        if item[:3] in seen or len(seen) > _MOST:
            return ()
        if kind in ("I", "K"):
            seen.add(item[:3])
        if kind == "I":
            return self._of_instance(item, name, receiver, seen)
        if kind == "T":
            return union(self._member(one, name, receiver, seen) for one in self.limit(item))
        if kind == "K":
            return self._of_class(item, name, seen)
        if kind in ("J", "F"):
            return self._of_function(item, name)
        if kind == "M":
            return self.exported(item[1], name)
        if kind == "N":
            bindings = self.files[item[1]].scopes[item[2]].names.get(name, ())
            return union(self.binding(item[1], one) for one in bindings)
        if kind == "b":
            return self._of_outside(item, name)
        return (("bm", name, item),) if kind == "g" else ()

    def _of_instance(self, item: Type, name: str, receiver: Type, seen: set[Type]) -> Types:
        made = self.of(item)
        env = {**dict(item[3]), (item[1], item[2], "this"): (receiver,)}
        found = self._values(item[1], made.members.get(name, ()))
        if not found:
            found = self._given(("I", item[1], item[2]), name)
        if found:
            return substitute(found, env)
        for base in self.bases(item):
            if found := self._member(base, name, receiver, seen):
                return found
        if made.members.get("[]") and name not in made.members:
            return substitute(self._values(item[1], made.members["[]"]), env)
        return ()

    def bases(self, item: Type) -> Types:
        """What an instance is an instance of by its class's heritage, or what an object spreads."""
        made = self.of(item)
        if made.kind == "object":
            return union(self.expression(item[1], base) for base in reversed(made.bases))
        found = union(self.type(item[1], one) for one in made.types)
        if not found:
            found = union(
                self.instances(one) if one[0] in ("K", "F") else self.constructed(one)
                for base in made.bases
                for one in self.expression(item[1], base)
            )
        own = (item[1], item[2])
        return tuple(one for one in substitute(found, dict(item[3])) if one[1:3] != own)

    def constructed(self, item: Type) -> Types:
        """What the construct signatures of a value give."""
        if item[0] == "K":
            return self.instances(item)
        if item[0] == "F":
            return (("J", item[1], item[2]),)
        if item[0] in ("I", "T"):
            return union(self.result(one) for one in self.member(item, "new") if one[0] == "F")
        return ()

    def _of_class(self, item: Type, name: str, seen: set[Type]) -> Types:
        made = self.of(item)
        if name == "prototype":
            return (("I", *item[1:], ()),)
        found = self._values(item[1], made.statics.get(name, ())) or self._given(item, name)
        if found:
            return found
        for base in self.parents(item):
            if found := self._member(base, name, base, seen):
                return found
        return ()

    def parents(self, item: Type) -> Types:
        """The values that a class extends."""
        found = union(self.expression(item[1], base) for base in self.of(item).bases)
        return tuple(one for one in found if one != item)

    def _of_function(self, item: Type, name: str) -> Types:
        if item[0] == "F":
            return (("J", *item[1:3]),) if name == "prototype" else self._given(("F", *item[1:3]), name)
        own = self.function(item).own.get(name, ())
        return self._values(item[1], own) or self._given(item, name)

    def _given(self, owner: tuple[str, str, int], name: str) -> Types:
        given = self.assigned.get(owner)
        if not given:
            return ()
        found = union(self.expression(path, value) for path, value in given.get(name, ()))
        if not found and "" in given and owner[0] in ("I", "J"):  # The whole prototype was assigned.
            whole = union(self.expression(path, value) for path, value in given[""])
            found = union(self.member(one, name) for one in whole if one[1:3] != owner[1:])
        return found

    def _values(self, file: str, members: tuple[Binding, ...]) -> Types:
        return union(self.binding(file, one) for one in members)

    # Outside

    def _of_outside(self, item: Type, name: str) -> Types:
        if item[1] == "Record" and len(item[2]) == 2:
            return item[2][1]  # type: ignore[no-any-return] # a tuple of types
        if name in ("size", "length"):
            return ()
        return (("bm", name, item),)

    def elements(self, types: Types) -> Types:
        """What iteration over a value, or an index of it, gives."""
        return union(self._elements(item) for item in types)

    def _elements(self, item: Type) -> Types:
        if item[0] == "b" and item[2]:
            if item[1] == "Tuple":
                return union(item[2])
            if item[1] == "Map":
                return outside("Tuple", *item[2])
            if item[1] in ("Array", "Set", "Iterable"):
                return item[2][0]  # type: ignore[no-any-return]
            if item[1] == "Record":
                return item[2][-1]  # type: ignore[no-any-return]
        if item[0] == "I":
            return self.member(item, "[]")
        return self.elements(self.limit(item)) if item[0] == "T" else ()

    def index(self, types: Types, at: int | None) -> Types:
        found: list[Types] = []
        for item in types:
            if item[0] == "b" and item[1] == "Tuple" and at is not None:
                found.append(item[2][at] if at < len(item[2]) else ())
            elif item[0] != "b" or item[1] not in ("Map", "Set"):
                found.append(self._elements(item))
        return union(found)

    def awaited(self, types: Types) -> Types:
        found: list[Types] = []
        for item in types:
            if item[0] == "b" and item[1] == "Promise":
                found.append(self.awaited(item[2][0]) if item[2] else ())
            else:
                found.append((item,))
        return union(found)

    def ancestors(self, item: Type) -> Iterator[Type]:
        """An instance, then what it is an instance of by heritage, each class once."""
        found, seen = [item], {item[:3]}
        for one in found:
            if one[0] == "I" and len(seen) <= _MOST:
                yield one
                new = [base for base in self.bases(one) if base[:3] not in seen]
                seen.update(base[:3] for base in new)
                found.extend(new)


def of_array(name: str, item: Type, results: Types) -> Types | None:
    """The result of a method of a collection; `results` are those of its callback. None for an unknown one."""
    args = item[2]
    first: Types = (union(args) if item[1] == "Tuple" else args[0]) if args else ()
    if item[1] in ("Array", "Tuple"):
        if name in known.SAME_ARRAY:
            return outside("Array", first)
        if name in known.ELEMENT:
            return first
        if name in ("map", "flatMap"):
            flat = [one[2][0] if one[0] == "b" and one[1] == "Array" and one[2] else (one,) for one in results]
            return outside("Array", union(flat) if name == "flatMap" else results)
        if name in ("values", "flat"):
            return outside("Array", first)
        return outside("Iterable", outside("Tuple", outside("number"), first)) if name == "entries" else None
    if item[1] == "Map" and len(args) == 2:
        found = {"get": args[1], "values": outside("Iterable", args[1]), "keys": outside("Iterable", args[0]),
                 "entries": outside("Iterable", outside("Tuple", *args)), "set": (item,)}  # fmt: skip
        return found.get(name)
    if item[1] == "Set" and args:
        return outside("Iterable", first) if name in ("values", "keys") else (item,) if name == "add" else None
    if item[1] == "Iterable" and name == "next":
        return ()
    return None
