"""What messages and logs must not repeat: values of environments, arguments, and what looks like a credential. Pure.

A runtime's message quotes the command that it could not run, and a program prints its configuration. Values that stand
in a pod's own specification are known and are replaced wherever they appear; what comes from a Secret is not known
here, and is recognized by what it looks like, or not at all. So a log is never shown unless its namespace allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "***"
_SHORTEST = 4
_MOST_VALUES = 2000
_PORT = re.compile(r"[0-9]{1,5}|true|false|yes|no|none|null|info|debug|warning|error", re.IGNORECASE)
_NAMES = r"password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?"
_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(r"(://)[^\s/@:]*:[^\s/@]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            rf"(?i)([\w.-]*(?:{_NAMES})[\w.-]*[\"']?[:=]\s*)(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"',;&{{}}()\[\]]+)"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)(--[\w-]*(?:" + _NAMES + r")[\w-]*\s+)(?!--)\S+"), rf"\1{HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (
        re.compile(
            r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{20,}|xox[abprs]-[\w-]{10,})"
        ),
        HIDDEN,
    ),
)


class Hidden:
    """The values of these pods and pod templates, by their specifications."""

    def __init__(self, specs: Iterable[Mapping[str, Any]]) -> None:
        values: set[str] = set()
        shown: set[str] = set()
        for spec in specs:
            for one in containers(spec):
                values |= _values(one)
                # The program is named in messages that say why it does not start.
                shown |= {str(one.get("name") or ""), str(one.get("image") or ""), *(one.get("command") or ())[:1]}
        kept = sorted((one for one in values - shown if _tells(one)), key=lambda one: (-len(one), one))
        self._values = kept[:_MOST_VALUES]

    def text(self, value: object, most: int, *, end: bool = False) -> str:
        """A text of others without what is to be hidden, plain, and its beginning, or its `end`, where it is long."""
        if not isinstance(value, str):
            return ""
        for one in self._values:
            value = value.replace(one, HIDDEN)
        for pattern, instead in _PATTERNS:
            value = pattern.sub(instead, value)
        plain = "".join(one for one in value if one.isprintable() or one in "\n\t")
        if len(plain) <= most:
            return plain
        return f"…{plain[1 - most :]}" if end else f"{plain[: most - 1]}…"


def containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All containers of a pod's specification."""
    return [one for name in ("initContainers", "containers", "ephemeralContainers") for one in spec.get(name) or ()]


def _values(container: Mapping[str, Any]) -> set[str]:
    words = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
    found = {str(one.get("value") or "") for one in container.get("env") or ()}
    found |= {str(one) for one in words} | {str(one).partition("=")[2] for one in words}
    return found


def _tells(value: str) -> bool:
    """Whether a value is more than a switch or a port."""
    return len(value.strip()) >= _SHORTEST and not _PORT.fullmatch(value)
