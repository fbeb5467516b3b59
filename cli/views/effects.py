"""Effects of a task: those that wait for a person, and those that were done with what allowed them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import console, text

from cli.views import table
from crds.approvals import AllowedBy
from text import printable

_SHOWN = 2000
_HEADINGS = ("#", "TOOL", "TARGETS", "CONNECTION", "ALLOWED BY")
_ALLOWED = {
    AllowedBy.PERMIT: "permit of the task",
    AllowedBy.RULE: "standing permit",
    AllowedBy.APPROVAL: "approved",
    AllowedBy.EDITED: "approved with edited arguments",
    AllowedBy.FOR_TASK: "approved for the task",
}


def waiting(number: int, effect: Mapping[str, Any]) -> Iterator[console.RenderableType]:
    """One that waits, whole; `effect` as `crds.approvals.Recorded` on the wire."""
    named = " ".join((str(effect.get("tool")), ", ".join(str(target) for target in effect.get("targets") or ())))
    yield text.Text(f"{number}. {printable.line(named, _SHOWN)}", "bold")
    for name in ("Connection", "Agent", "Why"):
        if value := effect.get(name.lower()):
            yield text.Text(f"   {name}: {printable.line(str(value), _SHOWN)}")
    given = json.dumps(effect.get("arguments") or {}, ensure_ascii=False, indent=2)
    yield from (text.Text(f"   {line}") for line in printable.text(given).splitlines())
    for copy in effect.get("copies") or ():
        words = f"Copied from {copy.get('source') or 'what was read'}: {json.dumps(copy['text'], ensure_ascii=False)}"
        yield text.Text(f"   ! {printable.line(words, _SHOWN)}", "yellow")
        if copy.get("why"):
            yield text.Text(f"     {printable.line(str(copy['why']), _SHOWN)}")
    yield from (text.Text(f"   | {line}") for line in printable.text(str(effect.get("shown") or "")).splitlines())


def done(effects: Sequence[Mapping[str, Any]]) -> Iterator[console.RenderableType]:
    """Those that were done; `effects` as `crds.approvals.Done` on the wire."""
    if effects:
        yield text.Text("\nEffects that were done", "bold")
        yield table.plain(_HEADINGS, map(_row, enumerate(effects, 1)), indent=2)


def _row(numbered: tuple[int, Mapping[str, Any]]) -> tuple[str, ...]:
    number, effect = numbered
    targets = ", ".join(str(target) for target in effect.get("targets") or ())
    kind = str(effect.get("allowedBy") or "")
    allowed = _ALLOWED[AllowedBy(kind)] if kind in set(AllowedBy) else kind
    by = f"{allowed} ({effect['permit']})" if effect.get("permit") else allowed
    return str(number), str(effect.get("tool", "")), targets, str(effect.get("connection") or ""), by
