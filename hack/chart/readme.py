"""The README's table of values: names and descriptions from values.schema.json, defaults from values.yaml.

Settings that values.yaml leaves out have the default of the process that reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from crds import modelroles
from hack.chart import settings
from hack.chart.settings import CHART

_BEGIN = "<!-- values: written by `python -m hack.chart` -->\n"
_END = "<!-- end of values -->\n"
# Their insides are Kubernetes' own shapes, or are explained in one place for all components.
_WHOLE = ("resources", "digest", "pullPolicy", "tag", "repository", "ports", "to")
_PROCESSES = {block.path: block for block in settings.PROCESSES}
_LIMIT = "of what `router.resources.limits.memory` leaves beside 96 MiB"
_WEAVIATE, _ARANGO = "Weaviate's own", "ArangoDB's own"
_BACKEND = "the GpuBackend's"
_CHAT = "that of `models.numCtx.chat`"
COMPUTED = {
    "image.tag": "`appVersion` of the chart",
    "simulator.image.tag": "`appVersion` of the chart",
    "router.settings.maxBufferedBytes": f"half {_LIMIT}",
    "router.settings.maxConnections": f"one for each 40 KiB of three eighths {_LIMIT}",
    "router.settings.anonymousCeiling": "no ceiling",
    "router.settings.drainSeconds": "`router.terminationGracePeriodSeconds` less 10",
    **{
        f"models.{one.name}": f"that of `models.chat`, else `{one.default}`"
        for one in modelroles.ROLES
        if one.chat and one.default
    },
    **{f"models.numCtx.{name}": _CHAT for name in ("orchestrator", "qualifier", "fast", "decision")},
    "models.numCtx.vision": _BACKEND,
    "kb.settings.weaviateEf": _WEAVIATE,
    "kb.settings.weaviateEfConstruction": _WEAVIATE,
    "kb.settings.weaviateMaxConnections": _WEAVIATE,
    "kb.settings.weaviateDynamicThreshold": _WEAVIATE,
    "kb.settings.weaviateReplicas": _WEAVIATE,
    "kb.settings.arangoShards": _ARANGO,
    "kb.settings.arangoReplication": _ARANGO,
    "kb.settings.arangoWriteConcern": _ARANGO,
}
"""Defaults that are no constant: what they follow from, in Markdown."""


class UnknownError(ValueError):
    """A value without a default; the message names it."""


def rendered() -> str:
    """The whole README with a fresh table. Raises ValueError when its two marks are missing."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"README.md: the lines {_BEGIN.strip()} and {_END.strip()} must stand in it")
    return before + begin + table() + end + after


def table() -> str:
    """A Markdown table: value, default, meaning. Raises UnknownError for a value without a default."""
    schema = json.loads(settings.rendered())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    found = _rows(schema, schema, defaults, "")
    rows = [
        f"| `{path}` | {COMPUTED.get(path) or _cell(path, default)} | {meaning} |" for path, default, meaning in found
    ]
    return "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def _rows(root: dict[str, Any], node: dict[str, Any], default: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    target = _target(root, node)
    properties = target.get("properties", {})
    leaf = not properties or "additionalProperties" not in target or path.rpartition(".")[2] in _WHOLE
    if path and leaf:
        yield path, default, node.get("description", "")
        return
    for name, child in properties.items():
        known = default.get(name) if isinstance(default, dict) else None
        if known is None and path in _PROCESSES:
            known = _PROCESSES[path].default(name)
        below = f"{path}.{name}".lstrip(".")
        if known is not None or path in _PROCESSES or below in COMPUTED:
            yield from _rows(root, child, known, below)


def _target(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    found: dict[str, Any] = root["$defs"][reference.rpartition("/")[2]] if reference else node
    return found


def _cell(path: str, default: Any) -> str:
    if default is None:
        raise UnknownError(f"{path}: has no default; if it is computed, say so in hack/chart/readme.py")
    return "`" + json.dumps(default, ensure_ascii=False).replace("|", "\\|") + "`"
