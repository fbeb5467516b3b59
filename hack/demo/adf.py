"""Atlassian Document Format to plain text. Pure.

Source: https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]
_BLOCKS = frozenset({"paragraph", "heading", "codeBlock", "listItem", "blockquote", "panel", "rule", "tableRow"})


def text(document: Node | None) -> str:
    """The readable text, one line per block; "" for no document. Unknown nodes give the text they contain."""
    if document is None:
        return ""
    lines = [line.rstrip() for line in _render(document).splitlines()]
    return "\n".join(line for line in lines if line)


def _render(node: Node) -> str:
    kind = node.get("type", "")
    attributes: Node = node.get("attrs", {})
    if kind == "text":
        return str(node["text"]) + _target(node)
    if kind == "hardBreak":
        return "\n"
    if kind in ("mention", "emoji", "status"):
        return str(attributes.get("text") or attributes.get("shortName", ""))
    if kind == "date":
        return _day(attributes)
    if kind == "inlineCard":
        return str(attributes.get("url", ""))
    inner = "".join(_render(child) for child in node.get("content", ()))
    if kind == "listItem":
        return f"- {inner.strip()}\n"
    return f"{inner}\n" if kind in _BLOCKS else inner


def _target(node: Node) -> str:
    """The address behind a link, which is information too."""
    for mark in node.get("marks", ()):
        if mark["type"] == "link":
            return f" ({mark['attrs']['href']})"
    return ""


def _day(attributes: Node) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(attributes["timestamp"]) / 1000, UTC).date().isoformat()
