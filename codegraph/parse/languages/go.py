"""Go: `go/parser` is the reference: type specs, local ones too, function declarations, and what interfaces list.

A method is called `Type.method`, without the pointer and the type's parameters; so is one that a named interface lists,
which calls through it point at. Embedded types are its bases.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Name, Node, joined, line
from codegraph.parse.parsing import text


def _name(node: Node, source: bytes) -> Name | None:
    name = node.child_by_field_name("name")
    if not name:
        return None
    receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
    return Name(text(source, name), name, _receiver(receiver, source) if receiver else "")


def _receiver(parameters: Node, source: bytes) -> str:
    for parameter in parameters.named_children:
        target = parameter.child_by_field_name("type")
        while target:
            if target.type in ("pointer_type", "parenthesized_type"):
                target = next(iter(target.named_children), None)
            elif target.type == "generic_type":
                target = target.child_by_field_name("type")
            elif target.type == "qualified_type":
                target = target.child_by_field_name("name")
            else:
                return text(source, target)
    return ""


def _bases(node: Node, source: bytes) -> Iterator[str]:
    target = node.child_by_field_name("type")
    if target and target.type == "struct_type":
        for fields in target.named_children:
            for field in fields.named_children:
                if field.type == "field_declaration" and not field.child_by_field_name("name"):
                    embedded = field.child_by_field_name("type")
                    if embedded:
                        yield joined(text(source, embedded))
    elif target and target.type == "interface_type":
        for element in target.named_children:
            if element.type == "type_elem" and element.named_child_count == 1:
                only = element.named_children[0]
                if only.type in ("type_identifier", "qualified_type", "generic_type"):
                    yield joined(text(source, only))


def _visibility(_: Node, name: str, __: bytes) -> str:
    return "public" if name[:1].isupper() else "package"


def _imports(node: Node, source: bytes) -> Iterator[Import]:
    path, name = node.child_by_field_name("path"), node.child_by_field_name("name")
    if path:
        module = text(source, path)[1:-1]
        local = text(source, name) if name else ""
        yield Import(module, line(node), ((module, local),) if local and local != "." else (), local == ".")


LANGUAGE = Language(
    grammar="go",
    queries=("go",),
    imports=_imports,
    name=_name,
    bases=_bases,
    visibility=_visibility,
)
