"""Types of Java and Kotlin as tuples.

- `("C", file, number, arguments)` a type of the project, `("X", name, arguments)` of elsewhere by its last name;
- `("tp", file, number)` a type parameter, `("[]", element)`, `("b", name)` a primitive type, `("null",)`;
- `("fn", parameters, result, receiver)` a function of Kotlin;
- `("K", file, number)` and `("KX", name)` say that an expression denotes the type itself, `("P", name)` a package.

None is unknown.
"""

from __future__ import annotations

from typing import Any

Type = tuple[Any, ...] | None
Known = dict[tuple[str, int], Type]
"""Type parameters and what they stand for."""


def substitute(item: Type, known: Known) -> Type:
    """The type with type parameters replaced."""
    if item is None or not known:
        return item
    kind = item[0]
    if kind == "tp":
        return known.get((item[1], item[2]), item)
    if kind == "[]":
        return ("[]", substitute(item[1], known))
    if kind == "fn":
        params = tuple(substitute(one, known) for one in item[1])
        return ("fn", params, substitute(item[2], known), substitute(item[3], known))
    if kind in ("C", "X") and item[-1]:
        return (*item[:-1], tuple(substitute(one, known) for one in item[-1]))
    return item


def unify(declared: Type, given: Type, known: Known) -> None:
    """Learns type parameters from an argument. What they stand for is never a bare primitive."""
    if declared is None or given is None or given == ("null",):
        return
    kind = declared[0]
    if kind == "tp":
        if (declared[1], declared[2]) not in known:
            known[declared[1], declared[2]] = given
    elif kind == given[0] == "[]":
        unify(declared[1], given[1], known)
    elif kind == given[0] and kind in ("C", "X") and declared[:-1] == given[:-1]:
        for left, right in zip(declared[-1], given[-1], strict=False):
            unify(left, right, known)
    elif kind == given[0] == "fn":
        for left, right in zip((*declared[1], declared[2]), (*given[1], given[2]), strict=False):
            unify(left, right, known)
