"""What differs between languages: how a declaration is named, what it inherits, who sees it, what an import says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import tree_sitter

from codegraph.parse.facts import Import
from codegraph.parse.parsing import text
from codegraph.parse.rewriting import Rule

Node = tree_sitter.Node


class Name(NamedTuple):
    """The name of a declaration, the node that it stands in, and what the declaration itself says is around it.

    `prefix` is the receiver's type in Go and `A.B` of `void A::B::f()` in C++.
    """

    text: str
    node: Node
    prefix: str = ""


def of_field(node: Node, source: bytes) -> Name | None:
    """The name in the field `name`, as most grammars have it."""
    name = node.child_by_field_name("name")
    return Name(text(source, name), name) if name else None


def nothing(_: Node, __: bytes) -> Iterator[str]:
    """No base types."""
    return iter(())


def unsaid(_: Node, __: str, ___: bytes) -> str:
    """The language has no visibility."""
    return ""


@dataclass(frozen=True, slots=True)
class Language:
    """One language. `queries` are files of `codegraph/parse/queries`, read one after the other as one query.

    `name` gives nothing for a declaration without a name: its members belong to what is around it. `bases` gives the
    base types of a class or interface as written, `visibility` takes the node, its name and the source. `body` lists
    the types of nodes where a declaration's head ends, for grammars without a field for it. `comments` are the marks
    of line comments, `reserved` words that no declaration has for a name beside an error; `unknown` are what the
    grammar does not know (`codegraph.parse.rewriting`).
    """

    grammar: str
    queries: tuple[str, ...]
    imports: Callable[[Node, bytes], Iterable[Import]]
    name: Callable[[Node, bytes], Name | None] = of_field
    bases: Callable[[Node, bytes], Iterable[str]] = nothing
    visibility: Callable[[Node, str, bytes], str] = unsaid
    body: frozenset[str] = frozenset()
    comments: tuple[str, ...] = ("//",)
    reserved: frozenset[str] = frozenset()
    unknown: tuple[Rule, ...] = ()


def line(node: Node) -> int:
    """The line that a node starts on, from 1."""
    return node.start_point.row + 1


def joined(text_: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(text_.split())
