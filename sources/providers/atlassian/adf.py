"""The Atlassian Document Format as Markdown-like text. Pure.

Every node type of the schema has a form; of a node that is not known its texts and its attributes with text stay, so
nothing that a person wrote is dropped. Nesting deeper than `DEPTH` is written flat; a text longer than `CHARS` is cut,
and says so. Source: developer.atlassian.com "Atlassian Document Format", schema @atlaskit/adf-schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

DEPTH = 40
CHARS = 1 << 20
CUT = "[The text is longer; the rest is left out.]"
_SHOWN = ("text", "title", "url", "alt", "shortName", "label", "name")
_AROUND = {"strong": "**", "em": "*", "code": "`", "strike": "~~"}
# Marks that change how a text looks and not what it says.
_PLAIN = frozenset(
    {"underline", "subsup", "textColor", "backgroundColor", "alignment", "indentation", "breakout", "border",
     "annotation", "dataConsumer", "fragment", "fontSize"}
)  # fmt: skip

Node = Mapping[str, Any]


def text(document: Any) -> str:
    """Of a document or any node; "" for None. A text (the fields of version 2) stays as it is."""
    if isinstance(document, str):
        found = document.replace("\r\n", "\n").strip()
    else:
        found = _block(document, 0).strip("\n") if isinstance(document, Mapping) else ""
    return found if len(found) <= CHARS else f"{found[:CHARS].rstrip()}\n\n{CUT}"


def _children(node: Node) -> list[Node]:
    found = node.get("content")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, Sequence) else []


def _attrs(node: Node) -> Mapping[str, Any]:
    found = node.get("attrs")
    return found if isinstance(found, Mapping) else {}


def _block(node: Node, depth: int) -> str:
    """Without empty lines around it."""
    if depth > DEPTH:
        return _flat(node)
    kind = node.get("type")
    made = _BLOCKS.get(str(kind))
    if made is not None:
        return made(node, depth)
    if kind in _INLINES:
        return _INLINES[str(kind)](node)
    return _joined([_said(_attrs(node)), _blocks(node, depth)])


def _joined(parts: Sequence[str], between: str = "\n\n") -> str:
    return between.join(part for part in parts if part.strip())


def _blocks(node: Node, depth: int, between: str = "\n\n") -> str:
    """The children; those that are parts of a line stay in one."""
    parts: list[str] = []
    line: list[Node] = []
    for child in _children(node):
        if _inline(child):
            line.append(child)
            continue
        if line:
            parts.append(_line(line))
            line = []
        parts.append(_block(child, depth + 1))
    return _joined([*parts, _line(line)] if line else parts, between)


def _inline(node: Node) -> bool:
    return node.get("type") in _INLINES


def _line(nodes: Sequence[Node]) -> str:
    return "".join(_INLINES[str(one.get("type"))](one) for one in nodes).strip()


def _flat(node: Node) -> str:
    """The texts of a tree of any depth."""
    found, left = [], [node]
    while left:
        one = left.pop()
        found.append(str(one.get("text", "")) or _said(_attrs(one)))
        left += reversed(_children(one))
    return " ".join(part for part in found if part)


def _said(attrs: Mapping[str, Any]) -> str:
    return " ".join(str(attrs[name]) for name in _SHOWN if isinstance(attrs.get(name), str) and attrs[name].strip())


def _prefixed(content: str, first: str, others: str) -> str:
    lines = content.split("\n")
    return "\n".join([first + lines[0], *((others + one) if one else one for one in lines[1:])]).rstrip()


def _text(node: Node) -> str:
    said = str(node.get("text", ""))
    marks = node.get("marks")
    for mark in marks if isinstance(marks, Sequence) else ():
        kind = mark.get("type") if isinstance(mark, Mapping) else None
        if not said.strip() or kind in _PLAIN:
            continue
        core = said.strip()
        before, after = said[: len(said) - len(said.lstrip())], said[len(said.rstrip()) :]
        if kind == "link":
            href = str(_attrs(mark).get("href", ""))
            core = f"<{href}>" if href == core else f"[{core}]({href})"
        elif kind in _AROUND:
            core = f"{_AROUND[kind]}{core}{_AROUND[kind]}"
        said = f"{before}{core}{after}"
    return said


def _date(node: Node) -> str:
    try:
        return datetime.fromtimestamp(int(_attrs(node)["timestamp"]) / 1000, UTC).date().isoformat()
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return str(_attrs(node).get("timestamp", ""))


def _mention(node: Node) -> str:
    said = str(_attrs(node).get("text") or _attrs(node).get("id") or "")
    return said if said.startswith("@") else f"@{said}"


def _card(node: Node) -> str:
    attrs = _attrs(node)
    data = attrs.get("data")
    url = attrs.get("url") or (data.get("url") if isinstance(data, Mapping) else "")
    return f"<{url}>" if url else _said(attrs)


def _media(node: Node) -> str:
    attrs = _attrs(node)
    said = attrs.get("alt") or attrs.get("url") or attrs.get("id") or ""
    return f"[attachment: {said}]" if said else "[attachment]"


def _heading(node: Node, depth: int) -> str:
    level = _attrs(node).get("level", 1)
    content = _blocks(node, depth)
    return f"{'#' * min(max(int(level), 1), 6)} {content}" if content and isinstance(level, int) else content


def _list(mark: Callable[[Node, int], str]) -> Callable[[Node, int], str]:
    def made(node: Node, depth: int) -> str:
        items = []
        for number, child in enumerate(_children(node)):
            first = (
                ""
                if child.get("type") in ("taskList", "decisionList")
                else mark(node if not _own(child) else child, number)
            )
            content = (
                _blocks(child, depth + 1, "\n")
                if _own(child) or child.get("type") == "listItem"
                else _block(child, depth + 1)
            )
            items.append(
                _prefixed(content, first, " " * (len(first) or 2)) if first else _prefixed(content, "  ", "  ")
            )
        return _joined(items, "\n")

    return made


def _own(child: Node) -> bool:
    return child.get("type") in ("taskItem", "blockTaskItem", "decisionItem")


def _number(node: Node, number: int) -> str:
    order = _attrs(node).get("order", 1)
    return f"{(order if isinstance(order, int) else 1) + number}. "


def _task(node: Node, _: int) -> str:
    return "- [x] " if _attrs(node).get("state") == "DONE" else "- [ ] "


def _code(node: Node, _: int) -> str:
    content = "".join(str(one.get("text", "")) if one.get("type") == "text" else "\n" for one in _children(node))
    fence = "```"
    while fence in content:
        fence += "`"
    language = _attrs(node).get("language") or ""
    return f"{fence}{language}\n{content}\n{fence}"


def _titled(name: str) -> Callable[[Node, int], str]:
    def made(node: Node, depth: int) -> str:
        said = str(_attrs(node).get(name) or "")
        return _joined([f"**{said}**" if said else "", _blocks(node, depth)])

    return made


def _panel(node: Node, depth: int) -> str:
    kind = str(_attrs(node).get("panelType") or "panel").capitalize()
    return _prefixed(f"{kind}: {_blocks(node, depth)}", "> ", "> ")


def _quote(node: Node, depth: int) -> str:
    return _prefixed(_blocks(node, depth), "> ", "> ")


def _table(node: Node, depth: int) -> str:
    rows = []
    for number, row in enumerate(_children(node)):
        cells = [_blocks(cell, depth + 1, " / ").replace("\n", " ").replace("|", "\\|") for cell in _children(row)]
        rows.append(f"| {' | '.join(cells)} |")
        if number == 0:
            rows.append(f"|{' --- |' * len(cells)}")
    return "\n".join(rows)


def _extension(node: Node, depth: int) -> str:
    """What it shows is made elsewhere: its name, its texts, and its body stay."""
    attrs = _attrs(node)
    parameters = attrs.get("parameters")
    given = parameters.get("macroParams") if isinstance(parameters, Mapping) else None
    said = (
        [f"{name}={one.get('value')}" for name, one in (given or {}).items() if isinstance(one, Mapping) and name]
        if isinstance(given, Mapping)
        else []
    )
    name = attrs.get("extensionKey") or node.get("type")
    return _joined(
        [
            f"[{' '.join([str(name), *said, *([str(attrs['text'])] if attrs.get('text') else [])])}]",
            _blocks(node, depth),
        ]
    )


_INLINES: Mapping[str, Callable[[Node], str]] = {
    "text": _text,
    "hardBreak": lambda _: "\n",
    "mention": _mention,
    "emoji": lambda node: str(_attrs(node).get("text") or _attrs(node).get("shortName") or ""),
    "date": _date,
    "status": lambda node: f"[{_attrs(node).get('text', '')}]",
    "inlineCard": _card,
    "mediaInline": _media,
    "placeholder": lambda node: f"[{_attrs(node).get('text', '')}]",
    "inlineExtension": lambda node: _extension(node, 0),
}
_BLOCKS: Mapping[str, Callable[[Node, int], str]] = {
    "doc": _blocks,
    "paragraph": _blocks,
    "heading": _heading,
    "bulletList": _list(lambda *_: "- "),
    "orderedList": _list(_number),
    "listItem": _blocks,
    "taskList": _list(_task),
    "decisionList": _list(lambda *_: "- Decision: "),
    "blockquote": _quote,
    "codeBlock": _code,
    "panel": _panel,
    "rule": lambda *_: "---",
    "table": _table,
    "expand": _titled("title"),
    "nestedExpand": _titled("title"),
    "blockCard": lambda node, _: _card(node),
    "embedCard": lambda node, _: _card(node),
    "media": lambda node, _: _media(node),
    "mediaGroup": lambda node, depth: _blocks(node, depth, "\n"),
    "mediaSingle": lambda node, depth: _blocks(node, depth, "\n"),
    "caption": _blocks,
    "layoutSection": _blocks,
    "layoutColumn": _blocks,
    "extension": _extension,
    "bodiedExtension": _extension,
    "multiBodiedExtension": _extension,
    "extensionFrame": _blocks,
    "syncBlock": _extension,
    "bodiedSyncBlock": _extension,
}
