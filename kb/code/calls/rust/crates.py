"""The modules of all crates, and what a path in one of them means. Pure; each name of a module is looked up once.

A definition is a tuple: `("mod", file, scope)`, `("data", file, index)`, `("variant", file, index, name)`, `("trait",
file, index)`, `("alias", file, index)`, `("fn", file, index)`, `("const", file, index)`, `("prim", name)`, or `("ext",
path)` for what is outside of the project. Source: Rust reference, "Paths", "Use declarations", "Name resolution".
"""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import basename, dirname, join, normpath
from typing import Any

from kb.code.calls.rust import packages
from kb.code.calls.rust.facts import Entry, RustFacts, Scope, Use
from kb.code.calls.rust.library import PRELUDE, PRIMITIVES, STANDARD

Module = tuple[str, int]
Definition = tuple[Any, ...]
_SEARCHES = 400
"""Modules that are searched for one name, through `use` and `*`."""


class Crates:
    def __init__(self, files: Mapping[str, RustFacts], configuration: Mapping[str, bytes]) -> None:
        self._files = files
        self._roots: dict[str, str] = {}
        self._parents: dict[str, Module] = {}
        self._children: dict[tuple[str, int, str], str] = {}
        self._packages: dict[str, packages.Package] = {}
        self._places: dict[str, str] = {}
        self._found: dict[tuple[Module, str, str], Definition | None] = {}
        self._traits: dict[Module, frozenset[Definition]] = {}
        for package in packages.read(configuration, frozenset(files)):
            for root in package.roots:
                self._packages.setdefault(root, package)
                self._grow(root)
        self._left_over()

    # The tree of modules

    def _grow(self, root: str) -> None:
        """The files that belong to the crate of a file, which is no module of another one yet."""
        if root in self._roots:
            return
        self._roots[root] = root
        self._places[root] = dirname(root)
        self._spread(root, root)

    def _spread(self, root: str, first: str) -> None:
        pending = [first]
        while pending:
            file = pending.pop()
            for scope, own in enumerate(self._files[file].scopes):
                for name, entries in own.types.items():
                    for entry in sorted(entries, key=lambda one: not one.holds):
                        if entry.kind == "file" and (child := self._file(file, scope, name, entry)) is not None:
                            self._children.setdefault((file, scope, name), child)
                            if child not in self._roots:
                                self._roots[child] = root
                                self._parents[child] = file, scope
                                is_named = basename(child) == "mod.rs" or entry.path
                                self._places[child] = dirname(child) if is_named else child.removesuffix(".rs")
                                pending.append(child)

    def _file(self, file: str, scope: int, name: str, entry: Entry) -> str | None:
        inline: list[str] = []
        at = scope
        while at > 0:
            own = self._files[file].scopes[at]
            if not own.is_block:
                inline.append(own.name)
            at = own.parent
        place = join(self._places[file], *reversed(inline))
        if entry.path:
            wanted = [normpath(join(place if inline else dirname(file), entry.path))]
        else:
            wanted = [normpath(join(place, f"{name}.rs")), normpath(join(place, name, "mod.rs"))]
        return next((path for path in wanted if path in self._files and path != file), None)

    def _left_over(self) -> None:
        """Files that no `mod` leads to, which a macro may have declared: by their place, else each a crate."""
        left = sorted(
            (path for path in self._files if path not in self._roots), key=lambda path: (path.count("/"), path)
        )
        for path in left:
            if basename(path) in ("lib.rs", "main.rs"):
                self._grow(path)
        owners = {place: file for file, place in sorted(self._places.items(), reverse=True)}
        for path in left:
            if path in self._roots:
                continue
            is_mod = basename(path) == "mod.rs"
            folder = dirname(dirname(path)) if is_mod else dirname(path)
            owner = owners.get(folder)
            if owner is None or (is_mod and not dirname(path)):
                self._grow(path)
            else:
                self._roots[path], self._parents[path] = self._roots[owner], (owner, 0)
                self._places[path] = dirname(path) if is_mod else path.removesuffix(".rs")
                name = basename(dirname(path)) if is_mod else basename(path).removesuffix(".rs")
                self._children.setdefault((owner, 0, name), path)
                self._spread(self._roots[path], path)
            owners.setdefault(self._places[path], path)

    def _scope(self, module: Module) -> Scope:
        return self._files[module[0]].scopes[module[1]]

    def module_of(self, module: Module) -> Module:
        """The module that a scope is in: itself, if it is no block."""
        file, scope = module
        while self._files[file].scopes[scope].is_block:
            scope = self._files[file].scopes[scope].parent
        return file, scope

    def _parent(self, module: Module) -> Module:
        file, scope = module
        if scope:
            return self.module_of((file, self._scope(module).parent))
        return self._parents.get(file, module)

    def _is_within(self, module: Module, other: Module) -> bool:
        """Whether a module is another one or below it."""
        at = self.module_of(module)
        for _ in range(200):
            if at == other:
                return True
            above = self._parent(at)
            if above == at:
                return False
            at = above
        return False

    # Paths

    def find(self, module: Module, names: tuple[str, ...], wanted: str) -> tuple[Definition, int] | None:
        """What a path in a scope means, as far as modules and variants lead, and how many of its names that takes.

        `wanted` is `t` for types and modules, `v` for values.
        """
        return self._path(module, names, wanted, set())

    def _path(
        self, module: Module, names: tuple[str, ...], wanted: str, seen: set[Any]
    ) -> tuple[Definition, int] | None:
        last = len(names) - 1
        found, taken = self._first(module, names, wanted if last == 0 else "t", seen)
        while found is not None and taken <= last:
            step = self._step(module, found, names[taken], wanted if taken == last else "t", seen)
            if step is None:
                return None if found[0] in ("mod", "ext") else (found, taken)
            found, taken = step, taken + 1
        return None if found is None else (found, taken)

    def _first(
        self, module: Module, names: tuple[str, ...], wanted: str, seen: set[Any]
    ) -> tuple[Definition | None, int]:
        name = names[0]
        if name in ("crate", "$crate"):
            return ("mod", self._roots[module[0]], 0), 1
        if name in ("self", "super"):
            at, taken = self.module_of(module), 0
            if name == "self":
                taken = 1
            while taken < len(names) and names[taken] == "super":
                at, taken = self._parent(at), taken + 1
            return ("mod", *at), taken
        if name == "" and len(names) > 1:
            return self._crate(module, names[1]) or ("ext", names[1]), 2
        found = self._lexical(module, name, wanted, seen)
        if found is None and len(names) > 1:
            # In the edition of 2015 paths of `use` begin at the crate.
            found = self._name(("mod", self._roots[module[0]], 0), name, "t", seen, module)
            found = found or ("ext", name)
        return found, 1

    def _lexical(self, module: Module, name: str, wanted: str, seen: set[Any]) -> Definition | None:
        at = module
        while True:
            found = self._name(("mod", *at), name, wanted, seen, at)
            if found is not None:
                return found
            if not self._scope(at).is_block:
                break
            at = at[0], self._scope(at).parent
        if wanted == "t":
            found = self._crate(module, name)
            if found is not None:
                return found
            if name in PRIMITIVES:
                return ("prim", name)
        return ("ext", f"std::prelude::{name}") if name in PRELUDE else None

    def _crate(self, module: Module, name: str) -> Definition | None:
        package = self._packages.get(self._roots[module[0]])
        if package is not None and name in package.crates:
            return ("mod", package.crates[name], 0)
        known = name in STANDARD or (package is not None and name in package.outside)
        return ("ext", name) if known else None

    def _step(self, module: Module, found: Definition, name: str, wanted: str, seen: set[Any]) -> Definition | None:
        if found[0] == "ext":
            return ("ext", f"{found[1]}::{name}")
        if found[0] == "data" and name in self._files[found[1]].data[found[2]].variants:
            return ("variant", found[1], found[2], name)
        return self._name(found, name, wanted, seen, module) if found[0] == "mod" else None

    def _name(self, found: Definition, name: str, wanted: str, seen: set[Any], asking: Module) -> Definition | None:
        """A name of a module: its items, what it names by `use`, what `*` brings."""
        module: Module = found[1], found[2]
        key = (module, name, wanted)
        if key in self._found:
            return self._found[key]
        is_first = not seen
        if key in seen or len(seen) > _SEARCHES:
            return None
        seen.add(key)
        answer = self._own(module, name, wanted, seen)
        if answer is None:
            answer = self._starred(module, name, wanted, seen)
        if is_first or answer is not None:
            self._found[key] = answer
        if is_first:
            seen.clear()
        return answer

    def _own(self, module: Module, name: str, wanted: str, seen: set[Any]) -> Definition | None:
        scope = self._scope(module)
        entries = (scope.types if wanted == "t" else scope.values).get(name, ())
        uses = [use for use in scope.uses if use.alias == name]
        for holds in (True, False):
            found = [self._entry(module, name, one) for one in entries if one.holds is holds]
            found += [self._used(module, one, wanted, seen) for one in uses if one.holds is holds]
            some = [one for one in found if one is not None]
            if some:
                # Of several that a plain build lacks, none is more likely.
                return some[0] if holds or all(one == some[0] for one in some) else None
        if wanted == "t" and (child := self._children.get((*module, name))) is not None:
            return ("mod", child, 0)
        return None

    def _used(self, module: Module, use: Use, wanted: str, seen: set[Any]) -> Definition | None:
        found = self._path(module, use.path, wanted, seen)
        return found[0] if found is not None and found[1] == len(use.path) else None

    def _entry(self, module: Module, name: str, entry: Entry) -> Definition | None:
        if entry.kind == "file":
            child = self._children.get((*module, name))
            return None if child is None else ("mod", child, 0)
        return (entry.kind, module[0], entry.index)

    def _starred(self, module: Module, name: str, wanted: str, seen: set[Any]) -> Definition | None:
        for use in self._scope(module).uses:
            if use.alias != "*":
                continue
            target = self._used(module, use, "t", seen)
            if target is None:
                continue
            if target[0] == "mod":
                found = self._name(target, name, wanted, seen, module)
                if found is not None and self._is_visible((target[1], target[2]), name, wanted, module):
                    return found
            elif target[0] == "data" and (found := self._step(module, target, name, wanted, seen)) is not None:
                return found
        return None

    def _is_visible(self, module: Module, name: str, wanted: str, asking: Module) -> bool:
        """Whether `*` brings a name of a module: it is public, or the module is around."""
        if self._is_within(asking, self.module_of(module)):
            return True
        scope = self._scope(module)
        entries = (scope.types if wanted == "t" else scope.values).get(name, ())
        uses = [use for use in scope.uses if use.alias == name]
        if entries or uses:
            return any(one.is_public for one in (*entries, *uses))
        return True

    # Traits in scope

    def traits(self, module: Module) -> frozenset[Definition]:
        """The traits of the project whose methods a scope sees."""
        if module not in self._traits:
            self._traits[module] = frozenset()
            self._traits[module] = frozenset(self._brought(module, set()))
        return self._traits[module]

    def _brought(self, module: Module, seen: set[Module]) -> set[Definition]:
        if module in seen or len(seen) > _SEARCHES:
            return set()
        seen.add(module)
        scope = self._scope(module)
        found: set[Definition] = set()
        for entries in scope.types.values():
            found.update((entry.kind, module[0], entry.index) for entry in entries if entry.kind == "trait")
        for use in scope.uses:
            target = self._used(module, use, "t", set())
            if use.alias == "*" and target is not None and target[0] == "mod":
                found |= self._brought((target[1], target[2]), seen)
            elif target is not None and target[0] == "trait":
                found.add(target)
        if scope.is_block:
            found |= self._brought((module[0], scope.parent), seen)
        return found
