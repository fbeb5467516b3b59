"""What a path names as a value: a function, a method, a constructor, a constant or what another crate has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kb.code.calls.rust.crates import Definition
from kb.code.calls.rust.declared import Declared
from kb.code.calls.rust.facts import RustFacts, Written
from kb.code.calls.rust.members import Members, Method, Outside
from kb.code.calls.rust.types import Type, external, substitute


@dataclass(slots=True)
class Target:
    """What a call site or a path calls: a `method`, a constructor of `made` with the types of its `fields`, a method
    from `outside`, or a value of the function type `value`. `result` is what is known without arguments."""

    method: Method | None = None
    is_method: bool = False
    made: Type = None
    fields: tuple[Type, ...] = ()
    outside: Outside | None = None
    value: Type = None
    result: Type = None
    path: str = ""
    given: tuple[Type, ...] = field(default=())


class Paths:
    """Of all files; `members` knows the methods of types."""

    def __init__(self, files: Mapping[str, RustFacts], declared: Declared, members: Members) -> None:
        self.files, self.declared, self.members = files, declared, members

    def target(self, file: str, context: int, written: Written) -> Target | None:
        """What a path names as a value."""
        if written[0] == "q":
            base = self.declared.type(file, context, written[1])
            for name, _ in written[3][:-1]:
                base = self.declared.project(base, name, file, context)
            if not written[3]:
                return None
            trait = self.declared.bound(file, context, written[2]) if written[2] is not None else None
            return self._associated(file, context, base, written[3][-1], trait[0] if trait is not None else None)
        if written[0] != "path":
            return None
        segments = written[1]
        where = self.declared.context(file, context)
        first = segments[0][0]
        base = None
        if first == "Self":
            base = self.declared.owner(file, where.owner)
            if len(segments) == 1:
                return self._constructor(file, base, "")
        else:
            base = self.declared.parameter(file, where, first)
        if base is not None:
            for name, _ in segments[1:-1]:
                base = self.declared.project(base, name, file, context)
            return self._associated(file, context, base, segments[-1], None) if len(segments) > 1 else None
        names = tuple(name for name, _ in segments)
        found = self.declared.crates.find((file, where.scope), names, "v")
        if found is None:
            return None
        definition, taken = found
        given = tuple(self.declared.type(file, context, one) for one in segments[taken - 1][1])
        if taken == len(segments):
            return self._defined(file, definition, given)
        if definition[0] == "trait":
            return self._of_trait(definition, segments[-1]) if taken == len(segments) - 1 else None
        if definition[0] in ("fn", "const", "mod"):
            return None
        base = self.declared.defined(definition, given)
        for name, _ in segments[taken:-1]:
            base = self.declared.project(base, name, file, context)
        return self._associated(file, context, base, segments[-1], None)

    def _defined(self, file: str, definition: Definition, given: tuple[Type, ...]) -> Target | None:
        kind = definition[0]
        if kind == "fn":
            return Target(method=Method(definition[1], definition[2], {}, None, "free"), given=given)
        if kind == "const":
            context, written = self.files[definition[1]].consts[definition[2]]
            return Target(value=self.declared.type(definition[1], context, written))
        if kind == "variant":
            return self._constructor(file, self.declared.defined(definition, given), definition[3])
        if kind == "data":
            return self._constructor(file, self.declared.defined(definition, given), "")
        if kind != "ext":
            return None
        parts = definition[1].split("::")
        if parts[-1] in ("Some", "None"):
            return Target(made=external("Option"), fields=(("p", "", "Option", 0, "0"),))
        if parts[-1] in ("Ok", "Err"):
            return Target(made=external("Result"), fields=(("p", "", "Result", 0, "01"[parts[-1] == "Err"]),))
        owner = "::".join(parts[:-1])
        item = self.declared.defined(("ext", owner), ()) if len(parts) > 1 and parts[-2][:1].isupper() else None
        return self._from_outside(item, parts[-1], definition[1], given)

    def _from_outside(self, item: Type, name: str, path: str, given: tuple[Type, ...]) -> Target:
        """A function of another crate, or an associated one of its type."""
        return Target(path=name if item is None else f"::{name}", result=item, given=given)

    def _constructor(self, file: str, item: Type, name: str) -> Target | None:
        if item is None or item[0] != "D":
            return None
        own = self.files[item[1]].data[item[2]]
        fields = own.variants.get(name, {})
        types = tuple(self.declared.type(item[1], own.context, one) for key, one in fields.items() if key.isdigit())
        return Target(made=item, fields=types)

    def _associated(
        self, file: str, context: int, item: Type, segment: tuple[str, tuple[Written, ...]], trait: Definition | None
    ) -> Target | None:
        name = segment[0]
        given = tuple(self.declared.type(file, context, one) for one in segment[1])
        if item is None:
            return None
        if item[0] == "D" and name in self.files[item[1]].data[item[2]].variants and trait is None:
            return self._constructor(file, item, name)
        if trait is not None and trait[0] == "trait":
            method = self.members.of_trait(item, trait, name, file, context)
            return Target(method=method, given=given) if method is not None else None
        found = self.members.own(item, name, file, context)
        if isinstance(found, Method):
            return Target(method=found, given=given)
        if isinstance(found, Outside):
            return Target(outside=found, given=given, path="::")
        if item[0] == "D":
            for one, _ in self.declared.of(item):
                if name in one.impl.consts:
                    return Target(value=self.declared.type(one.file, one.impl.context, one.impl.consts[name]))
            # What a derive makes.
            return Target(path=f"::{name}", result=item) if name in ("default", "clone", "from") else None
        return self._from_outside(item, name, "", given) if item[0] in ("X", "b", "[]") else None

    def _of_trait(self, trait: Definition, segment: tuple[str, tuple[Written, ...]]) -> Target | None:
        own = self.files[trait[1]].traits[trait[2]]
        number = own.functions.get(segment[0])
        if number is None:
            return None
        return Target(method=Method(trait[1], number, {}, None, "trait"))

    def value(self, target: Target | None) -> Type:
        """The type of a path that is no callee."""
        if target is None:
            return None
        if target.method is not None:
            params, result = self.declared.signature(target.method.file, target.method.function)
            own = self.files[target.method.file].functions[target.method.function]
            if own.self_type is not None:
                params = (target.method.receiver, *params)
            known = {**target.method.known}
            return substitute(("fn", params, result), known, self.declared.project)
        if target.made is not None:
            is_tuple = target.fields and target.made[0] == "D"
            return ("fn", target.fields, target.made) if is_tuple else target.made
        return target.value
