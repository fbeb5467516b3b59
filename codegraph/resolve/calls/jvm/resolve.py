"""Calls of a project of Java and Kotlin: the method, function or type that each call site names."""

from __future__ import annotations

from collections.abc import Mapping

from codegraph.resolve.calls.edges import CONFIDENCE, Edge, Unresolved
from codegraph.resolve.calls.jvm.facts import JvmFacts
from codegraph.resolve.calls.jvm.infer import Inference


def resolve(files: Mapping[str, JvmFacts], _: Mapping[str, bytes]) -> tuple[list[Edge], list[Unresolved]]:
    """Edges and the calls without one."""
    inference = Inference({path: files[path] for path in sorted(files)})
    edges: list[Edge] = []
    unresolved: list[Unresolved] = []
    for file, facts in inference.files.items():
        for number, call in enumerate(facts.calls):
            found = _callee(inference, file, number)
            if found is None:
                unresolved.append(Unresolved(file, call.caller, call.text, call.line))
            else:
                path, qname, rule = found
                edges.append(Edge(file, call.caller, path, qname, call.line, rule, CONFIDENCE[rule]))
    return edges, unresolved


def _callee(inference: Inference, file: str, number: int) -> tuple[str, str, str] | None:
    """The file, the name and the rule."""
    try:
        target = inference.target(file, number)
    except RecursionError:  # types that lead to each other without an end
        inference.depth = 0
        return None
    if target is None:
        return None
    if target.place is not None:
        kind = inference.names.kind(target.place)
        return (target.place[0], kind.qname, target.rule) if kind.name else None
    found = target.found
    if found is None or not found.method.qname:
        return None
    return found.place[0], found.method.qname, target.rule
