"""Calls of a project in TypeScript and JavaScript: the declaration that each call site calls, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codegraph.resolve.calls.ecma.facts import Binding, Call, EcmaFacts, Expression
from codegraph.resolve.calls.ecma.infer import Inference
from codegraph.resolve.calls.ecma.types import Type, Types
from codegraph.resolve.calls.edges import CONFIDENCE, Edge, Unresolved

_MOST = 8
"""More callees of one call are as good as unknown."""


def resolve(files: Mapping[str, EcmaFacts], configuration: Mapping[str, bytes]) -> tuple[list[Edge], list[Unresolved]]:
    """Edges and the calls without one. `configuration` are `tsconfig.json`, `package.json` and their like by path."""
    inference = Inference({path: files[path] for path in sorted(files)}, configuration)
    edges: list[Edge] = []
    unresolved: list[Unresolved] = []
    for file, facts in inference.files.items():
        for call in facts.calls:
            try:
                found = dict(_callees(inference, file, call))
            except RecursionError:  # types and imports that lead to each other without an end
                found = {}
            if not 0 < len(found) <= _MOST:
                unresolved.append(Unresolved(file, call.caller, call.text, call.line))
                continue
            for (path, qname), rule in found.items():
                edges.append(Edge(file, call.caller, path, qname, call.line, rule, CONFIDENCE[rule]))
    return edges, unresolved


def _callees(inference: Inference, file: str, call: Call) -> Iterator[tuple[tuple[str, str], str]]:
    """((file, qualified name), rule) of each."""
    callee = call.callee
    if callee[0] == "super":
        for item in inference.super(file, callee[1]):
            if item[0] == "I" and inference.of(item).kind == "class" and inference.of(item).qname:
                yield (item[1], inference.of(item).qname), "constructor"
        return
    for item in _targets(inference, inference.expression(file, callee)):
        if item[0] == "K":
            qname = inference.of(item).qname
            rule = "constructor"
        else:
            qname = inference.function(item).qname
            rule = "constructor" if call.is_new else _rule(inference, file, callee, item)
        if qname:
            yield (item[1], qname), rule


def _targets(inference: Inference, types: Types) -> Iterator[Type]:
    for item in types:
        if item[0] == "K":
            yield item
        else:
            yield from inference.signatures(item)
            if item[0] == "M":
                yield from (one for one in inference.exported(item[1], "=") if one[0] == "K")


def _rule(inference: Inference, file: str, callee: Expression, item: Type) -> str:
    function = inference.function(item)
    plain = "local" if item[1] == file else "import"
    if callee[0] == "n":
        return _of_name(inference, file, callee, plain)
    if callee[0] != ".":
        return plain if callee[0] == "f" else "return-type"
    base = callee[1]
    if base[0] == "super":
        return "inherited"
    if base[0] == "this":
        own = inference.this(file, base[1])
        is_class = function.owner >= 0 and inference.files[item[1]].classes[function.owner].kind != "object"
        is_own = any(one[1:3] == (item[1], function.owner) for one in own)
        return "inherited" if is_class and not is_own else "self"
    if function.owner >= 0 and inference.files[item[1]].classes[function.owner].kind in ("interface", "object type"):
        return "interface"
    values = inference.expression(file, base)
    if any(one[0] in ("M", "N", "K") for one in values):
        return plain
    if base[0] == "n":
        return _of_name(inference, file, base, plain)
    return "attribute-type" if base[0] == "." else "return-type"


def _of_name(inference: Inference, file: str, name: Expression, plain: str) -> str:
    kinds = {_kind(inference, file, one) for one in inference.lookup(file, name[1], name[2])}
    if kinds <= {"plain"}:
        return plain
    return "annotation" if "annotation" in kinds else "return-type"


def _kind(inference: Inference, file: str, binding: Binding) -> str:
    if binding[0] == ":":
        return "annotation"
    if binding[0] != "=":
        return "plain"
    value = binding[1]
    if value[0] == "p":
        return "annotation"
    return "plain" if value[0] in ("f", "K", "o", "imp") or (value[0] == "." and value[1][0] == "imp") else "return"
