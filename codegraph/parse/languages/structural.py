"""Languages that are read structurally: types, functions, methods and imports, without a reference to compare to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from codegraph.parse.facts import Import
from codegraph.parse.languages.description import Language, Name, Node, joined, line
from codegraph.parse.parsing import text

_REQUIRES = ("require", "require_relative", "load", "autoload")


def _declared(node: Node, source: bytes) -> Name | None:
    """The name inside a C or C++ declarator; `A::B::f` stands under `A.B`."""
    found = node.child_by_field_name("name") or node.child_by_field_name("declarator")
    path: list[str] = []
    while found:
        if found.type in ("qualified_identifier", "nested_namespace_specifier"):
            scope = found.child_by_field_name("scope")
            if scope:
                path.append(text(source, scope.child_by_field_name("name") or scope))
            found = found.child_by_field_name("name") or found
            if found.type == "nested_namespace_specifier":
                break
        elif found.type in ("template_type", "template_function", "template_method"):
            found = found.child_by_field_name("name")
        elif found.type == "operator_cast":
            return Name(joined(text(source, found).partition("(")[0]), found, ".".join(path))
        else:
            inner = found.child_by_field_name("declarator")
            if not inner and found.type in (
                "parenthesized_declarator",
                "reference_declarator",
                "attributed_declarator",
            ):
                inner = next(iter(found.named_children), None)
            if not inner:
                break
            found = inner
    if not found:
        return None
    return Name("".join(text(source, found).replace("::", ".").split()), found, ".".join(path))


def _csharp_name(node: Node, source: bytes) -> Name | None:
    if node.type in ("operator_declaration", "conversion_operator_declaration"):
        what = node.child_by_field_name("operator") or node.child_by_field_name("type")
        return Name(f"operator {joined(text(source, what))}", what) if what else None
    name = node.child_by_field_name("name")
    tilde = "~" if node.type == "destructor_declaration" else ""
    return Name(tilde + text(source, name), name) if name else None


def _ruby_name(node: Node, source: bytes) -> Name | None:
    name = node.child_by_field_name("name")
    return Name(text(source, name).replace("::", ".").strip("."), name) if name else None


def _swift_name(node: Node, source: bytes) -> Name | None:
    name = node.child_by_field_name("name") or next((child for child in node.children if child.type == "deinit"), None)
    if not name:
        return None
    return Name("".join(text(source, name).partition("<")[0].split()).strip("`"), name)


def _bases_in(*heads: str) -> Callable[[Node, bytes], Iterator[str]]:
    """The named children of the children that are one of `heads`."""

    def bases(node: Node, source: bytes) -> Iterator[str]:
        for head in node.children:
            if head.type in heads:
                for base in head.named_children:
                    if not base.is_extra and base.type not in ("access_specifier", "arguments", "argument_list"):
                        yield joined(text(source, base))

    return bases


def _visibility(node: Node, _: str, source: bytes) -> str:
    for child in node.children[:4]:
        if child.type in ("modifier", "visibility_modifier", "access_modifier", "modifiers"):
            written = text(source, child)
            for one in ("public", "protected", "private", "internal", "fileprivate", "open"):
                if one in written:
                    return one
    return ""


def _field(name: str, strip: str = "") -> Callable[[Node, bytes], Iterable[Import]]:
    def imports(node: Node, source: bytes) -> Iterator[Import]:
        found = node.child_by_field_name(name)
        if found:
            yield Import(text(source, found).strip(strip), line(node))

    return imports


def _csharp_imports(node: Node, source: bytes) -> Iterator[Import]:
    alias = node.child_by_field_name("name")
    for child in node.named_children:
        if child != alias and not child.is_extra:
            module = joined(text(source, child))
            yield Import(module, line(node), ((module, text(source, alias)),) if alias else (), not alias)


def _ruby_imports(node: Node, source: bytes) -> Iterator[Import]:
    method, arguments = node.child_by_field_name("method"), node.child_by_field_name("arguments")
    if method and arguments and text(source, method) in _REQUIRES:
        yield Import(text(source, arguments.named_children[0])[1:-1], line(node))


def _php_imports(node: Node, source: bytes) -> Iterator[Import]:
    if node.type != "namespace_use_declaration":
        for child in node.named_children:
            if child.type in ("string", "encapsed_string"):
                yield Import(text(source, child)[1:-1], line(node))
        return
    prefix = next((text(source, child) + "\\" for child in node.named_children if child.type == "namespace_name"), "")
    group = node.child_by_field_name("body") or node
    for clause in group.named_children:
        if clause.type == "namespace_use_clause":
            alias = clause.child_by_field_name("alias")
            names = [child for child in clause.named_children if child.type in ("name", "qualified_name")]
            module = prefix + text(source, names[0]) if names else ""
            if module:
                last = module.rpartition("\\")[2]
                yield Import(module, line(clause), ((last, text(source, alias) if alias else last),))


def _rest(node: Node, source: bytes) -> Iterator[Import]:
    """What follows the keyword `import`, as written."""
    written = joined(text(source, node))
    while written.startswith("@"):
        written = written.partition(" ")[2]
    module = written.partition(" ")[2]
    if module:
        yield Import(module, line(node), (), module.endswith(("._", ".*")))


def _bash_imports(node: Node, source: bytes) -> Iterator[Import]:
    name, argument = node.child_by_field_name("name"), node.child_by_field_name("argument")
    if name and argument and text(source, name) in ("source", "."):
        yield Import(text(source, argument).strip("\"'"), line(node))


LANGUAGES = (
    Language("bash", ("bash",), _bash_imports, comments=("#",)),
    Language("c", ("c",), _field("path", '"<>'), name=_declared),
    Language("cpp", ("cpp",), _field("path", '"<>'), name=_declared, bases=_bases_in("base_class_clause")),
    Language(
        "csharp",
        ("csharp",),
        _csharp_imports,
        name=_csharp_name,
        bases=_bases_in("base_list"),
        visibility=_visibility,
    ),
    Language("ruby", ("ruby",), _ruby_imports, name=_ruby_name, bases=_bases_in("superclass"), comments=("#",)),
    Language(
        "php",
        ("php",),
        _php_imports,
        bases=_bases_in("base_clause", "class_interface_clause"),
        visibility=_visibility,
        comments=("//", "#"),
    ),
    Language(
        "swift",
        ("swift",),
        _rest,
        name=_swift_name,
        bases=_bases_in("inheritance_specifier"),
        visibility=_visibility,
    ),
    Language(
        "scala",
        ("scala",),
        _rest,
        bases=_bases_in("extends_clause"),
        visibility=_visibility,
    ),
)
