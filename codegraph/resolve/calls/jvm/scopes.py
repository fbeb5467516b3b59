"""What the readers of Java and Kotlin have in common: local names, type parameters, named scopes, call sites."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import tree_sitter

from codegraph.parse.outline import Outline
from codegraph.parse.parsing import text
from codegraph.resolve.calls.jvm.facts import UNKNOWN, Binding, Call, Expression, JvmFacts, Kind, Written

Node = tree_sitter.Node


class Scopes:
    """The state of a reader: the type and the named scope that it is in, and the names that are bound there."""

    def __init__(self, source: bytes, outline: Outline, language: str) -> None:
        """Nothing read yet."""
        self.facts = JvmFacts(language)
        self.source = source
        self.outline = outline
        self.kind = -1
        self.names: list[dict[str, int]] = []
        self.types: list[dict[str, Written]] = []
        self.receivers: tuple[Expression, ...] = ()

    def text(self, node: Node) -> str:
        """The text of a node."""
        return text(self.source, node)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """A scope of local names and types."""
        self.names.append({})
        self.types.append({})
        yield
        self.names.pop()
        self.types.pop()

    @contextlib.contextmanager
    def inside(self, kind: int) -> Iterator[None]:
        """The body of a type: its members come before the local names around it."""
        before, names = self.kind, self.names
        self.kind = kind
        # Names of its members are looked up later; local ones of the same name are hidden.
        members = self.facts.kinds[kind].members
        self.names = [*({name: at for name, at in scope.items() if name not in members} for scope in names), {}]
        self.types.append({})
        yield
        self.types.pop()
        self.kind, self.names = before, names

    def bind(self, name: str, binding: Binding) -> int:
        """Binds a local name; the number of the binding."""
        self.facts.bindings.append(binding)
        number = len(self.facts.bindings) - 1
        if self.names:
            self.names[-1][name] = number
        return number

    def local(self, name: str) -> Expression:
        """A local variable, else a name that is looked up later."""
        for scope in reversed(self.names):
            if name in scope:
                return ("v", scope[name])
        return ("n", name, self.kind, self.receivers)

    def named(self, names: tuple[str, ...], arguments: Iterable[Written]) -> Written:
        """A type as written: a type parameter, a local type, or names that are looked up later."""
        for scope in reversed(self.types):
            if len(names) == 1 and names[0] in scope:
                found = scope[names[0]]
                return (*found, tuple(arguments)) if found[0] == "cls" else found
        return ("t", names, tuple(arguments), self.kind)

    def parameter(self, name: str) -> int:
        """A type parameter, whose bound is still unknown."""
        self.facts.params.append(UNKNOWN)
        self.types[-1][name] = ("tp", len(self.facts.params) - 1)
        return len(self.facts.params) - 1

    def add_kind(self, kind: Kind) -> int:
        """The number of a type, which is entered in the one around it."""
        self.facts.kinds.append(kind)
        number = len(self.facts.kinds) - 1
        if kind.name:
            around = self.facts.top if kind.around < 0 else self.facts.kinds[kind.around]
            around.inner.setdefault(kind.name, number)
        return number

    def call(self, node: Node, kind: str, callee: Expression, args: tuple[Expression, ...] | None, name: str) -> int:
        """The number of a new call site."""
        caller = self.outline.scope_at(node.start_byte)
        self.facts.calls.append(Call(caller, node.start_point.row + 1, kind, callee, args, name[-80:], self.kind))
        return len(self.facts.calls) - 1
