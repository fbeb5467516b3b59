"""Calls of a Go project: the function, method or interface method that each call site names, as go/types has it."""

from __future__ import annotations

from collections.abc import Mapping

from codegraph.resolve.calls.edges import CONFIDENCE, Edge, Unresolved
from codegraph.resolve.calls.go.facts import Expression, GoFacts
from codegraph.resolve.calls.go.infer import Inference


def resolve(files: Mapping[str, GoFacts], configuration: Mapping[str, bytes]) -> tuple[list[Edge], list[Unresolved]]:
    """Edges and the calls without one. `configuration` are the contents of `go.mod` files by path."""
    inference = Inference({path: files[path] for path in sorted(files)}, configuration)
    edges: list[Edge] = []
    unresolved: list[Unresolved] = []
    for file, facts in inference.files.items():
        for call in facts.calls:
            try:
                found = _callee(inference, file, call.callee)
            except RecursionError:  # types that lead to each other without an end
                found = None
            if found is None:
                unresolved.append(Unresolved(file, call.caller, call.text, call.line))
            else:
                path, qname, rule = found
                edges.append(Edge(file, call.caller, path, qname, call.line, rule, CONFIDENCE[rule]))
    return edges, unresolved


def _callee(inference: Inference, file: str, callee: Expression) -> tuple[str, str, str] | None:
    """The file, the name and the rule."""
    if callee[0] == "ix":
        return _callee(inference, file, callee[1])
    if (function := inference.function(file, callee)) is not None:
        path, named = function
        return path, named.name, "local" if path == file else "import"
    if callee[0] != ".":
        return None
    base = inference.expression(file, callee[1])
    if base is None or base[0] in ("pkg", "xpkg"):
        return None
    member = inference.member(base[1] if base[0] == "type" else base, callee[2], file)
    if member is None or not member.qname:
        return None
    return member.file, member.qname, _rule(inference, file, callee[1], base, member.qname)


def _rule(inference: Inference, file: str, base: Expression, item: tuple[object, ...], qname: str) -> str:
    while item[0] in ("*", "type"):
        item = item[1]  # type: ignore[assignment]
    owner = qname.partition(".")[0]
    shape = inference.shape(item)
    if shape is not None and shape[0] == "iface":
        return "interface"
    if item[0] == "N" and item[2] != owner:
        return "inherited"
    if base[0] == ".":
        return "attribute-type"
    if base[0] == "v":
        return "annotation" if inference.files[file].bindings[base[1]][0] == "is" else "return-type"
    return "return-type"
