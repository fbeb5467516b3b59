"""Go types as tuples.

- `("N", package, name, args)` a named type of the project, `("X", path, name, args)` of another package;
- `("b", name)` a basic type, `("tp", file, binding)` a type parameter;
- `("*", type)`, `("[]", element)`, `("map", key, value)`, `("chan", element)`, `("fn", params, results, is_variadic)`;
- `("struct", fields)` and `("iface", methods, embedded)` with types in place of expressions;
- `("type", type)` says that an expression denotes the type itself, `("pkg", package)` and `("xpkg", path)` packages,
  `("tuple", types)` the results of a call. None is unknown.
"""

from __future__ import annotations

from typing import Any

Type = tuple[Any, ...] | None
Parameter = tuple[str, int]


def substitute(item: Type, known: dict[Parameter, Type]) -> Type:
    """The type with type parameters replaced."""
    if item is None or not known:
        return item
    kind = item[0]
    if kind == "tp":
        return known.get((item[1], item[2]), item)
    if kind in ("*", "[]", "chan", "type"):
        return (kind, substitute(item[1], known))
    if kind == "map":
        return (kind, substitute(item[1], known), substitute(item[2], known))
    if kind in ("N", "X"):
        return (*item[:3], tuple(substitute(arg, known) for arg in item[3])) if item[3] else item
    if kind == "tuple":
        return (kind, tuple(substitute(part, known) for part in item[1]))
    if kind == "fn":
        params, results = (tuple(substitute(part, known) for part in parts) for parts in item[1:3])
        return (kind, params, results, item[3])
    if kind == "struct":
        return (kind, tuple((name, substitute(part, known), embedded) for name, part, embedded in item[1]))
    if kind == "iface":
        methods = tuple((name, substitute(part, known)) for name, part in item[1])
        return (kind, methods, tuple(substitute(part, known) for part in item[2]))
    return item


def unify(declared: Type, given: Type, known: dict[Parameter, Type]) -> None:
    """Learns type parameters from an argument."""
    if declared is None or given is None:
        return
    kind = declared[0]
    if kind == "tp":
        known.setdefault((declared[1], declared[2]), given)
    elif kind == "type" and given[0] == "type":
        unify(declared[1], given[1], known)
    elif kind != given[0]:
        return
    elif kind in ("*", "[]", "chan"):
        unify(declared[1], given[1], known)
    elif kind == "map":
        unify(declared[1], given[1], known)
        unify(declared[2], given[2], known)
    elif kind in ("N", "X") and declared[1:3] == given[1:3]:
        for left, right in zip(declared[3], given[3], strict=False):
            unify(left, right, known)
    elif kind == "fn":
        for left, right in zip((*declared[1], *declared[2]), (*given[1], *given[2]), strict=False):
            unify(left, right, known)


def pointed(item: Type) -> Type:
    """The type behind a pointer, or the type itself."""
    return item[1] if item is not None and item[0] == "*" else item
