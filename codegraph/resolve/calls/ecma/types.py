"""Types of values as tuples, and sets of them in a fixed order.

- `("I", file, class, env)` an instance, `("K", file, class)` a class, `("F", file, function, env)` a function or a
  function type, `("J", file, function)` what `new` makes of a function;
- `("M", path)` a module of the project, `("N", file, scope)` a namespace;
- `("b", name, args)` a value of a type outside, `("bm", name, value)` its member, `("g", name)` a global name;
- `("T", file, scope, name)` a type parameter, with the name `this` the type of `this` in the class `scope`;
- `("cb", parameters)` a function that something outside calls.

`env` are pairs of a type parameter (file, scope, name) and its types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Type = tuple[Any, ...]
Types = tuple[Type, ...]
"""No type means unknown."""
Key = tuple[str, int, str]
Known = Mapping[Key, Types]
LIMIT = 24
"""More alternatives than this are as good as unknown."""
_DEEPEST = 4
_WIDEST = 12


def union(parts: Iterable[Types]) -> Types:
    found: dict[Type, None] = {}
    for part in parts:
        for item in part:
            found[item] = None
    return tuple(found) if len(found) <= LIMIT else ()


def outside(name: str, *args: Types) -> Types:
    return (("b", name, args),)


def substitute(types: Types, known: Known) -> Types:
    """The types with type parameters replaced. Function types and object types keep what they need in their `env`."""
    if not known or not types:
        return types
    return union(_substitute(item, known) for item in types)


def _substitute(item: Type, known: Known) -> Types:
    kind = item[0]
    if kind == "T":
        return known.get((item[1], item[2], item[3]), (item,))
    if kind == "b":
        return ((*item[:2], tuple(substitute(arg, known) for arg in item[2])),) if item[2] else (item,)
    if kind in ("F", "I"):
        env = {key: substitute(types, known) for key, types in item[3]}
        for key, types in known.items():
            env.setdefault(key, types)
        made = tuple(env.items())[:_WIDEST]
        return ((*item[:3], made),) if depth(made) <= _DEEPEST else (item,)
    return (item,)


def depth(env: tuple[tuple[Key, Types], ...], limit: int = _DEEPEST + 1) -> int:
    """How deep environments are nested, at most `limit`."""
    if limit <= 0 or not env:
        return 0
    deepest = 0
    for _, types in env:
        for item in types:
            if item[0] in ("F", "I"):
                deepest = max(deepest, depth(item[3], limit - 1))
            elif item[0] == "b":
                deepest = max([deepest, *(depth(((("", 0, ""), arg),), limit - 1) for arg in item[2])])
    return deepest + 1
