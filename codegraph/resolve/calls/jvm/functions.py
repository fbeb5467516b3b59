"""Functions and properties that Kotlin declares outside of types, and extensions, by what a file sees.

Source: https://kotlinlang.org/spec/scopes-and-identifiers.html#linked-scopes
"""

from __future__ import annotations

from collections.abc import Iterator

from codegraph.resolve.calls.jvm.facts import Method, Written
from codegraph.resolve.calls.jvm.members import Arguments, Found, Members
from codegraph.resolve.calls.jvm.types import Type

_WIDE = {
    "Iterable": ("Collection", "List", "Set", "MutableList", "MutableSet", "ArrayList", "MutableCollection"),
    "Collection": ("List", "Set", "MutableList", "MutableSet", "ArrayList", "MutableCollection"),
    "List": ("MutableList", "ArrayList"),
    "Set": ("MutableSet", "HashSet", "LinkedHashSet"),
    "Map": ("MutableMap", "HashMap", "LinkedHashMap"),
    "CharSequence": ("String", "StringBuilder"),
}
_MOST = 300
"""Functions of one name in a package that are tried."""


class Functions:
    def __init__(self, members: Members) -> None:
        self._members = members
        self._methods: dict[tuple[str, str], list[tuple[str, Method]]] = {}
        self._properties: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._extensions: dict[tuple[str, str], list[tuple[str, Written, int]]] = {}
        for path, facts in members.names.files.items():
            for name, methods in facts.top.methods.items():
                self._methods.setdefault((facts.package, name), []).extend((path, method) for method in methods)
            for name, number in facts.top.members.items():
                self._properties.setdefault((facts.package, name), []).append((path, number))
            for name, found in facts.extensions.items():
                self._extensions.setdefault((facts.package, name), []).extend((path, *one) for one in found)

    def _levels(self, file: str, name: str) -> Iterator[tuple[str, str]]:
        """Package and name: named imports, the file's package, imports of all of a package."""
        facts = self._members.names.files[file]
        for one in facts.imports:
            if one.name == name:
                package, _, real = one.path.rpartition(".")
                yield package, real
        yield facts.package, name
        for one in facts.imports:
            if not one.name:
                yield one.path, name

    def function(self, file: str, name: str, args: Arguments, base: Type = None) -> Found | None:
        """A function without a receiver, or an extension of the type `base`."""
        for level in self._levels(file, name):
            found = self.of_package(level[0], level[1], args, file, base)
            if found is not None:
                return found
        return None

    def of_package(self, package: str, name: str, args: Arguments, file: str, base: Type = None) -> Found | None:
        """The same, of one package."""
        best: tuple[tuple[int, bool], Found] | None = None
        for path, method in self._methods.get((package, name), [])[:_MOST]:
            score = self.fit(method, path, args, base)
            if score is not None and (best is None or (score, path == file) > best[0]):
                best = ((score, path == file), Found(method, (path, -1), {}))
        return None if best is None else best[1]

    def fit(self, method: Method, path: str, args: Arguments, base: Type) -> int | None:
        """How well a function takes its receiver and arguments."""
        if (method.receiver is None) != (base is None):
            return None
        received = 0
        if method.receiver is not None:
            score = self._receives(self._members.names.type(path, method.receiver), base)
            if score is None:
                return None
            received = score
        score = self._members.fit(method, path, {}, args)
        return None if score is None else received + score

    def _receives(self, declared: Type, given: Type) -> int | None:
        if declared is None or given is None:
            return None
        if declared[0] == "tp":
            bound = self._members.bound(declared)
            return 0 if bound is None else None if self._receives(bound, given) is None else 1
        if declared[0] == given[0] == "X":
            if declared[1] == given[1]:
                return 8
            return 4 if given[1] in _WIDE.get(declared[1], ()) else 0 if declared[1] == "Any" else None
        if declared[0] == "X" and declared[1] == "Any":
            return 0
        if declared[0] == "X" and given[0] == "C":
            place = (given[1], given[2])
            return (
                2
                if any(base is not None and base[1] == declared[1] for base in self._members.external(place))
                else None
            )
        return self._members.accepts(declared, given) if declared[0] == given[0] else None

    def property(self, file: str, name: str) -> tuple[str, int] | None:
        """The file and the binding of a property outside of types."""
        for level in self._levels(file, name):
            found = self._properties.get(level)
            if found:
                return next((one for one in found if one[0] == file), found[0])
        return None

    def extension(self, file: str, name: str, base: Type) -> tuple[str, int] | None:
        """The file and the binding of a property of a type that it does not declare itself."""
        for level in self._levels(file, name):
            for path, receiver, number in self._extensions.get(level, ()):
                if self._receives(self._members.names.type(path, receiver), base) is not None:
                    return path, number
        return None
