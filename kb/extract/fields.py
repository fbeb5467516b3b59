"""The fields of an issue or a page that its text names, without a model: Jira's JSON, or lines `Name: value`."""

from __future__ import annotations

import json
import re
from typing import Any

_LINES = 60
_LINE = re.compile(r"^[\s*#>|_-]{0,6}([A-Za-z][A-Za-z ]{1,30}?)[*_ \t]{0,3}:[*_ \t]{0,3}(\S.{0,298}?)[*_\s]*$")
_NAMES = {
    "key": "key",
    "issue": "key",
    "issue key": "key",
    "status": "status",
    "state": "status",
    "type": "type",
    "issue type": "type",
    "assignee": "assignee",
    "assignees": "assignee",
    "assigned to": "assignee",
    "reporter": "reporter",
    "reported by": "reporter",
    "opened by": "reporter",
    "epic": "epic",
    "epic link": "epic",
    "parent": "epic",
    "sprint": "sprint",
    "milestone": "sprint",
    "author": "author",
    "created by": "author",
    "written by": "author",
}
LOGGED = re.compile(
    r"^\s*(?:[\[(]?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}|\d{2}:\d{2}:\d{2}"
    r"|\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b|at [\w.$<>]+\(|Traceback |Caused by: "
    r"|[A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2} |[IWEF]\d{4} \d{2}:\d{2})"
)
"""How a line begins that a program wrote."""
_NONE = frozenset({"none", "null", "nobody", "unassigned", "-", "n/a"})


def read(text: str) -> dict[str, str]:
    """The fields by our names; the first of a name holds, and one that says there is none is left out."""
    found = _json(text) if text.lstrip().startswith("{") else _lines(text)
    # JSON may spell what is no letter: a half of a pair, a NUL.
    said = {name: _letters(" ".join(value.split())) for name, value in found.items()}
    return {name: value for name, value in said.items() if value and value.casefold() not in _NONE}


def _letters(value: str) -> str:
    return value.encode("utf-8", "replace").decode().replace("\0", "")


def _lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines()[:_LINES]:
        match = _LINE.match(line[:340])
        name = _NAMES.get(match[1].strip().casefold()) if match else None
        if match and name:
            found.setdefault(name, match[2])
    return found


def _json(text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    inner = document.get("fields") if isinstance(document, dict) else None
    if not isinstance(inner, dict):
        return {}
    sprint = inner.get("sprint")
    return {
        "key": _text(document.get("key")),
        "status": _text(inner.get("status")),
        "type": _text(inner.get("issuetype")),
        "assignee": _text(inner.get("assignee")),
        "reporter": _text(inner.get("reporter")),
        "epic": _text(inner.get("epic")) or _text(inner.get("parent")),
        "sprint": _text(sprint[-1] if isinstance(sprint, list) and sprint else sprint),
    }


def _text(value: Any) -> str:
    """A text, or what an object of Jira's is called by."""
    if isinstance(value, dict):
        value = next((value[name] for name in ("displayName", "name", "key") if value.get(name)), "")
    return value if isinstance(value, str) else ""
