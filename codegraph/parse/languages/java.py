"""Java: javac's tree is the reference. A constructor has the name of its class."""

from __future__ import annotations

from collections.abc import Iterator

from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Node, joined, line
from codegraph.parse.parsing import text

_HEADS = ("superclass", "super_interfaces", "extends_interfaces")
_VISIBILITIES = ("public", "protected", "private")


def _bases(node: Node, source: bytes) -> Iterator[str]:
    for head in node.children:
        if head.type in _HEADS:
            for child in head.named_children:
                for base in child.named_children if child.type == "type_list" else (child,):
                    if not base.is_extra:
                        yield joined(text(source, base))


def _visibility(node: Node, _: str, __: bytes) -> str:
    if node.children and node.children[0].type == "modifiers":
        for modifier in node.children[0].children:
            if modifier.type in _VISIBILITIES:
                return modifier.type
    return "package"


def _imports(node: Node, source: bytes) -> Iterator[Import]:
    path = star = ""
    for child in node.named_children:
        if child.type in ("scoped_identifier", "identifier"):
            path = "".join(text(source, child).split())
        elif child.type == "asterisk":
            star = ".*"
    if path:
        last = path.rpartition(".")[2]
        yield Import(path + star, line(node), () if star else ((last, last),), bool(star))


LANGUAGE = Language(
    grammar="java",
    queries=("java",),
    imports=_imports,
    bases=_bases,
    visibility=_visibility,
)
