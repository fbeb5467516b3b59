"""docs/api.md: every field of the three kinds, from the same schemas as the CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from crds import GROUP, VERSION
from crds.definitions import ALL, Definition
from crds.schema import Schema

_HEAD = f"""# The fields of the custom resources

Written by `python -m crds --write` from the models in `crds/`; do not edit. All kinds are `{GROUP}/{VERSION}`; a list
is written as `field[]`, a map as `field{{}}`. What the apiserver refuses beyond that is in
[admission.md](admission.md). `kubectl explain pt.spec` shows the same in a terminal.
"""
_ABOVE = ("| field | type | default | what it is |", "| -- | -- | -- | -- |")


def page() -> str:
    """The page as committed."""
    return "\n".join([_HEAD, *(line for definition in ALL for line in _kind(definition))])


def _kind(definition: Definition) -> Iterator[str]:
    schema = definition.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    yield f"## {definition.kind}\n"
    yield f"{schema['description']}\n"
    selectable = ", ".join(f"`{path[1:]}`" for path in definition.selectable)
    yield f"Short name `{definition.short}`. Field selectors: {selectable}.\n"
    for part in ("spec", "status"):
        yield f"### {definition.kind} {part}\n"
        yield from (f"{_cell(text)}\n" for text in _said(schema["properties"][part]))
        yield from _ABOVE
        yield from _rows(part, schema["properties"][part])
        yield ""


def _rows(path: str, node: Schema) -> Iterator[str]:
    """One row for each field below `node`, fields of fields after their field."""
    for name, child in node.get("properties", {}).items():
        default = "required" if name in node.get("required", ()) else _default(child)
        inner, suffix = _inside(child)
        where = f"{path}.{name}{suffix}"
        yield f"| `{where}` | {_type(inner)} | {default} | {_cell(' '.join(_said(child)))} |"
        yield from _rows(where, inner)


def _inside(node: Schema) -> tuple[Schema, str]:
    """What a list or a map holds, with the suffix of its path; `node` itself for anything else."""
    if "items" in node:
        return node["items"], "[]"
    if isinstance(node.get("additionalProperties"), dict):
        return node["additionalProperties"], "{}"
    return node, ""


def _type(node: Schema) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    bounds = [f"{word} {node[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in node]
    return " ".join([node.get("format") or node.get("type", "any"), *bounds])


def _default(node: Schema) -> str:
    value = node.get("default")
    return "" if value in (None, "", [], {}) else f"`{_cell(json.dumps(value, ensure_ascii=False))}`"


def _said(node: Schema) -> Iterator[str]:
    """The description, and the words with which the apiserver refuses what breaks a rule."""
    if node.get("description"):
        yield node["description"]
    for rule in node.get("x-kubernetes-validations", ()):
        yield f'Refused otherwise: "{rule["message"]}".'


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
