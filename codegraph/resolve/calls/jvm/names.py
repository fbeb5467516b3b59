"""Which type a name means: types around, members of them, imports, packages.

Source: https://docs.oracle.com/javase/specs/jls/se21/html/jls-6.html#jls-6.4.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegraph.resolve.calls.jvm.facts import Import, JvmFacts, Kind, Written
from codegraph.resolve.calls.jvm.types import Type

Place = tuple[str, int]
"""A type of the project: file and number."""
_MOST = 300
"""Types that are looked at for what one inherits."""


class Names:
    def __init__(self, files: Mapping[str, JvmFacts]) -> None:
        self.files = files
        self.packages: dict[str, dict[str, list[Place]]] = {}
        self.in_package: dict[str, list[str]] = {}
        for path, facts in files.items():
            own = self.packages.setdefault(facts.package, {})
            self.in_package.setdefault(facts.package, []).append(path)
            for name, number in facts.top.inner.items():
                own.setdefault(name, []).append((path, number))
            if facts.language == "kotlin":
                # What Java calls the functions of a file.
                stem = path.rpartition("/")[2].partition(".")[0]
                own.setdefault(f"{stem[:1].upper()}{stem[1:]}Kt", []).append((path, -1))
        self._bases: dict[Place, tuple[Type, ...]] = {}
        self._members: dict[tuple[Place, str], Place | None] = {}
        self._found: dict[tuple[str, int, str], Type] = {}

    def kind(self, place: Place) -> Kind:
        """The facts of a type."""
        facts = self.files[place[0]]
        return facts.top if place[1] < 0 else facts.kinds[place[1]]

    # Types as written

    def type(self, file: str, written: Written) -> Type:
        """The type that is meant."""
        tag = written[0]
        if tag == "t":
            args = tuple(self.type(file, one) for one in written[2])
            found = self._path(file, written[1], written[3])
            if found is None or found[0] == "P":
                return ("X", written[1][-1], args)
            return (*found[:-1], args) if found[0] in ("C", "X") and args else found
        if tag == "tp":
            return ("tp", file, written[1])
        if tag == "cls":
            return ("C", file, written[1], tuple(self.type(file, one) for one in written[2]))
        if tag == "[]":
            return ("[]", self.type(file, written[1]))
        if tag == "fn":
            receiver = None if written[3] is None else self.type(file, written[3])
            return ("fn", tuple(self.type(file, one) for one in written[1]), self.type(file, written[2]), receiver)
        return written if tag == "b" else None

    def _path(self, file: str, names: tuple[str, ...], kind: int) -> Type:
        found = self.named(file, names[0], kind)
        if found is None:
            return self.qualified(".".join(names), file)
        for name in names[1:]:
            place = self.member_type((found[1], found[2]), name) if found[0] == "C" else None
            found = ("X", name, ()) if place is None else ("C", *place, ())
        return found

    def named(self, file: str, name: str, kind: int) -> Type:
        """The type that a plain name means inside of a type of a file; None where there is none in sight."""
        key = (file, kind, name)
        if key not in self._found:
            self._found[key] = None
            self._found[key] = self._named(file, name, kind)
        return self._found[key]

    def _named(self, file: str, name: str, kind: int) -> Type:
        facts = self.files[file]
        while kind >= 0:
            own = facts.kinds[kind]
            if own.name == name:
                return ("C", file, kind, ())
            place = self.member_type((file, kind), name)
            if place is not None:
                return ("C", *place, ())
            kind = own.around
        if name in facts.top.inner:
            return ("C", file, facts.top.inner[name], ())
        if name in facts.aliases:
            return self.type(file, facts.aliases[name])
        for one in facts.imports:
            if one.name == name:
                found = self.qualified(one.path, file)
                if found is not None and found[0] != "P":
                    return found
                if one.path.rpartition(".")[2][:1].isupper():
                    return ("X", one.path.rpartition(".")[2], ())
        return self._of_package(facts.package, name, file) or self._starred(facts, name, file)

    def _starred(self, facts: JvmFacts, name: str, file: str) -> Type:
        for one in facts.imports:
            if one.name:
                continue
            found = self._of_package(one.path, name, file)
            if found is not None:
                return found
            outer = self.qualified(one.path, file)
            if outer is not None and outer[0] == "C":
                place = self.member_type((outer[1], outer[2]), name)
                if place is not None:
                    return ("C", *place, ())
        return None

    def _of_package(self, package: str, name: str, file: str) -> Type:
        places = self.packages.get(package, {}).get(name)
        if places:
            return ("C", *_nearest(places, file), ())
        for path in self.in_package.get(package, ()):
            if self.files[path].aliases and name in self.files[path].aliases:
                return self.type(path, self.files[path].aliases[name])
        return None

    def qualified(self, path: str, file: str) -> Type:
        """A type or package by its full name."""
        parts = path.split(".")
        for end in range(len(parts) - 1, -1, -1):
            package = ".".join(parts[:end])
            if package in self.packages and (found := self._of_package(package, parts[end], file)) is not None:
                for name in parts[end + 1 :]:
                    if found is None or found[0] != "C":
                        return None
                    place = self.member_type((found[1], found[2]), name)
                    found = None if place is None else ("C", *place, ())
                return found
        dotted = path + "."
        return ("P", path) if any(one == path or one.startswith(dotted) for one in self.packages) else None

    # Members

    def bases(self, place: Place) -> tuple[Type, ...]:
        """The types that a type extends and implements."""
        if place not in self._bases:
            self._bases[place] = ()
            kind = self.kind(place)
            found = (self.type(place[0], base) for base in kind.bases)
            self._bases[place] = tuple(base for base in found if base is not None and base[:3] != ("C", *place))
        return self._bases[place]

    def ancestors(self, place: Place) -> Iterator[Place]:
        """A type and what it inherits from, base classes before interfaces."""
        seen: set[Place] = set()
        interfaces: list[Place] = [place]
        while interfaces:
            current = interfaces.pop(0)
            while current not in seen and len(seen) < _MOST:
                seen.add(current)
                yield current
                places = [(base[1], base[2]) for base in self.bases(current) if base is not None and base[0] == "C"]
                classes = [one for one in places if self.kind(one).kind != "interface"]
                interfaces.extend(one for one in places if one not in classes)
                if not classes:
                    break
                current = classes[0]

    def member_type(self, place: Place, name: str) -> Place | None:
        """A type that is declared in a type or in what it inherits from."""
        key = (place, name)
        if key not in self._members:
            self._members[key] = None
            for one in self.ancestors(place):
                number = self.kind(one).inner.get(name)
                if number is not None:
                    self._members[key] = (one[0], number)
                    break
        return self._members[key]

    def imports(self, file: str, name: str) -> Iterator[Import]:
        """Imports that may bring a function, static member or property of a name, named ones first."""
        all_of = self.files[file].imports
        yield from (one for one in all_of if one.name == name)
        yield from (one for one in all_of if not one.name)


def _nearest(places: list[Place], file: str) -> Place:
    """Of types with the same full name, in other modules or source sets, the one with the most folders in common."""
    if len(places) == 1:
        return places[0]
    parts = file.split("/")

    def common(place: Place) -> int:
        count = 0
        for left, right in zip(parts, place[0].split("/"), strict=False):
            if left != right:
                break
            count += 1
        return -count

    return min(places, key=lambda place: (common(place), place))
