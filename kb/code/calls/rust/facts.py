"""What one Rust file says about calls: its scopes, items, local variables and call sites. Plain data.

A type as it is written is a tuple whose first item is its kind; references are left out, `&T` is `T`:

- `("path", segments)` with segments `(name, arguments)`; a leading `::` is a segment without a name;
- `("q", type, trait or None, segments)`: `<type as trait>::segments`;
- `("tuple", types)`, `("[]", element)`, `("ptr", type)`, `("fn", parameters, result)`, `("dyn", bounds)` for `dyn` and
  `impl`, `("?",)` for anything else. Among arguments, `("=", name, type)` is an associated type that is given.

An expression likewise. What holds a path or a type has the number of its context before it:

- `("n", context, type)`: a path; `("v", number)`: a local variable, by its binding; `("c", call)`;
- `(".", base, name)`: a field; `("m", base, name, context, type arguments)`: a method that is called;
- `("ix", base, index)`, `("op", left, right)`, `("*", inner)`, `("try", inner)`, `("await", inner)`;
- `("is", context, type)`: a value of a type; `("lit", context, type, fields)`: a literal of a struct;
- `("k", name)`: a constant of a basic type; `("tuple", items)`, `("[]", items)`, `("vec", items)`, `("range", items)`;
- `("async", inner)`; `("any", items)`: one of them; `("closure", parameters, body)`; `("never",)`, `("?",)`.

A binding is what a name of a pattern has: a source and the steps from it. Sources are `("is", context, type)`,
`("self", context, type)`, `("said", context, type, value)` of a `let` with a type, `("=", value)`, `("each", value)`
for an item of an iteration, `("given", call, argument, parameter)` for a parameter of a closure that a call is given,
and `("?",)`. A step is `("item", index)` of a tuple, `("slice",)`, `("rest",)`, or `("field", context, type, name)` of
the struct or the variant that a pattern names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Written = tuple[Any, ...]
Expression = tuple[Any, ...]
Generic = tuple[str, tuple[Written, ...]]
"""A type parameter and its bounds."""
Where = tuple[Written, tuple[Written, ...]]
UNKNOWN: Expression = ("?",)


@dataclass(slots=True)
class Entry:
    """An item of a scope. `kind` is `mod` (index of a scope), `file` (a module in a file of its own), `struct`, `enum`,
    `trait`, `alias`, `fn` or `const`. `holds` says whether a plain build for Linux has it."""

    kind: str
    index: int
    is_public: bool
    holds: bool
    path: str = ""


@dataclass(slots=True)
class Use:
    """One path of a `use`. `alias` is `*` for all names, `_` for none."""

    path: tuple[str, ...]
    alias: str
    is_public: bool
    holds: bool


@dataclass(slots=True)
class Scope:
    """A module, or a block that declares items. The scope 0 is that of the file."""

    parent: int
    is_block: bool
    name: str = ""
    types: dict[str, list[Entry]] = field(default_factory=dict)
    values: dict[str, list[Entry]] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)


@dataclass(slots=True)
class Context:
    """Where a path stands: its scope, the function or -1, and the item that `Self` and type parameters are of: a kind
    (`impl`, `trait`, `data`, `alias`, or nothing) and an index."""

    scope: int
    function: int
    owner: tuple[str, int]


@dataclass(slots=True)
class Function:
    """`context` is that of its body, `self_type` the written type of `self`, or none without `self`. What is in a
    macro around items `is_made`: it is no symbol, so it is neither caller nor callee of an edge."""

    name: str
    qname: str
    context: int
    generics: tuple[Generic, ...]
    wheres: tuple[Where, ...]
    params: tuple[Written, ...]
    self_type: Written | None
    result: Written
    is_async: bool
    has_body: bool
    is_made: bool


@dataclass(slots=True)
class Data:
    """A struct, union or enum. The fields of a struct are those of the variant ''."""

    name: str
    qname: str
    context: int
    generics: tuple[Generic, ...]
    variants: dict[str, dict[str, Written]]


@dataclass(slots=True)
class Trait:
    name: str
    context: int
    generics: tuple[Generic, ...]
    wheres: tuple[Where, ...]
    supers: tuple[Written, ...]
    functions: dict[str, int] = field(default_factory=dict)
    types: dict[str, tuple[Written, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Impl:
    context: int
    generics: tuple[Generic, ...]
    wheres: tuple[Where, ...]
    type: Written
    trait: Written | None
    holds: bool
    functions: dict[str, int] = field(default_factory=dict)
    types: dict[str, Written] = field(default_factory=dict)
    consts: dict[str, Written] = field(default_factory=dict)


@dataclass(slots=True)
class Alias:
    context: int
    generics: tuple[Generic, ...]
    type: Written


@dataclass(slots=True)
class Binding:
    """`hints` say more of its type where the source leaves some open: `("=", value)` is assigned to it, `("given", call
    and place)` takes it as an argument, and `(method, arguments)` adds to it."""

    source: Expression
    steps: tuple[Expression, ...] = ()
    hints: list[tuple[str, tuple[Expression, ...]]] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """A call site: the qualified name of the function that it is in, its line from 1, the callee, the arguments."""

    caller: str
    line: int
    callee: Expression
    args: tuple[Expression, ...]
    text: str


@dataclass(slots=True)
class RustFacts:
    scopes: list[Scope] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    data: list[Data] = field(default_factory=list)
    traits: list[Trait] = field(default_factory=list)
    impls: list[Impl] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    consts: list[tuple[int, Written]] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
