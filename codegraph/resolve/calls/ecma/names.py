"""What names, exports and annotations mean over the files of a project."""

from __future__ import annotations

from collections.abc import Mapping

from codegraph.resolve.calls.ecma import known
from codegraph.resolve.calls.ecma.facts import Annotation, Binding, Class, EcmaFacts, Expression, Function
from codegraph.resolve.calls.ecma.modules import Modules
from codegraph.resolve.calls.ecma.types import Key, Type, Types, outside, substitute, union

_DEEPEST = 120


class Names:
    def __init__(self, files: Mapping[str, EcmaFacts], configuration: Mapping[str, bytes]) -> None:
        self.files = files
        self.modules = Modules(files, configuration)
        self.depth = 0
        self._annotations: dict[tuple[str, Annotation], Types] = {}
        self._exports: dict[tuple[object, ...], Types] = {}
        self._exporting: set[tuple[object, ...]] = set()

    def expression(self, file: str, expression: Expression) -> Types:
        raise NotImplementedError

    def member(self, item: Type, name: str) -> Types:
        raise NotImplementedError

    def result(self, item: Type) -> Types:
        raise NotImplementedError

    def elements(self, types: Types) -> Types:
        raise NotImplementedError

    def awaited(self, types: Types) -> Types:
        raise NotImplementedError

    def of(self, item: Type) -> Class:
        return self.files[item[1]].classes[item[2]]

    def function(self, item: Type) -> Function:
        return self.files[item[1]].functions[item[2]]

    def lookup(self, file: str, scope: int, name: str) -> tuple[Binding, ...]:
        """What binds a name, in the nearest scope that does."""
        scopes = self.files[file].scopes
        while scope >= 0:
            if name in scopes[scope].names:
                return scopes[scope].names[name]
            scope = scopes[scope].parent
        return ()

    def name(self, file: str, scope: int, name: str) -> Types:
        found = self.lookup(file, scope, name)
        if found:
            return union(self.binding(file, one) for one in found)
        return (("g", name),) if name in known.GLOBALS else ()

    def binding(self, file: str, binding: Binding) -> Types:
        kind = binding[0]
        if kind == "f":
            return (("F", file, binding[1], ()),)
        if kind == "K":
            return (("K", file, binding[1]),)
        if kind == "=":
            return self.expression(file, binding[1])
        if kind == ":":
            found = self.type(file, binding[1])
            if binding[2] is not None and binding[2][0] == "f" and self.files[file].functions[binding[2][1]].qname:
                # The declaration is the function: its annotation says the types of its parameters and its result.
                return (("F", file, binding[2][1], ()),)
            return found if found or binding[2] is None else self.expression(file, binding[2])
        if kind == "import":
            path = self.modules.find(file, binding[1])
            return () if path is None else self.exported(path, binding[2])
        if kind == "ns":
            return (("N", file, binding[1]),)
        if kind == "get":
            return self.result(("F", file, binding[1], ()))
        return ()

    # Modules

    def exported(self, path: str, name: str, is_type: bool = False, args: tuple[Types, ...] = ()) -> Types:
        """The values, or the instances of the types, that a module exports under a name; `*` is the module.

        `args` are those of a generic type.
        """
        key = (path, name, is_type, args)
        if key in self._exports:
            return self._exports[key]
        if key in self._exporting:
            return ()
        self._exporting.add(key)
        try:
            self._exports[key] = self._exported(path, name, is_type, args)
        finally:
            self._exporting.discard(key)
        return self._exports[key]

    def _exported(self, path: str, name: str, is_type: bool, args: tuple[Types, ...]) -> Types:
        facts = self.files[path]
        if name in ("*", "=") and not ("=" in facts.exports and not is_type):
            return (("M", path),)
        if name == "*":
            whole = self.exported(path, "=")
            return union([whole, (("M", path),)]) if len(facts.exports) > 1 else whole
        found = union(self._entry(path, entry, is_type, args) for entry in facts.exports.get(name, ()))
        if found or name == "=":
            return found
        if name != "default":
            for module in facts.stars:
                target = self.modules.find(path, module)
                if target is not None and (found := self.exported(target, name, is_type, args)):
                    return found
        if "=" in facts.exports and not is_type:
            whole = self.exported(path, "=")
            return whole if name == "default" else union(self.member(item, name) for item in whole)
        if "=" in facts.exports and name == "default":
            return union(self._entry(path, entry, True, args) for entry in facts.exports["="])
        return (("M", path),) if name == "default" and facts.exports and "default" not in facts.exports else ()

    def _entry(self, path: str, entry: Expression, is_type: bool, args: tuple[Types, ...]) -> Types:
        if entry[0] == "l":
            return self.type_name(path, 0, entry[1], args) if is_type else self.name(path, 0, entry[1])
        if entry[0] == "r":
            target = self.modules.find(path, entry[1])
            return () if target is None else self.exported(target, entry[2], is_type, args)
        values = self.expression(path, entry[1])
        return union(self.instances(item) for item in values) if is_type else values

    def instances(self, item: Type) -> Types:
        if item[0] == "K":
            return (("I", item[1], item[2], ()),)
        return (("J", item[1], item[2]),) if item[0] == "F" else ()

    # Types

    def type(self, file: str, annotation: Annotation | None) -> Types:
        """The values that an annotation allows."""
        if annotation is None or self.depth > _DEEPEST:
            return ()
        key = (file, annotation)
        if key in self._annotations:
            return self._annotations[key]
        self._annotations[key] = ()
        self.depth += 1
        try:
            self._annotations[key] = self._type(file, annotation)
        finally:
            self.depth -= 1
        return self._annotations[key]

    def _type(self, file: str, annotation: Annotation) -> Types:
        kind = annotation[0]
        if kind == "t":
            return self.type_name(file, annotation[1], annotation[2], self._types(file, annotation[3]))
        if kind == "t.":
            args = self._types(file, annotation[3])
            return union(self._of(item, annotation[2], args) for item in self.type(file, annotation[1]))
        if kind == "union":
            return union(self._types(file, annotation[1]))
        if kind == "fn":
            return (("F", file, annotation[1], ()),)
        if kind == "obj":
            return (("I", file, annotation[1], ()),)
        if kind == "arr":
            return outside("Array", self.type(file, annotation[1]))
        if kind == "tup":
            return outside("Tuple", *self._types(file, annotation[1]))
        if kind == "typeof":
            return self.expression(file, annotation[1])
        if kind == ".t":
            base = self.type(file, annotation[1])
            if annotation[2] == "[]":
                return self.elements(base)
            return union(self.member(item, annotation[2]) for item in base)
        if kind == "this":
            return self._this(file, annotation[1])
        if kind == "imp":
            path = self.modules.find(file, annotation[1])
            return () if path is None else self.exported(path, "default", True) or (("M", path),)
        return outside(annotation[1]) if kind == "k" and annotation[1] in ("string", "number") else ()

    def _types(self, file: str, annotations: tuple[Annotation, ...]) -> tuple[Types, ...]:
        return tuple(self.type(file, one) for one in annotations)

    def _this(self, file: str, scope: int) -> Types:
        scopes = self.files[file].scopes
        while scope >= 0:
            owner = scopes[scope].owner
            if owner >= 0 and self.files[file].classes[owner].kind in ("class", "interface"):
                return (("T", file, owner, "this"),)
            scope = scopes[scope].parent
        return ()

    def type_name(self, file: str, scope: int, name: str, args: tuple[Types, ...]) -> Types:
        scopes = self.files[file].scopes
        start = scope
        while scope >= 0:
            if name in scopes[scope].types:
                found = scopes[scope].types[name]
                return union(self._bound(file, scope, name, one, args) for one in found)
            scope = scopes[scope].parent
        # A comment of JavaScript may name a class that `require` gives.
        values = self.name(file, start, name) if self.lookup(file, start, name) else ()
        found = union(self.instances(item) for item in values if item[0] == "K")
        return found or self._outside(name, args)

    def _bound(self, file: str, scope: int, name: str, binding: Binding, args: tuple[Types, ...]) -> Types:
        kind = binding[0]
        if kind == "K":
            made = self.files[file].classes[binding[1]]
            return (("I", file, binding[1], environment(file, made.scope, made.type_params, args)),)
        if kind == "alias":
            env = environment(file, binding[1], binding[2], args)
            return substitute(self.type(file, binding[3]), dict(env))
        if kind == "tp":
            return (("T", file, scope, name),)
        if kind == "ns":
            return (("N", file, binding[1]),)
        if kind == "import":
            path = self.modules.find(file, binding[1])
            return () if path is None else self.exported(path, binding[2], True, args)
        return ()

    def _of(self, item: Type, name: str, args: tuple[Types, ...]) -> Types:
        if item[0] == "M":
            return self.exported(item[1], name, True, args)
        if item[0] == "N":
            found = self.files[item[1]].scopes[item[2]].types.get(name, ())
            return union(self._bound(item[1], item[2], name, one, args) for one in found)
        return ()

    def _outside(self, name: str, args: tuple[Types, ...]) -> Types:
        first = args[0] if args else ()
        if name in known.WRAPPERS:
            return first
        if name == "Awaited":
            return self.awaited(first)
        if name == "ReturnType":
            return union(self.result(item) for item in first if item[0] == "F")
        if name == "InstanceType":
            return union(
                self.instances(one) for item in first for one in (self.limit(item) if item[0] == "T" else (item,))
            )
        return outside(known.SAME.get(name, name), *args)

    def limit(self, item: Type) -> Types:
        """The types that a type parameter stands for at least."""
        if item[3] == "this":
            return (("I", item[1], item[2], ()),)
        found = self.files[item[1]].scopes[item[2]].types.get(item[3], ())
        return union(self.type(item[1], one[1]) for one in found if one[0] == "tp")


def environment(
    file: str, scope: int, params: tuple[str, ...], args: tuple[Types, ...]
) -> tuple[tuple[Key, Types], ...]:
    return tuple(((file, scope, name), types) for name, types in zip(params, args, strict=False) if types)
