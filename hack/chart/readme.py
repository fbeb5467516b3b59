"""The README's table of values: names and descriptions from values.schema.json, defaults from values.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts" / "jervis"
_BEGIN = "<!-- values: written by `python -m hack.chart` -->\n"
_END = "<!-- end of values -->\n"
# Their insides are Kubernetes' own shapes, or are explained in one place for all components.
_WHOLE = ("resources", "digest", "pullPolicy", "tag", "repository", "ports", "to")


def rendered() -> str:
    """The whole README with a fresh table. Raises ValueError when its two marks are missing."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"README.md: the lines {_BEGIN.strip()} and {_END.strip()} must stand in it")
    return before + begin + table() + end + after


def table() -> str:
    """A Markdown table: value, default, meaning."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    found = _rows(schema, schema, defaults, "")
    rows = [f"| `{path}` | {_cell(default)} | {meaning} |" for path, default, meaning in found]
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
        if known is not None or path.endswith("settings"):
            yield from _rows(root, child, known, f"{path}.{name}".lstrip("."))


def _target(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    found: dict[str, Any] = root["$defs"][reference.rpartition("/")[2]] if reference else node
    return found


def _cell(default: Any) -> str:
    return "" if default is None else "`" + json.dumps(default, ensure_ascii=False).replace("|", "\\|") + "`"
