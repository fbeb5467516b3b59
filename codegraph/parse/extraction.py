"""The facts of one file from its bytes. Runs in a worker process (`extract.pool`): what it reads is hostile."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable

import tree_sitter

from codegraph.parse import decoding, documentation, languages, parsing, rewriting
from codegraph.parse.facts import FileFacts, Symbol, innermost
from codegraph.parse.languages.description import Language
from codegraph.parse.outline import Outline, outline

_LISTED = "method_elem"
"""A method that an interface of Go lists."""
_PACKAGED = frozenset({"java", "kotlin", "scala"})
_PACKAGE = re.compile(rb"^[ \t]*package[ \t]+([^\s;{/(\"']+)", re.MULTILINE)

LONGEST_WORDS = 20_000
"""Characters of the words of one declaration."""
_WORD = re.compile(r"[^\W\d]\w+")

Collect = Callable[[tree_sitter.Tree, bytes, str], object]
"""What reads the calls of a file out of the same tree: tree, source, language -> plain data."""

_AGAIN = 0.2
_MOST_ERRORS = 2_000


def extract(path: str, raw: bytes, language: str, collect: Collect | None = None) -> FileFacts:
    """What the file at `path` with the bytes `raw` declares and imports. Raises `parsing.UnparsableError`."""
    describe = languages.of(language)
    source = decoding.decode(raw)
    tree, found = _understood(source, describe)
    imports = tuple(one for node in found.imports for one in describe.imports(node, source))
    symbols = _symbols(found, source, describe)
    has_error = tree.root_node.has_error
    if has_error:
        symbols = _without_statements(found, symbols, describe, _broken_rows(tree))
    return FileFacts(
        path=path,
        language=language,
        digest=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        lines=decoding.count_lines(source),
        package=_package(source) if language in _PACKAGED else "",
        symbols=symbols,
        imports=imports,
        has_error=has_error,
        calls=collect(tree, source, language) if collect else None,
        words=_words(symbols, source),
    )


def _words(symbols: tuple[Symbol, ...], source: bytes) -> tuple[str, ...]:
    lines = source.decode(errors="replace").split("\n")
    own: list[list[str]] = [[] for _ in range(len(symbols) + 1)]
    for line, number in zip(lines, innermost(symbols, len(lines))[1:], strict=True):
        own[len(symbols) if number is None else number].append(line)
    return tuple(_shortened(" ".join(_WORD.findall("\n".join(some)))) for some in own)


def _shortened(words: str) -> str:
    return words if len(words) <= LONGEST_WORDS else words[: LONGEST_WORDS + 1].rpartition(" ")[0]


def _understood(source: bytes, language: Language) -> tuple[tree_sitter.Tree, Outline]:
    tree = parsing.parse(source, language.grammar)
    found = outline(tree, source, language.grammar)
    if not language.unknown or not (tree.root_node.has_error or found.suspects):
        return tree, found
    try:
        other = parsing.parse(rewriting.rewrite(source, language.unknown), language.grammar, _AGAIN)
    except parsing.UnparsableError:
        return tree, found
    again = outline(other, source, language.grammar)
    if _doubts(other, again) < _doubts(tree, found):
        return other, again
    return tree, found


def _doubts(tree: tree_sitter.Tree, found: Outline) -> int:
    return len(_broken_rows(tree)) + found.suspects if tree.root_node.has_error else found.suspects


def _broken_rows(tree: tree_sitter.Tree) -> set[int]:
    """The rows that errors cover, from 0, and those where nodes begin that have errors inside."""
    rows: set[int] = set()
    pending, errors = [tree.root_node], 0
    while pending and errors < _MOST_ERRORS:
        node = pending.pop()
        if node.is_error or node.is_missing:
            errors += 1
            rows.update(range(node.start_point.row, node.end_point.row + 1))
        elif node.has_error:
            # What follows a broken place in the same node may be broken with it.
            rows.add(node.start_point.row)
            pending += [child for child in node.children if child.has_error or child.is_missing]
    return rows


def _symbols(found: Outline, source: bytes, language: Language) -> tuple[Symbol, ...]:
    lines = source.split(b"\n")
    symbols: list[Symbol] = []
    # Traits that an `impl` gives to a type of this file.
    given: dict[str, list[str]] = {}
    for one in found.declarations:
        node, role = one.node, one.role
        if role == "body":
            given.setdefault(one.qname, []).extend(language.bases(node, source))
        if not one.kind:
            continue
        symbols.append(
            Symbol(
                kind=one.kind,
                qname=one.qname,
                name=one.name,
                line=one.name_node.start_point.row + 1,
                end_line=_last_line(node),
                container=one.container,
                visibility=language.visibility(node, one.name, source),
                is_interface=role == "interface" or (role == "class" and _is_interface(node)) or node.type == _LISTED,
                signature=documentation.head(node, one.name_node, source, language),
                bases=tuple(language.bases(node, source)) if one.kind == "class" else (),
                doc=documentation.doc(node, lines, source, language),
            )
        )
    if not given:
        return tuple(symbols)
    return tuple(_with(symbol, given.get(symbol.qname, ())) if symbol.kind == "class" else symbol for symbol in symbols)


def _without_statements(
    found: Outline, symbols: tuple[Symbol, ...], language: Language, broken: set[int]
) -> tuple[Symbol, ...]:
    """The symbols without statements that an error made look like methods (`catch (e) {}`, `while (x) {}`).

    A method of such a name is one where all around it is understood; beside an error, where it stands as far in as
    another member does, and on no line of an error.
    """
    suspects = {(one.qname, one.name_node.start_point.row + 1): one.node for one in found.declarations
                if one.name in language.reserved}  # fmt: skip
    if not suspects:
        return symbols
    columns = {
        (one.node.parent.id, one.node.start_point.column)
        for one in found.declarations
        if one.name not in language.reserved and one.node.parent is not None
    }

    def is_method(one: Symbol) -> bool:
        node = suspects.get((one.qname, one.line))
        if node is None or node.parent is None:
            return node is None
        if not node.parent.has_error:
            return True
        beside = (node.parent.id, node.start_point.column) in columns
        return beside and not node.has_error and not broken.intersection(range(one.line - 1, one.end_line))

    return tuple(one for one in symbols if is_method(one))


def _with(symbol: Symbol, bases: Iterable[str]) -> Symbol:
    return dataclasses.replace(symbol, bases=tuple(dict.fromkeys((*symbol.bases, *bases))))


def _package(source: bytes) -> str:
    """Of the line that declares it; packages of several lines in Scala follow one another."""
    found = [one.decode(errors="replace") for one in _PACKAGE.findall(source)]
    return ".".join(re.sub(r"[`\s]", "", one) for one in found)


def _last_line(node: tree_sitter.Node) -> int:
    # A node that ends with a line feed ends at column 0 of the line after it.
    end = node.end_point
    return end.row + (1 if end.column or end.row == node.start_point.row else 0)


def _is_interface(node: tree_sitter.Node) -> bool:
    """In Kotlin by a keyword of its own, in Go by the type that is declared."""
    if node.type == "type_spec":
        target = node.child_by_field_name("type")
        return target is not None and target.type == "interface_type"
    return any(child.type == "interface" for child in node.children[:2])
