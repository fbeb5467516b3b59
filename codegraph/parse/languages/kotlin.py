"""Kotlin: the compiler's PSI is the reference. An unnamed companion object is called `Companion`, as it calls it.

A secondary constructor is called `constructor`; the primary one is part of its class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegraph.parse import rewriting
from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Name, Node, joined, line
from codegraph.parse.parsing import text


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


_SOFT = (
    rb"where|set|get|by|final|open|inner|data|value|file|init|param|field|enum|sealed|operator|infix|inline|annotation|"
    rb"external|expect|actual|override|abstract|internal|public|private|protected|const|companion|constructor|context"
)
_IN_PARENTHESES = rb"\((?:[^()\"]|\"(?:[^\"\\\n]|\\.)*\"|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
_CONTEXT = rb"^[ \t]*context[ \t]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?=\s*(?:@|context\b|\w+[ \t]+[\w<]))"
_CONSTRUCTOR = rb"(\bclass\s+\w+[ \t]*(?:<[^(){}]*>)?)\s*\n[\s\w@.()\"]*?\bconstructor[ \t]*\((?=[^{}]*\))"


def _constructor(found: re.Match[bytes]) -> bytes:
    """The line feeds between a class and its constructor, moved behind the parenthesis."""
    head, rest = found.group(1), found.group()[len(found.group(1)) : -1]
    feeds = rest.count(b"\n")
    return head + b" " * (len(rest) - feeds) + b"(" + b"\n" * feeds


def _raw(found: re.Match[bytes]) -> bytes:
    inside = found.group()[3:-3]
    return b'"""' + re.sub(rb"[^\r\n]", b"_", inside) + b'"""'


_UNKNOWN = (
    rewriting.blank(rb"\bfun(?=[ \t]+interface[ \t]+\w)"),
    rewriting.blank(_CONTEXT),
    rewriting.blank(rb"[:(,]\s*(context[ \t]*\((?:[^()]|\([^()]*\))*\))(?=\s*(?:[\w.<>]+\.)?\()", 1),
    # Guards of branches.
    rewriting.blank(
        rb"(?:\b(?:is|in)[ \t]+[^\n{}]+?|\belse)[ \t]+(if\b[^\n{}]*?|if\s*" + _IN_PARENTHESES + rb")(?=\s*->)", 1
    ),
    # Types that are definitely not null.
    rewriting.blank(rb"[:<,(][ \t]*\w+[ \t]*(&[ \t]*Any)\b", 1),
    # Annotations on lines of their own: two before a class are taken for expressions.
    rewriting.blank(rb"^[ \t]*(?:@[\w.:]+(?:" + _IN_PARENTHESES + rb")?[ \t]*(?:(?=\n)|(?=@)))+"),
    rewriting.blank(
        rb"^[ \t]*@[\w.:]+(?:" + _IN_PARENTHESES + rb")?(?=[ \t]+(?:\w+[ \t]+)*(?:class|object|interface|fun)\b)"
    ),
    # A grammar that takes a backslash in a raw string for an escape does not find its end.
    (re.compile(rb'"""(?:(?!""").)*"""+', re.DOTALL), _raw),
    rewriting.blank(rb"@[\w.:]+(?:\([^()]*\))?(?=\s+(?:(?:private|internal|protected)[ \t]+)?(?:get|set)\b[ \t]*\()"),
    (re.compile(_CONSTRUCTOR), _constructor),
    # `class A : B by c {`: the body is taken for a lambda.
    rewriting.blank(
        rb"(?:\)|\b(?:class|object)\s+\w+(?:<[^<>]*>)?)\s*:\s*[^{}=;]*?[\w>)](\s+by\s+[\w.]+(?:\(\))?)(?=\s*[,{])", 1
    ),
    # Words that are keywords in some places only.
    rewriting.rename(
        rb"(?<![\w.@])(?:" + _SOFT + rb")(?=[ \t]*(?:\?\.|\.\w|!=|==|=[^=]|[)\],+*/<>-]|!!|\[|\?:|&&|\|\|))"
    ),
    rewriting.rename(rb"(?<![\w.@])get(?=[ \t]*(?:\{|\([ \t]*[\"\w]))"),
)
LANGUAGE = Language(
    grammar="kotlin",
    queries=("kotlin",),
    imports=_imports,
    name=_name,
    bases=_bases,
    visibility=_visibility,
    body=frozenset({"class_body", "enum_class_body", "function_body", "block"}),
    unknown=_UNKNOWN,
)
