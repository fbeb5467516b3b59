"""Calls of Rust as rustc resolves them: its typed tree (`-Zunpretty=thir-tree`), read from its output.

rustc names a method of a trait by the trait, with the type that it is called on. Where that is a type of the project,
the function of its `impl` is meant, which is found by the names of the trait and the type. A compiler that is no
nightly takes the option with RUSTC_BOOTSTRAP=1.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tree_sitter

from kb.code import extraction, parsing
from kb.code.calls.rust.written import text
from kb.code.languages import rust

_BODY = re.compile(r"^DefId\((\d+):\d+ ~ ([^\[]+)\[\w+\](.*)\):$")
_CALLEE = re.compile(r"^ty: FnDef\(DefId\((\d+):\d+ ~ [^\[]+\[\w+\]([^)]*)\)(?:, \[(.*)\])?\)$")
_SPAN = re.compile(r"^(?:fn_)?span: (.+?):(\d+):(\d+): (\d+):(\d+) \(#(\d+)\)$")
_TYPE = re.compile(r"(?:&(?:'[\w{}/#]+ )?(?:mut )?)*(?:(?P<abstract>dyn |Alias|impl |\w+/#)|(?P<name>[\w:]+)(?:<|$|,))")


@dataclass(slots=True)
class Body:
    """A function or closure that was compiled: its path, file and lines."""

    path: str
    file: str
    first: int
    last: int


@dataclass(slots=True)
class Site:
    """A call in a source: file, line, whether the callee is of this crate, its path and the type it is called on: ''
    for one that is known by its bounds only, `*` for one without a name."""

    file: str
    line: int
    is_local: bool
    path: str
    subject: str


@dataclass(slots=True)
class Typed:
    bodies: list[Body] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)


def read(folder: Path, features: Iterable[str], target: Path) -> Typed:
    """What rustc says of the library in a folder."""
    wanted = ",".join(features)
    command = ["cargo", "rustc", "--lib", "--profile", "check", "-q", *(["--features", wanted] if wanted else [])]
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "CARGO_TARGET_DIR": str(target)}
    with subprocess.Popen(
        [*command, "--", "-Zunpretty=thir-tree", "-Awarnings"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        found = parse(process.stdout)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return found


def parse(lines: Iterable[str]) -> Typed:
    """Bodies and the calls that stand in the source; what macros and desugarings make is left out."""
    found = Typed()
    path, is_within, callee, is_call = "", False, None, False
    for raw in lines:
        line = raw.strip()
        if raw.startswith("body:"):
            is_within = True
        elif line.startswith("span: ") and path and is_within:
            if (span := _SPAN.match(line)) is not None:
                found.bodies.append(Body(path, span[1], int(span[2]), int(span[4])))
                path = ""
        elif line == "Call {":
            is_call, callee = True, None
        elif is_call and line.startswith("ty: ") and callee is None:
            callee = _CALLEE.match(line)
            is_call = callee is not None
        elif is_call and line == "from_hir_call: false":
            is_call = False
        elif is_call and line.startswith("fn_span: ") and callee is not None:
            span = _SPAN.match(line)
            if span is not None and span[6] == "0":
                subject = _TYPE.match(callee[3] or "")
                name = "*" if subject is None else "" if subject["abstract"] else subject["name"]
                found.sites.append(Site(span[1], int(span[2]), callee[1] == "0", callee[2].strip(":"), name))
            is_call = False
        elif raw.startswith("DefId(0:") and (body := _BODY.match(line)) is not None:
            path, is_within, is_call = body[3].strip(":"), False, False
    return found


@dataclass(slots=True)
class Names:
    """Names of functions by their places. `impls` are by trait, type and function, `types` are files by the name of a
    type, `optional` are first and last lines of macros that are called, and of what has a `cfg`."""

    functions: dict[str, list[tuple[int, int, str, str]]] = field(default_factory=dict)
    traits: dict[tuple[str, str], list[tuple[str, str, bool]]] = field(default_factory=dict)
    impls: dict[tuple[str, str, str], set[tuple[str, str]]] = field(default_factory=dict)
    types: dict[str, set[str]] = field(default_factory=dict)
    optional: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def at(self, file: str, line: int, name: str = "") -> str:
        """The qualified name of the innermost function, or class, at a line."""
        inside = [one for one in self.functions.get(file, ()) if one[0] <= line <= one[1] and name in ("", one[3])]
        return max(inside)[2] if inside else ""


def names(folder: Path, paths: Iterable[str]) -> Names:
    """The names of declarations in files, by kb.code."""
    found = Names()
    for path in paths:
        raw = (folder / path).read_bytes()
        facts = extraction.extract(path, raw, "rust")
        found.functions[path] = [(one.line, one.end_line, one.qname, one.name) for one in facts.symbols]
        for symbol in facts.symbols:
            if symbol.kind == "class":
                found.types.setdefault(symbol.name, set()).add(path)
        tree = parsing.parse(raw, "rust", 5.0)
        for node in _nodes(tree.root_node):
            if node.type in ("macro_invocation", "attribute_item"):
                last = node.next_named_sibling if node.type == "attribute_item" else node
                lines = node.start_point.row + 1, (last or node).end_point.row + 1
                found.optional.setdefault(path, []).append(lines)
                continue
            body = node.child_by_field_name("body")
            functions = [one for one in body.named_children if one.type.startswith("function_")] if body else []
            for function in functions:
                named = function.child_by_field_name("name")
                if named is None:
                    continue
                name = text(raw, named)
                qname = found.at(path, named.start_point.row + 1, name)
                if node.type == "trait_item":
                    owner = text(raw, node.child_by_field_name("name") or node)
                    found.traits.setdefault((owner, name), []).append((path, qname, function.type == "function_item"))
                    continue
                subject = rust.LANGUAGE.name(node, raw)
                bound = node.child_by_field_name("trait")
                if subject is not None and bound is not None:
                    plain_bound = re.sub(r"<.*", "", text(raw, bound), flags=re.DOTALL).rpartition("::")[2].strip()
                    plain = re.sub(r"<.*", "", subject.text)
                    found.impls.setdefault((plain_bound, plain, name), set()).add((path, qname))
    return found


def _nodes(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in ("trait_item", "impl_item", "macro_invocation") or (
            node.type == "attribute_item" and node.text is not None and node.text.startswith(b"#[cfg")
        ):
            yield node
        pending += node.named_children
