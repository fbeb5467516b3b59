"""Kotlin: the compiler's PSI is the reference. An unnamed companion object is called `Companion`, as it calls it.

A secondary constructor is called `constructor`; the primary one is part of its class.
"""

from __future__ import annotations

from collections.abc import Iterator

from kb.code.facts import Import
from kb.code.languages.description import Language, Name, Node, joined, line
from kb.code.parsing import text


def _name(node: Node, source: bytes) -> Name | None:
    name = node.child_by_field_name("name") or node.child_by_field_name("type")
    if name:
        return Name(text(source, name).strip("`"), name)
    # The keyword stands for the name where the compiler gives one.
    for child in node.children:
        if node.type == "companion_object" and child.type == "object":
            return Name("Companion", child)
        if node.type == "secondary_constructor" and child.type == "constructor":
            return Name("constructor", child)
    return None


def _bases(node: Node, source: bytes) -> Iterator[str]:
    for specifiers in node.children:
        if specifiers.type == "delegation_specifiers":
            for specifier in specifiers.named_children:
                base = specifier
                while base.named_children and base.type in (
                    "delegation_specifier",
                    "constructor_invocation",
                    "explicit_delegation",
                ):
                    base = base.named_children[0]
                if not base.is_extra:
                    yield joined(text(source, base))


def _visibility(node: Node, _: str, source: bytes) -> str:
    if node.children and node.children[0].type == "modifiers":
        for modifier in node.children[0].named_children:
            if modifier.type == "visibility_modifier":
                return text(source, modifier)
    return "public"


def _imports(node: Node, source: bytes) -> Iterator[Import]:
    path = alias = star = ""
    for child in node.children:
        if child.type == "qualified_identifier" or (child.type == "identifier" and not path):
            path = "".join(text(source, child).split())
        elif child.type == "identifier":
            alias = text(source, child).strip("`")
        elif child.type == "*":
            star = ".*"
    if path:
        last = path.rpartition(".")[2].strip("`")
        yield Import(path + star, line(node), () if star else ((last, alias or last),), bool(star))


_MODIFIER = (
    r"(?:public|protected|private|internal|open|final|abstract|sealed|data|value|inline|inner|enum|annotation|override|"
    r"suspend|operator|infix|tailrec|external|expect|actual|const|lateinit|noinline|crossinline|"
    r"companion|fun(?=[ \t]+interface))"
)
LANGUAGE = Language(
    grammar="kotlin",
    queries=("kotlin",),
    imports=_imports,
    name=_name,
    bases=_bases,
    visibility=_visibility,
    body=frozenset({"class_body", "enum_class_body", "function_body", "block"}),
    lost=rf"[ \t]*(?:@[\w.:]+(?:\([^)]*\))?[ \t]+)*(?:{_MODIFIER}[ \t]+)*(?P<kind>class|interface|object|typealias|fun)"
    r"[ \t]+(?:<[^>]*>[ \t]*)?(?:[\w.<>?*, ]+\.)?(?P<name>\w+|`[^`\n]+`)"
    r"(?=[ \t]*(?:[<({:=]|$|private|internal|constructor|@))",
    unknown=(rb"\bfun(?=[ \t]+interface[ \t]+\w)",),
)
