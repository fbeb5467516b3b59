"""What one Python file says about calls: scopes, what binds their names, call sites. Plain data, no types yet.

An expression is a tuple whose first item is its kind:

- `("n", scope, name)`: a name, found by the scopes around it; `("v", bindings)`: a name by what may have bound it last;
- `("a", base, attribute)`, `("c", call)`, `("s", base, index)`, `("aw", value)`: attribute, call, subscript, await;
- `("or", expressions)`: one of several; `("op", left, right, method)`: an operator;
- `("L", kind, elements)`, `("D", keys, values)`, `("C", kind, element, key)`: display of a list, set, tuple; of a dict;
  comprehension; `("star", value)`: an unpacked argument or element;
- `("k", type)`: a constant of a built-in type, a text is `("k", "str", text)`; `("f", scope)`: a lambda;
- `("sent", scope)`: what `yield` gives; `("?",)`: anything else.

A binding is a tuple likewise: `("def", scope)`, `("class", scope)`, `("=", value)`, `(":", annotation, value or None)`,
`("param", scope, position)`, `("for", iterable, is_async)`, `("with", manager, is_async)`, `("item", binding, index)`,
`("except", classes)`, `("is", binding expression, classes)`, `("not", binding expression, classes)`,
`("phi", bindings)`, `("import", module, alias)`, `("from", module, level, name)`, `("type", value)`, `("?",)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Expression = tuple[Any, ...]
Binding = tuple[Any, ...]
UNKNOWN: Expression = ("?",)


@dataclass(slots=True)
class Parameter:
    """`star` is '', '*' or '**'; a parameter after `*` is `keyword`."""

    name: str
    star: str = ""
    annotation: Expression | None = None
    default: Expression | None = None
    keyword: bool = False


@dataclass(slots=True)
class Scope:
    """A module, class, function, lambda or comprehension. `qname` is that of the nearest named scope."""

    kind: str
    name: str
    qname: str
    parent: int
    line: int
    params: list[Parameter] = field(default_factory=list)
    annotation: Expression | None = None
    returns: list[Expression] = field(default_factory=list)
    yields: list[Expression] = field(default_factory=list)
    decorators: list[Expression] = field(default_factory=list)
    bases: list[Expression] = field(default_factory=list)
    names: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attributes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    stars: list[tuple[str, int]] = field(default_factory=list)
    type_names: tuple[str, ...] = ()
    is_async: bool = False
    is_generator: bool = False


@dataclass(slots=True)
class Call:
    """A call site: the scope it is in, its line (from 1), what is called, and the arguments."""

    scope: int
    line: int
    callee: Expression
    args: tuple[Expression, ...]
    keywords: tuple[tuple[str, Expression], ...]
    text: str


@dataclass(slots=True)
class PythonFacts:
    """The facts of one file. `scopes[0]` is the module; `exported` is `__all__`, if it is a display of texts."""

    scopes: list[Scope] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    exported: tuple[str, ...] | None = None
