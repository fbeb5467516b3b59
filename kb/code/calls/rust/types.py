"""Rust types as tuples. References are left out: `&T` is `T`.

- `("D", file, index, args)`: a struct, union or enum of the project; `("X", name, args)`: a type from outside, a path
  unless it is of the standard library; `("b", name)`: a primitive type;
- `("p", file, kind, index, name)`: a type parameter of an item; `("self", file, index)`: `Self` of a trait;
  `("proj", type, name)`: an associated type that is not known further;
- `("dyn", bounds)` for `dyn` and `impl`, with bounds `(trait, args, ((name, type), ...))`;
- `("tuple", types)`, `("[]", element)`, `("ptr", type)`, `("fn", params, result)`, `("never",)`. None is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Type = tuple[Any, ...] | None
Known = dict[tuple[Any, ...], Type]
"""What stands for type parameters and for `Self` of traits."""
Bound = tuple[tuple[Any, ...], tuple[Type, ...], tuple[tuple[str, Type], ...]]
Project = Callable[[Type, str], Type]
DEEP = 12
"""Types nest no deeper; what is deeper is unknown."""


def external(name: str, *args: Type) -> Type:
    """A type from outside of the project."""
    return ("X", name, args)


def substitute(item: Type, known: Known, project: Project, depth: int = 0) -> Type:
    """The type with what is known in place of parameters. `project` finds an associated type."""
    if item is None or not known:
        return item
    kind = item[0]
    if depth > DEEP:
        return None

    def each(some: tuple[Type, ...]) -> tuple[Type, ...]:
        return tuple(substitute(one, known, project, depth + 1) for one in some)

    if kind in ("p", "self"):
        return known.get(item, item)
    if kind == "proj":
        base = substitute(item[1], known, project, depth + 1)
        return item if base == item[1] else project(base, item[2])
    if kind == "D":
        return (*item[:3], each(item[3])) if item[3] else item
    if kind == "X":
        return (*item[:2], each(item[2])) if item[2] else item
    if kind == "tuple":
        return (kind, each(item[1]))
    if kind in ("[]", "ptr"):
        return (kind, *each(item[1:]))
    if kind == "fn":
        return (kind, each(item[1]), *each(item[2:]))
    if kind == "dyn":
        return (kind, tuple(replaced(bound, known, project, depth + 1) for bound in item[1]))
    return item


def replaced(bound: Bound, known: Known, project: Project, depth: int = 0) -> Bound:
    """A bound with what is known in place of parameters."""
    trait, args, given = bound
    if not known or not (args or given):
        return bound
    return (
        trait,
        tuple(substitute(one, known, project, depth) for one in args),
        tuple((name, substitute(one, known, project, depth)) for name, one in given),
    )


def unify(declared: Type, given: Type, known: Known, depth: int = 0) -> bool:
    """Learns parameters from a type that is given; False where the two cannot be one type."""
    if declared is None or given is None or depth > DEEP or declared == given:
        return True
    kind = declared[0]
    if kind in ("p", "self"):
        old = known.get(declared)
        known[declared] = given if old is None else merge(old, given)
        return True
    if given[0] in ("p", "self", "proj", "never") or kind in ("proj", "dyn") or given[0] == "dyn":
        return kind in ("proj", "dyn") or given[0] != "dyn"
    if kind != given[0]:
        return False
    if kind == "D" and declared[1:3] != given[1:3]:
        return False
    if kind in ("X", "b") and declared[1] != given[1]:
        return kind == "b" and is_number(declared, given)
    if kind == "D":
        pairs = zip(declared[3], given[3], strict=False)
    elif kind == "X":
        pairs = zip(declared[2], given[2], strict=False)
    elif kind == "tuple":
        if len(declared[1]) != len(given[1]):
            return False
        pairs = zip(declared[1], given[1], strict=True)
    elif kind == "fn":
        pairs = zip(
            (*declared[1][: len(given[1])], declared[2]), (*given[1][: len(declared[1])], given[2]), strict=True
        )
    else:
        pairs = zip(declared[1:], given[1:], strict=False)
    # Each of them, since what they say is wanted even if another one differs.
    found = [unify(one, other, known, depth + 1) for one, other in pairs]
    return all(found)


def is_number(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether a literal's type may be the other type."""
    names = {one[1], other[1]}
    if "{integer}" in names:
        return any(name[0] in "iu" for name in names - {"{integer}"})
    return "{float}" in names and bool(names & {"f32", "f64"})


def merge(one: Type, other: Type, depth: int = 0) -> Type:
    """The first type, with the second in places where it is unknown."""
    if one is None or one[0] == "never" or (one[0] == "b" and one[1][0] == "{" and other and other[0] == "b"):
        return one if other is None else other
    if other is None or one == other or one[0] != other[0] or depth > DEEP:
        return one
    at = {"D": 3, "X": 2, "tuple": 1}.get(one[0])
    if at is None:
        return ("[]", merge(one[1], other[1], depth + 1)) if one[0] == "[]" else one
    if one[1:at] != other[1:at] or (at == 1 and len(one[1]) != len(other[1])):
        return one
    longest = max(len(one[at]), len(other[at]))
    first, second = (part[at] + (None,) * (longest - len(part[at])) for part in (one, other))
    return (*one[:at], tuple(merge(a, b, depth + 1) for a, b in zip(first, second, strict=True)))
