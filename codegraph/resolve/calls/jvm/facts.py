"""What one file of Java or Kotlin says about calls: its package, imports, types, members, call sites. Plain data.

An expression is a tuple whose first item is its kind:

- `("n", name, type, receivers)`: a name that no local variable has, inside of the type with that number (-1: of the
  file), with the implicit receivers that Kotlin has beside it;
- `("v", binding)`: a local variable; `(".", base, name)`: a member; `("c", call)`: the result of a call;
- `("vn", binding, name)`: what is called by a name that a local variable has too;
- `("this", type)`, `("super", type, interface or None)`: an object, its base;
- `("ix", base)`: an element; `("as", type)`: a value of a type; `("or", expressions)`: the first that is known;
- `("k", name)`: a constant; `("plus", left, right)`: a sum or a text; `("lam", parameters, results)`: a lambda;
- `("ref", call)`: a reference to a method; `("?",)`: any other.

A type as written is `("t", names, arguments, type)` with the names between the dots and the type around it,
`("tp", number)` for a type parameter of the file, `("cls", number)` for a local type, `("[]", element)`,
`("b", name)` for a primitive type, `("fn", parameters, result)` for a function of Kotlin, or `("?",)`.

A binding is `("is", type)`, `("=", value)`, `("each", value)`, `("part", value, position)`, `("lam", call, argument,
parameter)` for a parameter of a lambda that is an argument, `("of", type, parameter)` for one of a lambda whose type is
declared, `("into", value, parameter)` for one that is assigned, `("recv", call, argument)` for the implicit receiver of
a lambda, or `("?",)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Expression = tuple[Any, ...]
Written = tuple[Any, ...]
Binding = tuple[Any, ...]
UNKNOWN: Expression = ("?",)


@dataclass(slots=True)
class Call:
    """A call site: the named scope and the type (`around`) that it is in, its line (from 1), and what is called.

    `kind` is "call", "new" with a written type as `callee`, "this" or "super" (constructors), or "ref" (a reference).
    `args` is None for a reference, whose number of arguments is unknown. `labels` are the names of the arguments, ''
    for one without and "{" for a lambda behind the parentheses; no labels at all mean that no argument has one.
    """

    caller: str
    line: int
    kind: str
    callee: Expression
    args: tuple[Expression, ...] | None
    text: str
    around: int = -1
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Method:
    """A method or function. `result` is a written type or `("=", value)`; `receiver` that of an extension.

    `rest` is the parameter that takes any number of arguments or -1, `optional` are those with a default.
    """

    name: str
    qname: str
    params: tuple[Written, ...] = ()
    result: Written = UNKNOWN
    type_params: tuple[int, ...] = ()
    rest: int = -1
    optional: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()
    static: bool = False
    abstract: bool = False
    receiver: Written | None = None


@dataclass(slots=True)
class Kind:
    """A class, interface, enum, record, object, or anonymous class, whose name is ''. `around` is -1 outside of all.

    `members` are fields and properties by name, `inner` the types declared in it, `companion` one of them or -1.
    """

    name: str
    qname: str
    kind: str
    around: int
    type_params: tuple[int, ...] = ()
    bases: tuple[Written, ...] = ()
    methods: dict[str, list[Method]] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    inner: dict[str, int] = field(default_factory=dict)
    companion: int = -1
    static: bool = False


@dataclass(slots=True)
class Import:
    """`path` without `.*`; `name` is what it is called here, '' for all of it."""

    path: str
    name: str
    static: bool


@dataclass(slots=True)
class JvmFacts:
    """The facts of one file.

    `params` are the bounds of type parameters; `top` has what Kotlin declares outside of types, `extensions` are
    properties of other types by name: the type and the binding.
    """

    language: str = "java"
    package: str = ""
    imports: list[Import] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    top: Kind = field(default_factory=lambda: Kind("", "", "file", -1))
    extensions: dict[str, list[tuple[Written, int]]] = field(default_factory=dict)
    aliases: dict[str, Written] = field(default_factory=dict)
    params: list[Written] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
