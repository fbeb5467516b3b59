"""Calls of a Python project: what each call site calls, and by which rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from codegraph.resolve.calls.edges import CONFIDENCE, Edge, Unresolved
from codegraph.resolve.calls.python.facts import Call, Expression, PythonFacts
from codegraph.resolve.calls.python.infer import Inference, match
from codegraph.resolve.calls.python.types import Type, Types, union

_GIVEN = 4
"""A parameter that was given more different types than this stays unknown."""
_SITES = 40


def resolve(files: Mapping[str, PythonFacts], configuration: Collection[str]) -> tuple[list[Edge], list[Unresolved]]:
    """Edges and the calls without one. `configuration` are paths of files that say where packages begin."""
    inference = Inference({path: files[path] for path in sorted(files)}, configuration)
    inference.arguments = _given(inference)
    inference.forget()
    edges: list[Edge] = []
    unresolved: list[Unresolved] = []
    for file, facts in inference.files.items():
        for call in facts.calls:
            caller = facts.scopes[call.scope].qname
            try:
                callees = list(_callees(inference, file, call))
            except RecursionError:  # imports and calls that lead to each other without an end
                callees = []
            for item, rule in callees:
                callee = inference.scope(item)
                edges.append(Edge(file, caller, item[1], callee.qname, call.line, rule, CONFIDENCE[rule]))
            if not callees:
                unresolved.append(Unresolved(file, caller, call.text, call.line))
    return edges, unresolved


def _callees(inference: Inference, file: str, call: Call) -> Iterator[tuple[Type, str]]:
    seen: set[tuple[str, int]] = set()
    for item in _targets(inference, inference.expression(file, call.callee)):
        if item[1:3] not in seen and inference.scope(item).kind in ("class", "function"):
            seen.add(item[1:3])
            yield item, _rule(inference, file, call, item)


def _targets(inference: Inference, types: Types) -> Types:
    parts: list[Types] = []
    for item in types:
        if item[0] in ("F", "M", "K"):
            parts.append((item,))
        elif item[0] == "I":
            parts.append(tuple(found for found in inference.member(item, "__call__")[0] if found[0] == "M"))
        elif item[0] == "A" and item[2][0] == "s":
            parts.append(tuple(found for found in inference.expression(item[1], item[2][1]) if found[0] == "K"))
        elif item[0] == "P":
            parts.append(_targets(inference, item[1]))
    return union(parts)


def _rule(inference: Inference, file: str, call: Call, item: Type) -> str:
    if item[0] == "K":
        return "constructor"
    callee = call.callee
    bindings = inference.files[file].bindings
    if callee[0] == "n":
        return "local" if item[1] == file else "import"
    if callee[0] == "v":
        kinds = {bindings[number][0] for number in callee[1]}
        if kinds <= {"def", "import", "from"}:
            return "local" if item[1] == file else "import"
        return "argument" if "param" in kinds else "return-type"
    if callee[0] != "a" or item[0] != "M":
        return ("local" if item[1] == file else "import") if callee[0] == "a" else "return-type"
    base = callee[1]
    if _is_self(inference, file, base) or _is_super(inference, file, base):
        own = item[3][1:3]
        parent = inference.scope(item).parent
        return "self" if own == (item[1], parent) else "inherited"
    return _origin(inference, file, base)


def _origin(inference: Inference, file: str, base: Expression) -> str:
    bindings = inference.files[file].bindings
    if base[0] == "a":
        return "attribute-type"
    if base[0] == "c":
        return "return-type"
    if base[0] == "v" and len(base[1]) == 1:
        binding = bindings[base[1][0]]
        if binding[0] == "param":
            parameter = inference.files[file].scopes[binding[1]].params[binding[2]]
            return "annotation" if parameter.annotation is not None else "argument"
        if binding[0] == ":":
            return "annotation"
        if binding[0] == "=" and binding[1][0] == "a":
            return "attribute-type"
    return "return-type"


def _is_self(inference: Inference, file: str, base: Expression) -> bool:
    if base[0] != "v" or len(base[1]) != 1:
        return False
    facts = inference.files[file]
    binding = facts.bindings[base[1][0]]
    if binding[0] != "param" or binding[2] != 0:
        return False
    return bool(facts.scopes[facts.scopes[binding[1]].parent].kind == "class")


def _is_super(inference: Inference, file: str, base: Expression) -> bool:
    return base[0] == "c" and any(item[0] == "S" for item in inference.expression(file, base))


def _given(inference: Inference) -> dict[tuple[str, int, int], Types]:
    """The types of arguments at resolved calls, by file, scope and position of an un-annotated parameter."""
    sites: dict[tuple[str, int, int], list[tuple[str, Expression]]] = {}
    for file, facts in inference.files.items():
        for call in facts.calls:
            if not call.args and not call.keywords:
                continue
            for item in _targets(inference, inference.expression(file, call.callee)):
                bound = item[0] == "M"
                if item[0] == "K":
                    methods = [
                        found for found in inference.member(("I", *item[1:3], ()), "__init__")[0] if found[0] == "M"
                    ]
                    if not methods:
                        continue
                    item, bound = methods[0], True
                function = inference.scope(item)
                for parameter, value in match(call, function.params[1:] if bound else function.params):
                    if parameter.annotation is None:
                        position = function.params.index(parameter)
                        sites.setdefault((item[1], item[2], position), []).append((file, value))
    found: dict[tuple[str, int, int], Types] = {}
    for key, values in sites.items():
        types = union(inference.expression(file, value) for file, value in values[:_SITES])
        if 0 < len(types) <= _GIVEN:
            found[key] = types
    return found
