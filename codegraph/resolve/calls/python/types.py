"""Types of Python values as tuples, and sets of them in a fixed order.

- `("I", file, scope, args)` an instance, `("K", file, scope)` a class, `("F", file, scope)` a function,
  `("M", file, scope, self)` a method with what it is bound to, `("S", file, scope, self)` `super()` after a class;
- `("m", path)` a module of the project, `("x", name)` a dotted name outside of it;
- `("b", name, args)` an instance of a type outside, `("bm", name, self)` its method;
- `("A", file, expression)` a generic alias, `("T", name, bound)` a type variable;
- `("R", types)` a callable that returns, `("P", types)` a partial.

`args` of an instance of the type that `self` stands for is `SELF`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Type = tuple[Any, ...]
Types = tuple[Type, ...]
"""No type means unknown."""
SELF = "self"
LIMIT = 40
"""More alternatives than this are as good as unknown."""


def union(parts: Iterable[Types]) -> Types:
    found: dict[Type, None] = {}
    for part in parts:
        for item in part:
            found[item] = None
    return tuple(found) if len(found) <= LIMIT else ()


def instance(name: str, *args: Types) -> Types:
    return (("b", name, args),)


def argument(item: Type, index: int) -> Types:
    """The argument of a generic type; a negative index counts from the end."""
    args = item[2] if item[0] == "b" else item[3]
    if args == SELF or not args or not -len(args) <= index < len(args):
        return ()
    found: Types = args[index]
    return found


def substitute(types: Types, known: dict[str, Types]) -> Types:
    """The types with type variables replaced; a variable that is not known becomes its bound."""
    if not any(_is_open(item) for item in types):
        return types
    return union(_substitute(item, known) for item in types)


def _is_open(item: Type) -> bool:
    kind = item[0]
    if kind == "T":
        return True
    if kind == "b":
        return any(_is_open(inner) for arg in item[2] for inner in arg)
    if kind == "I":
        return item[3] != SELF and any(_is_open(inner) for arg in item[3] for inner in arg)
    return kind in ("R", "P") and any(_is_open(inner) for inner in item[1])


def _substitute(item: Type, known: dict[str, Types]) -> Types:
    kind = item[0]
    if kind == "T":
        return known[item[1]] if item[1] in known else item[2]
    if kind == "b":
        return ((*item[:2], tuple(substitute(arg, known) for arg in item[2])),)
    if kind == "I" and item[3] != SELF:
        return ((*item[:3], tuple(substitute(arg, known) for arg in item[3])),)
    if kind in ("R", "P"):
        return ((kind, substitute(item[1], known)),)
    return (item,)


def unify(declared: Types, given: Types, known: dict[str, Types]) -> None:
    """Learns type variables of a parameter's declared type from the type of its argument."""
    for item in declared:
        if item[0] == "T":
            if given:
                known[item[1]] = union([known.get(item[1], ()), given])
        elif item[0] in ("b", "I") and item[-1] and item[-1] != SELF:
            for other in given:
                if other[:2] == item[:2] or item[0] == other[0] == "b":
                    args = other[2] if other[0] == "b" else other[3]
                    if args != SELF:
                        for left, right in zip(item[-1], args, strict=False):
                            unify(left, right, known)
        elif item[0] == "R":
            for other in given:
                if other[0] == "R":
                    unify(item[1], other[1], known)
