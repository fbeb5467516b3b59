"""Calls of a Rust project: the function that each call site names."""

from __future__ import annotations

from collections.abc import Mapping

from kb.code.calls.edges import CONFIDENCE, Edge, Unresolved
from kb.code.calls.rust.facts import Call, RustFacts
from kb.code.calls.rust.infer import Inference
from kb.code.calls.rust.members import Method

_SOURCES = {"is": "annotation", "said": "annotation"}


def resolve(files: Mapping[str, RustFacts], configuration: Mapping[str, bytes]) -> tuple[list[Edge], list[Unresolved]]:
    """Edges and the calls without one. `configuration` are the contents of `Cargo.toml` files by path."""
    inference = Inference({path: files[path] for path in sorted(files)}, configuration)
    edges: list[Edge] = []
    unresolved: list[Unresolved] = []
    for file, facts in inference.files.items():
        for number, call in enumerate(facts.calls):
            try:
                target = inference.target(file, number)
            except RecursionError:  # types that lead to each other without an end
                target = None
            method = target.method if target is not None else None
            callee = inference.files[method.file].functions[method.function] if method is not None else None
            if method is not None and callee is not None and not callee.is_made:
                rule = _rule(inference, file, call, method)
                edges.append(Edge(file, call.caller, method.file, callee.qname, call.line, rule, CONFIDENCE[rule]))
            elif target is None or target.made is None:
                unresolved.append(Unresolved(file, call.caller, call.text, call.line))
    return edges, unresolved


def _rule(inference: Inference, file: str, call: Call, method: Method) -> str:
    callee = call.callee
    if callee[0] != "m":
        written = callee[2]
        if written[0] == "path" and written[1][0][0] == "Self" and method.how != "bound":
            return "self" if method.how == "impl" else "inherited"
        if method.how in ("bound", "trait"):
            return "interface"
        return "inherited" if method.how == "default" else "local" if method.file == file else "import"
    base = callee[1]
    source = inference.files[file].bindings[base[1]].source[0] if base[0] == "v" else ""
    if method.how == "default":
        return "inherited"
    if source == "self":
        is_own = method.how == "impl" or (method.receiver is not None and method.receiver[0] == "self")
        return "self" if is_own else "interface"
    if method.how == "bound":
        return "interface"
    return "attribute-type" if base[0] == "." else _SOURCES.get(source, "return-type")
