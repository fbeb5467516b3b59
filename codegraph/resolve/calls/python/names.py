"""What names mean: scopes, imports, modules, classes with their ancestors and attributes."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping

from codegraph.resolve.calls.python import known
from codegraph.resolve.calls.python.facts import Binding, Expression, PythonFacts, Scope
from codegraph.resolve.calls.python.modules import Modules
from codegraph.resolve.calls.python.types import SELF, Type, Types, substitute, union

Class = tuple[str, int]
Ancestor = tuple[str, int, dict[str, Types]]
_BUILTINS = frozenset(dir(builtins))
_ANCESTORS = 60
DEPTH = 60
"""Expressions that need more steps than this are unknown."""


class Names:
    """Finds names. `binding_types`, `expression` and `annotation` are those of `Inference`."""

    def __init__(self, files: Mapping[str, PythonFacts], configuration: Collection[str]) -> None:
        self.files = files
        self.modules = Modules(files, configuration)
        bindings = (binding for facts in files.values() for binding in facts.bindings)
        self.modules.name_root(
            binding[1] for binding in bindings if binding[0] == "import" or (binding[0] == "from" and not binding[2])
        )
        self.depth = 0
        self._bindings: dict[tuple[str, int], Types] = {}
        self._exports: dict[tuple[str, str], Types] = {}
        self._ancestors: dict[Class, list[Ancestor]] = {}
        self._attributes: dict[tuple[str, int, str, bool], tuple[Types, Class | None]] = {}

    # Declared here, defined where they belong: each needs the others.

    def binding_types(self, file: str, binding: Binding) -> Types:
        raise NotImplementedError

    def expression(self, file: str, expression: Expression) -> Types:
        raise NotImplementedError

    def annotation(self, file: str, expression: Expression | None) -> Types:
        raise NotImplementedError

    def result(self, file: str, scope: int) -> Types:
        raise NotImplementedError

    # Bindings and scopes

    def scope(self, item: Type) -> Scope:
        found: Scope = self.files[item[1]].scopes[item[2]]
        return found

    def bound(self, file: str, number: int) -> Types:
        """The types of a binding; none while it is being looked at already."""
        key = (file, number)
        if key in self._bindings:
            return self._bindings[key]
        if self.depth > DEPTH:
            return ()
        self._bindings[key] = ()
        self.depth += 1
        found = self.binding_types(file, self.files[file].bindings[number])
        self.depth -= 1
        self._bindings[key] = found
        return found

    def any_bound(self, file: str, numbers: tuple[int, ...]) -> Types:
        """The union of bindings; a declared type is the only one that counts."""
        if len(numbers) == 1:
            return self.bound(file, numbers[0])
        bindings = self.files[file].bindings
        declared = [number for number in numbers if bindings[number][0] == ":"]
        if declared and all(bindings[number][0] in (":", "=", "?") for number in numbers):
            found = union(self.bound(file, number) for number in declared)
            if found:
                return found
        return union(self.bound(file, number) for number in numbers)

    def name(self, file: str, scope: int, name: str) -> Types:
        """A name as a scope sees it: classes around it are passed over, as Python does."""
        scopes = self.files[file].scopes
        current = scope
        while current >= 0:
            here = scopes[current]
            if here.kind != "class" or current == scope:
                if name in here.names and current:
                    return self.any_bound(file, here.names[name])
                if name in here.type_names:
                    return (("T", name, ()),)
            elif name in here.type_names:
                return (("T", name, ()),)
            current = here.parent
        found = self.export(file, name)
        if found or name in scopes[0].names:
            return found
        if name in _BUILTINS:
            return (("x", f"builtins.{name}"),)
        outside = [module for module, level in scopes[0].stars if not level and not self.modules.find(file, module, 0)]
        return (("x", f"{outside[-1]}.{name}"),) if outside else ()

    def export(self, file: str, name: str) -> Types:
        """What a module's attribute is: a name of its own, one of a star import, a submodule."""
        key = (file, name)
        if key not in self._exports:
            self._exports[key] = ()
            self._exports[key] = self._export(file, name)
        return self._exports[key]

    def _export(self, file: str, name: str) -> Types:
        facts = self.files.get(file)
        if facts is not None:
            top = facts.scopes[0]
            if name in top.names:
                found = self.any_bound(file, top.names[name])
                if found:
                    return found
            for module, level in reversed(top.stars):
                target = self.modules.find(file, module, level)
                if target is None or target == file or not self._is_exported(target, name):
                    continue
                if found := self.export(target, name):
                    return found
        child = self.modules.child(file, name)
        return (("m", child),) if child is not None else ()

    def _is_exported(self, file: str, name: str) -> bool:
        facts = self.files.get(file)
        if facts is not None and facts.exported is not None:
            return name in facts.exported
        return not name.startswith("_")

    def imported(self, file: str, binding: Binding) -> Types:
        """What an import binds."""
        if binding[0] == "import":
            _, module, alias = binding
            target = self.modules.find(file, module if alias else module.split(".")[0], 0)
            if target is None:
                return (("x", module if alias else module.split(".")[0]),)
            return (("m", target),)
        _, module, level, name = binding
        target = self.modules.find(file, module, level)
        if target is None:
            return () if level else (("x", f"{module}.{name}"),)
        if target == file:
            child = self.modules.child(target, name)
            return (("m", child),) if child is not None else ()
        return self.export(target, name)

    # Classes

    def ancestors(self, file: str, scope: int) -> list[Ancestor]:
        """The class and its ancestors within the project in the order of lookup (C3), with their type arguments."""
        key = (file, scope)
        if self.depth > DEPTH and key not in self._ancestors:
            return [(file, scope, {})]
        if key not in self._ancestors:
            self.depth += 3
            self._ancestors[key] = [(file, scope, {})]
            lines: list[list[Ancestor]] = []
            direct: list[Ancestor] = []
            for base in self.files[file].scopes[scope].bases:
                for item in self.annotation_of_base(file, base):
                    if item[:3] != ("I", file, scope):
                        known_args = dict(zip(self.type_names(item[1], item[2]), item[3], strict=False))
                        line = [
                            (path, number, {name: substitute(types, known_args) for name, types in args.items()})
                            for path, number, args in self.ancestors(item[1], item[2])
                        ]
                        line[0] = (item[1], item[2], known_args)
                        lines.append(line)
                        direct.append(line[0])
                    break
            self._ancestors[key] = [(file, scope, {}), *_linear([*lines, direct])[:_ANCESTORS]]
            self.depth -= 3
        return self._ancestors[key]

    def annotation_of_base(self, file: str, base: Expression) -> Types:
        return tuple(item for item in self.annotation(file, base) if item[0] == "I" and item[3] != SELF)

    def type_names(self, file: str, scope: int) -> tuple[str, ...]:
        """The type variables of a class in the order of its arguments."""
        found = self.files[file].scopes[scope]
        if found.type_names:
            return found.type_names
        names: dict[str, None] = {}
        for base in found.bases:
            if base[0] == "s":
                arguments = base[2][2] if base[2][:2] == ("L", "tuple") else (base[2],)
                for item in (item for part in arguments for item in self.annotation(file, part)):
                    if item[0] == "T":
                        names[item[1]] = None
        return tuple(names)

    def is_enum(self, file: str, scope: int) -> bool:
        return any(
            item[0] == "x" and item[1].rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
            for path, number, _ in self.ancestors(file, scope)
            for base in self.files[path].scopes[number].bases
            for item in self.expression(path, base)
        )

    def is_subclass(self, item: Type, base: Type) -> bool:
        return any(base[1:3] == (path, number) for path, number, _ in self.ancestors(item[1], item[2]))

    def member(self, receiver: Type, name: str, after: Class | None = None) -> tuple[Types, Class | None]:
        """An attribute of an instance ("I") or class ("K"), and the class that has it.

        `after` starts the search behind that class, as `super()` does.
        """
        found_after = after is None
        for path, number, args in self.ancestors(receiver[1], receiver[2]):
            if not found_after:
                found_after = (path, number) == after
                continue
            found = self._own(path, number, name, receiver[0] == "I")
            if found is None:
                continue
            if args or (receiver[0] == "I" and receiver[3] not in ((), SELF)):
                own = (
                    {}
                    if receiver[3:] in ((), (SELF,))
                    else dict(zip(self.type_names(receiver[1], receiver[2]), receiver[3], strict=False))
                )
                merged = {key: substitute(types, own) for key, types in args.items()} or own
                found = substitute(found, merged)
            return self._bind(found, receiver, path, number), (path, number)
        return (), None

    def _own(self, file: str, scope: int, name: str, of_instance: bool) -> Types | None:
        """What a class itself has under a name; None when it has nothing."""
        here = self.files[file].scopes[scope]
        numbers = here.names.get(name)
        bindings = self.files[file].bindings
        if numbers is not None:
            kinds = {bindings[number][0] for number in numbers}
            if "def" in kinds or "class" in kinds or not of_instance or name not in here.attributes:
                found = self.any_bound(file, numbers)
                return found if found or name not in here.attributes else self.any_bound(file, here.attributes[name])
            return self.any_bound(file, (*numbers, *here.attributes[name]))
        if name in here.attributes:
            return self.any_bound(file, here.attributes[name])
        return None

    def _bind(self, found: Types, receiver: Type, file: str, scope: int) -> Types:
        """Functions become methods, properties their values, members of an enum instances."""
        parts: list[Types] = []
        for item in found:
            if item[0] != "F":
                parts.append((item,))
                continue
            function = self.scope(item)
            if self.files[item[1]].scopes[function.parent].kind != "class":
                parts.append((("M", item[1], item[2], receiver) if receiver[0] == "I" else item,))
                continue
            names = self.decorations(item[1], item[2])
            if names & known.PROPERTIES:
                if receiver[0] == "I":
                    parts.append(self.to_self(self.result(item[1], item[2]), receiver))
            elif "staticmethod" in names:
                parts.append((item,))
            elif "classmethod" in names or function.name in ("__new__", "__init_subclass__", "__class_getitem__"):
                parts.append((("M", item[1], item[2], ("K", *receiver[1:3])),))
            elif receiver[0] == "I":
                parts.append((("M", item[1], item[2], receiver),))
            else:
                parts.append((item,))
        return union(parts)

    def decorations(self, file: str, scope: int) -> set[str]:
        """Names of the decorators: whole for what is outside, and the last part."""
        names: set[str] = set()
        for decorator in self.files[file].scopes[scope].decorators:
            expression = decorator
            if expression[0] == "c":
                expression = self.files[file].calls[expression[1]].callee
            for item in self.expression(file, expression):
                if item[0] == "x":
                    name = item[1].removeprefix("builtins.")
                    names |= {name, name.rpartition(".")[2]}
                elif item[0] in ("F", "K"):
                    names.add(self.scope(item).name)
        return names

    def to_self(self, found: Types, receiver: Type) -> Types:
        """The types with what `self` stands for in them replaced by the receiver."""
        if not any(_has_self(item) for item in found):
            return found
        return union((self._to_self(item, receiver),) for item in found)

    def _to_self(self, item: Type, receiver: Type) -> Type:
        if item[0] == "I" and item[3] == SELF and self.is_subclass(receiver, item):
            return receiver if receiver[0] == "I" else ("I", receiver[1], receiver[2], ())
        if item[0] == "K" and len(item) == 4 and self.is_subclass(receiver, item):
            return ("K", *receiver[1:3])
        if item[0] == "b":
            return (*item[:2], tuple(self.to_self(arg, receiver) for arg in item[2]))
        return item

    def own_class(self, file: str, scope: int) -> Class | None:
        """The class whose method a scope is in, through functions and comprehensions in it."""
        scopes = self.files[file].scopes
        current = scopes[scope].parent
        while current > 0:
            if scopes[current].kind == "class":
                return (file, current)
            current = scopes[current].parent
        return None


def _has_self(item: Type) -> bool:
    if item[0] == "I":
        return bool(item[3] == SELF)
    if item[0] == "K":
        return len(item) == 4
    return item[0] == "b" and any(_has_self(inner) for arg in item[2] for inner in arg)


def _linear(lines: list[list[Ancestor]]) -> list[Ancestor]:
    """C3; where no order exists, the order of the bases from left to right."""
    lines = [list(line) for line in lines if line]
    found: list[Ancestor] = []
    while lines:
        for line in lines:
            head = line[0]
            if not any(head[:2] == other[:2] for rest in lines for other in rest[1:]):
                break
        else:
            head = lines[0][0]
        found.append(head)
        lines = [rest for line in lines if (rest := [item for item in line if item[:2] != head[:2]])]
    return found
