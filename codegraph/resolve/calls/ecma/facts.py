"""What one TypeScript or JavaScript file says about calls: scopes, declarations, exports, call sites. Plain data.

An expression is a tuple whose first item is its kind:

- `("n", scope, name)`: a name, found by the scopes around it; `("this", scope)`, `("super", scope)`;
- `(".", base, name)`, `("ix", base, index or None)`, `("c", call)`, `("new", call)`, `("aw", value)`, `("el", value)`
  (what iteration gives), `("sp", value)` (a spread element), `("inst", value)` (an instance of that class),
  `("guard", callee, position, value)` (a value for which a function with a type predicate gave true);
- `("f", function)`, `("K", class)`, `("o", class)`: a function, a class, an object literal of this file;
- `("p", function, position)`: a parameter; `("imp", module)`: a module; `("or", expressions)`; `("arr", elements)`;
- `("k", type)`: a value of a built-in type; `("as", annotation)`: a value of a type; `("?",)`: anything else.

An annotation is a tuple likewise: `("t", scope, name, arguments)`, `("t.", annotation, name, arguments)`,
`("union", parts)`, `("fn", function)`, `("obj", class)`, `("arr", element)`, `("tup", elements)`, `("typeof", value)`,
`(".t", annotation, name)` for `A["b"]`, `("this", scope)`, `("imp", module)`, `("k", type)`, `("?",)`.

A binding of a name is `("f", function)`, `("K", class)`, `("=", value)`, `(":", annotation, value or None)`,
`("import", module, name or "*")`, `("ns", scope)`; in the space of types also `("alias", parameters, annotation)` and
`("tp", constraint or None)`. A member is a binding, or `("get", function)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Expression = tuple[Any, ...]
Annotation = tuple[Any, ...]
Binding = tuple[Any, ...]
UNKNOWN: Expression = ("?",)


@dataclass(slots=True)
class Scope:
    """A module, function, block, class or namespace. `exports` are the names that a namespace exports, if it is one."""

    kind: str
    parent: int
    function: int = -1
    owner: int = -1
    names: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    types: dict[str, tuple[Binding, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Parameter:
    annotation: Annotation | None = None
    default: Expression | None = None
    is_rest: bool = False
    is_optional: bool = False


@dataclass(slots=True)
class Function:
    """A function, method, signature or function type.

    `qname` is '' where no declaration names it. `owner` is the class whose member it is (-1: none), `context` says by
    what its parameters are typed: `("arg", call, position)`, `("type", annotation)`, `("member", class, name)`,
    `("ret", function)`. `own` are the members that a constructor function gives to `this`, `predicate` is the position
    of a parameter and the type that it has if the function gives true.
    """

    qname: str
    scope: int
    params: tuple[Parameter, ...] = ()
    result: Annotation | None = None
    returns: list[Expression] = field(default_factory=list)
    type_params: tuple[str, ...] = ()
    owner: int = -1
    is_static: bool = False
    is_async: bool = False
    is_generator: bool = False
    is_arrow: bool = False
    has_body: bool = True
    context: tuple[Any, ...] | None = None
    own: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    predicate: tuple[int, Annotation] | None = None


@dataclass(slots=True)
class Class:
    """A class, interface, enum, object type or object literal; `kind` is one of these words.

    `bases` are values, `types` annotations that it extends. The members `()` and `new` are call and construct
    signatures, `[]` an index signature.
    """

    kind: str
    qname: str
    scope: int
    type_params: tuple[str, ...] = ()
    bases: list[Expression] = field(default_factory=list)
    types: list[Annotation] = field(default_factory=list)
    members: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    statics: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    context: tuple[Any, ...] | None = None


@dataclass(slots=True)
class Call:
    """A call site: the scope's qualified name, its line (from 1), what is called, and the arguments."""

    caller: str
    line: int
    callee: Expression
    args: tuple[Expression, ...]
    types: tuple[Annotation, ...]
    text: str
    is_new: bool = False


@dataclass(slots=True)
class EcmaFacts:
    """The facts of one file. `scopes[0]` is the module.

    `exports` are name -> `("l", local name)`, `("e", value)` or `("r", module, name or "*")`; the name `=` is that of
    `export =` and `module.exports =`. `stars` are the modules of `export * from`. `assigned` are values that are given
    to a property: (base, whether of its prototype, name, value).
    """

    scopes: list[Scope] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    exports: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    assigned: list[tuple[Expression, bool, str, Expression]] = field(default_factory=list)
