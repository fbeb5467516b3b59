"""What one Go file says about calls: its package, imports, declarations, local variables and call sites. Plain data.

An expression or type is a tuple whose first item is its kind:

- `("n", name)`: a name of the package, a dot import or the language; `("v", number)`: a local one, by its binding;
- `(".", base, name)`, `("c", call)`, `("ix", base, arguments)`, `("slice", base)`: selector, call, index or generic;
- `("*", inner)`, `("&", inner)`, `("<-", inner)`, `("op", left, right)`, `("as", value, type)`, `("lit", type)`;
- `("k", name)`: a constant of a basic type; `("fn", params, results, is_variadic)`: a function or its type;
- `("[]", element)`, `("map", key, value)`, `("chan", element)`, `("struct", fields)` with fields `(name, type,
  is_embedded)`, `("iface", methods, embedded)` with methods `(name, function type)`; `("?",)`: anything else.

A binding of a local name is `("type", type)` for a declared type, `("is", type)` for a value of a type, `("=", value)`,
`("item", value, index)`, `("range", value, index)`, `("param", name, constraint)` for a type parameter, or `("?",)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Expression = tuple[Any, ...]
Binding = tuple[Any, ...]
UNKNOWN: Expression = ("?",)


@dataclass(slots=True)
class Call:
    """A call site: the function that it is in, its line (from 1), what is called, and the arguments."""

    caller: str
    line: int
    callee: Expression
    args: tuple[Expression, ...]
    text: str


@dataclass(slots=True)
class Function:
    """A function or method. `receiver` is the name of the receiver's type; type parameters are bindings."""

    name: str
    receiver: str
    receiver_params: tuple[int, ...]
    type_params: tuple[int, ...]
    type: Expression


@dataclass(slots=True)
class GoFacts:
    """The facts of one file. `build` is its `//go:build` expression.

    `types` are name -> (type parameters, type), `values` name -> binding of package variables and constants.
    """

    package: str = ""
    build: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    types: dict[str, tuple[tuple[int, ...], Expression]] = field(default_factory=dict)
    values: dict[str, Binding] = field(default_factory=dict)
    bindings: list[Binding] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
