"""JavaScript and TypeScript with JSX: TypeScript's compiler is the reference.

Types are classes, interfaces, enums and type aliases; a namespace is a container. A function has the name of what it is
bound to: a variable, a property, a class's field, the last part of an assigned path (`exports.f = ...`), and with
`A.prototype.f = ...` it stands under `A`. Else it has its own name, if it has one; `default` is that of an exported
declaration without a name. Signatures count: those of overloads, and of the methods of interfaces.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from codegraph.parse import rewriting
from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Name, Node, joined, line
from codegraph.parse.parsing import text

_BOUND = {
    "variable_declarator": "name",
    "pair": "key",
    "assignment_expression": "left",
    "field_definition": "property",
}
VALUES = {
    "variable_declarator": "value",
    "pair": "value",
    "assignment_expression": "right",
    "field_definition": "value",
    "public_field_definition": "value",
}
"""The field of what is bound to a name, by the type of the node that binds it."""
_ORIGINS = ("extends_clause", "implements_clause", "extends_type_clause")


def _name(node: Node, source: bytes) -> Name | None:
    name = node.child_by_field_name(_BOUND.get(node.type, "name"))
    if node.type == "ambient_declaration":
        keyword = next((child for child in node.children if child.type == "global"), None)
        return Name("global", keyword) if keyword else None
    if not name:
        return _default(node)
    prefix = ""
    if name.type == "member_expression":
        owner, name = name.child_by_field_name("object"), name.child_by_field_name("property")
        if not owner or not name:
            return None
        if text(source, owner) == "module" and text(source, name) == "exports":
            return None
        target, what = owner.child_by_field_name("object"), owner.child_by_field_name("property")
        if target and what and target.type == "identifier" and text(source, what) == "prototype":
            prefix = text(source, target)
    if node.type == "module" and name.type == "string":
        return None
    written = text(source, name)
    if name.type == "string":
        written = written[1:-1]
    return Name("".join(written.split()) if node.type == "internal_module" else written, name, prefix)


def _default(node: Node) -> Name | None:
    if node.type not in ("class", "function_expression", "generator_function"):
        return None
    before = node.prev_sibling
    return Name("default", before) if before and before.type == "default" else None


def _bases(node: Node, source: bytes) -> Iterator[str]:
    value = node.child_by_field_name(VALUES[node.type]) if node.type in VALUES else None
    for heritage in (value or node).children:
        clauses = heritage.named_children if heritage.type == "class_heritage" else (heritage,)
        for clause in clauses:
            if clause.type in _ORIGINS:
                yield from _clause(clause, source)
            elif heritage.type == "class_heritage" and not clause.is_extra:
                yield joined(text(source, clause))


def _clause(clause: Node, source: bytes) -> Iterator[str]:
    base = ""
    for child in clause.named_children:
        if child.type == "type_arguments":
            # `extends A<B>` has them beside the name, `implements A<B>` inside.
            base += joined(text(source, child))
        elif not child.is_extra:
            if base:
                yield base
            base = joined(text(source, child))
    if base:
        yield base


def _visibility(node: Node, name: str, source: bytes) -> str:
    if name.startswith("#"):
        return "private"
    for child in node.children[:4]:
        if child.type == "accessibility_modifier":
            return text(source, child)
    return ""


def _imports(node: Node, source: bytes) -> Iterator[Import]:
    if node.type == "call_expression":
        yield from _called(node, source)
        return
    where, names, star = node.child_by_field_name("source"), [], False
    for clause in node.named_children:
        for part in clause.named_children if clause.type in ("import_clause", "export_clause") else (clause,):
            if part.type == "identifier":
                names.append(("default", text(source, part)))
            elif part.type in ("namespace_import", "namespace_export"):
                names += [("*", text(source, local)) for local in part.named_children]
            elif part.type == "import_require_clause":
                where = part.child_by_field_name("source")
                names += [("*", text(source, local)) for local in part.named_children if local.type == "identifier"]
            for specifier in part.named_children if part.type == "named_imports" else (part,):
                if specifier.type in ("import_specifier", "export_specifier"):
                    name, alias = specifier.child_by_field_name("name"), specifier.child_by_field_name("alias")
                    if name:
                        names.append((text(source, name), text(source, alias or name)))
    star = node.type == "export_statement" and any(child.type == "*" for child in node.children)
    if where:
        yield Import(text(source, where)[1:-1], line(node), tuple(names), star)


def _called(node: Node, source: bytes) -> Iterator[Import]:
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if not function or not arguments or text(source, function) not in ("require", "import"):
        return
    if function.type == "import" and _is_type(node):
        return
    module = arguments.named_children[0]
    if module.type == "template_string" and any(part.type == "template_substitution" for part in module.children):
        return
    names: list[tuple[str, str]] = []
    around = node.parent
    if around and around.type == "await_expression":
        around = around.parent
    if around and around.type == "variable_declarator":
        target = around.child_by_field_name("name")
        if target and target.type == "identifier":
            names.append(("*", text(source, target)))
        for part in target.named_children if target and target.type == "object_pattern" else ():
            if part.type == "shorthand_property_identifier_pattern":
                names.append((text(source, part), text(source, part)))
            elif part.type == "pair_pattern":
                key, value = part.child_by_field_name("key"), part.child_by_field_name("value")
                if key and value and value.type == "identifier":
                    names.append((text(source, key), text(source, value)))
    yield Import(text(source, module)[1:-1], line(node), tuple(names))


def _is_type(node: Node) -> bool:
    """Whether `import("x")` stands for a type (`let a: import("x").A`): it says where one is, and imports nothing."""
    around = node.parent
    while around and not around.type.endswith(("_statement", "_declaration", "_block", "program")):
        if around.is_error or around.type.startswith(("type_", "generic_type", "union_type", "function_type")):
            return True
        around = around.parent
    return around is not None and around.type in ("type_alias_declaration", "interface_declaration")


JAVASCRIPT = Language(
    grammar="javascript",
    queries=("ecma", "javascript"),
    imports=_imports,
    name=_name,
    bases=_bases,
    visibility=_visibility,
    reserved=frozenset({"catch", "do", "else", "for", "function", "if", "return", "switch", "while", "with"}),
)
_PARAMETERS = rb"<[^<>()]*(?:<[^<>()]*(?:<[^<>()]*>[^<>()]*)*>[^<>()]*)*>\s*\(|\((?:[^()]|\([^()]*\))*\)\s*:"
# With what a member of an interface ends. After a comma or an operator a function follows, and no signature.
_MEMBER_ENDS = re.compile(rb"[\w$)\]}>;{'\"]$")
_COMMENT_BEFORE = re.compile(rb"(?:/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*\n)\s*$")
_FAR = 4_000


def _separated(found: re.Match[bytes]) -> bytes:
    """A semicolon before a signature without a name, where the member before it has none."""
    before = found.string[max(0, found.start() - _FAR) : found.start()].rstrip()
    while comment := _COMMENT_BEFORE.search(before + b"\n"):
        before = before[: comment.start()].rstrip()
    if before.endswith(b"=>") or not _MEMBER_ENDS.search(before):
        return found.group()
    return found.group()[:-1] + b";"


_UNKNOWN = (
    rewriting.blank(rb"^[ \t]*export[ \t]+(type)(?=[ \t]+\*)", 1),
    # Variance, and parameters that are inferred as constants.
    rewriting.blank(rb"[<,]\s*(in\s+out|in|out|const)(?=\s+(?:(?:in|out)\s+)?[\w$]+\s*(?:[,>=]|extends\b))", 1),
    rewriting.rename(rb"\btype(?=\s+extends\b)"),
    # Type arguments of a tagged template, and a property called `in`.
    rewriting.blank(rb"[\w$](<[^<>`]*>)(?=`)", 1),
    rewriting.rename(rb"^[ \t]+(in)(?=\??:[ \t])", 1),
    (re.compile(rb"^[ \t]+(?=(?:" + _PARAMETERS + rb"))", re.MULTILINE), _separated),
)
TYPESCRIPT = dataclasses.replace(JAVASCRIPT, grammar="typescript", queries=("ecma", "typescript"), unknown=_UNKNOWN)
TSX = dataclasses.replace(TYPESCRIPT, grammar="tsx")
