"""Python: the module `ast` is the reference for what is a class, a function and an import."""

from __future__ import annotations

from collections.abc import Iterator

from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Node, joined, line
from codegraph.parse.parsing import text


def _bases(node: Node, source: bytes) -> Iterator[str]:
    arguments = node.child_by_field_name("superclasses")
    for base in arguments.named_children if arguments else ():
        if base.type not in ("keyword_argument", "comment"):
            yield joined(text(source, base))


def _visibility(_: Node, name: str, __: bytes) -> str:
    if name.startswith("__") and not name.endswith("__"):
        return "private"
    return "protected" if name.startswith("_") and not name.startswith("__") else "public"


def _imports(node: Node, source: bytes) -> Iterator[Import]:
    names = tuple(_named(child, source) for child in node.children_by_field_name("name"))
    if node.type == "import_statement":
        for child, (module, local) in zip(node.children_by_field_name("name"), names, strict=True):
            # `import a.b` binds `a`, `import a.b as c` binds `c` to `a.b`.
            bound = local if child.type == "aliased_import" else module.partition(".")[0]
            yield Import(module, line(child), ((module, bound),))
        return
    if node.type == "future_import_statement":
        yield Import("__future__", line(node), names)
        return
    module_node = node.child_by_field_name("module_name")
    if module_node:
        module = "".join(text(source, module_node).split())
        star = any(child.type == "wildcard_import" for child in node.children)
        yield Import(module, line(node), names, star)


def _named(node: Node, source: bytes) -> tuple[str, str]:
    if node.type == "aliased_import":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        if name and alias:
            return "".join(text(source, name).split()), text(source, alias)
    name_ = "".join(text(source, node).split())
    return name_, name_


LANGUAGE = Language(
    grammar="python",
    queries=("python",),
    imports=_imports,
    bases=_bases,
    visibility=_visibility,
    comments=("#",),
)
